/// What an observer hears of a handshake: TLS, as texts, for this module knows nothing of it.
public struct ObservedHandshake: Hashable, Sendable, CustomStringConvertible {
  /// The version that is spoken, for example `TLS 1.3`.
  public let version: String
  /// The cipher suite by its registered name, for example `TLS_AES_256_GCM_SHA384`.
  public let cipherSuite: String
  /// The protocol that was agreed on inside (ALPN); `nil` if none was.
  public let applicationProtocol: String?
  /// Whether an earlier session was resumed.
  public let isResumed: Bool

  package init(version: String, cipherSuite: String, applicationProtocol: String?, isResumed: Bool) {
    self.version = version
    self.cipherSuite = cipherSuite
    self.applicationProtocol = applicationProtocol
    self.isResumed = isResumed
  }

  /// One line for logs.
  public var description: String {
    let inside = applicationProtocol.map { " \($0.debugDescription)" } ?? ""
    return "\(version) \(cipherSuite)\(inside)\(isResumed ? ", resumed" : "")"
  }
}
