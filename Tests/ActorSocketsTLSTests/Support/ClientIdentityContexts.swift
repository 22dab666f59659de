import TestSupport

@testable import ActorSocketsTLS

extension Made {
  /// A client that shows this certificate, and a server that trusts it.
  static func contexts(
    withClient identity: TLSIdentity, _ version: TLSVersion, resumes: Bool = true
  ) throws -> (client: TLSContext, server: TLSContext) {
    let client = try client {
      $0.identity = identity
      $0.limit(to: version)
    }
    let server = try server {
      $0.trustRoots = [.certificates([identity.certificate])]
      $0.clientCertificates = .required
      $0.allowsResumption = resumes
    }
    return (client, server)
  }
}
