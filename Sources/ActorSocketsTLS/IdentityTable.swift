internal import SocketSystem

/// A client may ask for any name, so names are compared as bytes.
struct IdentityTable: Sendable {
  private var exact: [[UInt8]: TLSIdentity] = [:]
  /// By the name after `*.`.
  private var wildcards: [[UInt8]: TLSIdentity] = [:]
  let fallback: TLSIdentity?

  init(fallback: TLSIdentity?, named identities: [String: TLSIdentity]) throws(TLSError) {
    self.fallback = fallback
    for (pattern, identity) in identities {
      let (name, isWildcard) = try ServerName.pattern(pattern)
      let host = Array(name.text.utf8)
      if isWildcard { wildcards[host] = identity } else { exact[host] = identity }
    }
  }

  var isEmpty: Bool { fallback == nil && exact.isEmpty && wildcards.isEmpty }

  /// The identity for a name: the exact entry, or a wildcard for the first label, or the fallback.
  func identity(for name: String?) -> TLSIdentity? {
    guard let name = name?.hostNameBytes else { return fallback }
    if let identity = exact[name] { return identity }
    if let dot = name.firstIndex(of: UInt8(ascii: ".")), let identity = wildcards[Array(name[(dot + 1)...])] {
      return identity
    }
    return fallback
  }
}
