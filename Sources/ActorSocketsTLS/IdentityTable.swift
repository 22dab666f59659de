/// The identities of a server by the names that clients ask for.
struct IdentityTable: Sendable {
  private var exact: [String: TLSIdentity] = [:]
  /// By the name behind `*.`.
  private var wildcards: [String: TLSIdentity] = [:]
  let fallback: TLSIdentity?

  /// - Throws: `TLSError` with the code `.invalidServerName` if a name is invalid.
  init(fallback: TLSIdentity?, named identities: [String: TLSIdentity]) throws(TLSError) {
    self.fallback = fallback
    for (name, identity) in identities {
      let isWildcard = name.hasPrefix("*.")
      let host = try ServerName(parsing: isWildcard ? String(name.dropFirst(2)) : name).text
      if isWildcard { wildcards[host] = identity } else { exact[host] = identity }
    }
  }

  var isEmpty: Bool { fallback == nil && exact.isEmpty && wildcards.isEmpty }

  /// All identities.
  var all: [TLSIdentity] { Array(exact.values) + Array(wildcards.values) + (fallback.map { [$0] } ?? []) }

  /// The identity for a name: the exact entry, or a wildcard in place of the first label, or the fallback.
  func identity(for name: String?) -> TLSIdentity? {
    guard let name = name.map(Self.normalized) else { return fallback }
    if let identity = exact[name] { return identity }
    if let dot = name.firstIndex(of: "."), let identity = wildcards[String(name[name.index(after: dot)...])] {
      return identity
    }
    return fallback
  }

  /// A name in the form of `ServerName`. A client may send anything; an invalid name matches no entry.
  private static func normalized(_ name: String) -> String {
    let bytes = name.utf8.map(ServerName.lowercased)
    return String(decoding: bytes.last == UInt8(ascii: ".") ? bytes.dropLast() : bytes[...], as: UTF8.self)
  }
}
