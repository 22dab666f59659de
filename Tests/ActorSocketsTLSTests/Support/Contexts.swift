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
  static func server(
    _ version: TLSVersion? = nil, clientCertificates: TLSClientCertificates = .none,
    _ change: (inout TLSConfiguration) throws -> Void = { _ in }
  ) throws -> TLSContext {
    let roots = [try Identities.client.get().certificate]
    return try .made(.init(identity: Identities.server.get(), trustRoots: [.certificates(roots)]), version) {
      $0.clientCertificates = clientCertificates
      try change(&$0)
    }
  }

  static func client(
    _ version: TLSVersion? = nil, showingCertificate: Bool = false,
    _ change: (inout TLSConfiguration) throws -> Void = { _ in }
  ) throws -> TLSContext {
    let servers = [try Identities.server.get().certificate, try Identities.rsaServer.get().certificate]
    return try .made(.init(trustRoots: [.certificates(servers)]), version) {
      if showingCertificate { $0.identity = try Identities.client.get() }
      try change(&$0)
    }
  }
}

extension TLSContext {
  /// A context of a configuration that is changed, and that speaks only one version if that is given.
  static func made(
    _ configuration: TLSConfiguration = .init(), _ version: TLSVersion? = nil,
    _ change: (inout TLSConfiguration) throws -> Void = { _ in }
  ) throws -> TLSContext {
    var configuration = configuration
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
