import ActorSocketsTLS

/// Contexts and identities that are made once for all tests here.
enum Made {
  static let identity = Result {
    try TLSIdentity.selfSigned(for: ["example.org", "*.example.org", "192.0.2.1", "::1"])
  }
  static let other = Result { try TLSIdentity.selfSigned(for: ["other.example"], key: .rsa2048) }
  static let client = Result { try TLSIdentity.selfSigned(for: ["client.example"]) }

  /// A server that shows `identity`.
  static func server(_ change: (inout TLSConfiguration) throws -> Void = { _ in }) throws -> TLSContext {
    var configuration = TLSConfiguration(identity: try identity.get())
    try change(&configuration)
    return try TLSContext(configuration)
  }

  /// A client that trusts `identity` and `other`.
  static func client(_ change: (inout TLSConfiguration) throws -> Void = { _ in }) throws -> TLSContext {
    let roots = [try identity.get().certificate, try other.get().certificate]
    var configuration = TLSConfiguration(trustRoots: [.certificates(roots)])
    try change(&configuration)
    return try TLSContext(configuration)
  }
}
