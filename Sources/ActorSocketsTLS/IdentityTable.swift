internal import SocketSystem

/// The identities of a server by the names that clients ask for. A client may ask for anything, so names are compared as bytes.
struct IdentityTable: Sendable {
  private var exact: [[UInt8]: TLSIdentity] = [:]
  /// By the name behind `*.`.
  private var wildcards: [[UInt8]: TLSIdentity] = [:]
  let fallback: TLSIdentity?

  /// - Throws: `TLSError` with the code `.invalidServerName` if a name is invalid.
  init(fallback: TLSIdentity?, named identities: [String: TLSIdentity]) throws(TLSError) {
    self.fallback = fallback
    for (pattern, identity) in identities {
      let (name, isWildcard) = try ServerName.pattern(pattern)
      let host = Array(name.text.utf8)
      if isWildcard { wildcards[host] = identity } else { exact[host] = identity }
    }
  }

  var isEmpty: Bool { fallback == nil && exact.isEmpty && wildcards.isEmpty }

  /// The identity for a name: the exact entry, or a wildcard in place of the first label, or the fallback.
  func identity(for name: String?) -> TLSIdentity? {
    guard let name = name?.hostNameBytes else { return fallback }
    if let identity = exact[name] { return identity }
    if let dot = name.firstIndex(of: UInt8(ascii: ".")), let identity = wildcards[Array(name[(dot + 1)...])] {
      return identity
    }
    return fallback
  }
}
