@testable import ActorSocketsTLS

/// Contexts and identities that are made once for all tests here.
enum Made {
  static let identity = Result {
    try TLSIdentity.selfSigned(for: ["example.org", "*.example.org", "192.0.2.1", "::1"])
  }
  static let other = Result { try TLSIdentity.selfSigned(for: ["other.example"], key: .rsa2048) }
  static let client = Result { try TLSIdentity.selfSigned(for: ["client.example"]) }

  /// A server that shows `identity`.
  static func server(_ change: (inout TLSConfiguration) throws -> Void = { _ in }) throws -> TLSContext {
    try .made(.init(identity: identity.get()), nil, change)
  }

  /// A client that trusts `identity` and `other`.
  static func client(_ change: (inout TLSConfiguration) throws -> Void = { _ in }) throws -> TLSContext {
    let roots = [try identity.get().certificate, try other.get().certificate]
    return try .made(.init(trustRoots: [.certificates(roots)]), nil, change)
  }

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
