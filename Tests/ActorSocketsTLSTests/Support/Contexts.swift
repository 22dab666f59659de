import Testing

@testable import ActorSocketsTLS

extension TLSVersion {
  static let both = [TLSVersion.v12, .v13]
}

/// Identities that are made once: making a key takes a while.
enum Identities {
  static let server = Result { try TLSIdentity.selfSigned(for: ["server.test", "127.0.0.1"]) }
  static let rsaServer = Result { try TLSIdentity.selfSigned(for: ["server.test", "127.0.0.1"], key: .rsa2048) }
  static let client = Result { try TLSIdentity.selfSigned(for: ["client.test"]) }
  static let stranger = Result { try TLSIdentity.selfSigned(for: ["stranger.test"]) }
}

/// Contexts of both sides that go together.
enum Contexts {
  /// A server's, of one version.
  static func server(
    _ version: TLSVersion? = nil, clientCertificates: TLSClientCertificates = .none,
    _ change: (inout TLSConfiguration) throws -> Void = { _ in }
  ) throws -> TLSContext {
    var configuration = TLSConfiguration(
      identity: try Identities.server.get(), trustRoots: [.certificates([try Identities.client.get().certificate])])
    configuration.clientCertificates = clientCertificates
    configuration.limit(to: version)
    try change(&configuration)
    return try TLSContext(configuration)
  }

  /// A client's, of one version.
  static func client(
    _ version: TLSVersion? = nil, showingCertificate: Bool = false,
    _ change: (inout TLSConfiguration) throws -> Void = { _ in }
  ) throws -> TLSContext {
    let servers = [try Identities.server.get().certificate, try Identities.rsaServer.get().certificate]
    var configuration = TLSConfiguration(trustRoots: [.certificates(servers)])
    if showingCertificate { configuration.identity = try Identities.client.get() }
    configuration.limit(to: version)
    try change(&configuration)
    return try TLSContext(configuration)
  }
}

extension TLSConfiguration {
  /// Speaks only this version; `nil` changes nothing.
  mutating func limit(to version: TLSVersion?) {
    guard let version else { return }
    minimumVersion = version
    maximumVersion = version
  }
}
