/// The result of a TLS handshake, for observers. The values are text, because this module does not depend on TLS.
public struct ObservedHandshake: Hashable, Sendable, CustomStringConvertible {
  /// The protocol version, for example `TLS 1.3`.
  public let version: String
  /// The registered name of the cipher suite, for example `TLS_AES_256_GCM_SHA384`.
  public let cipherSuite: String
  /// The application protocol that was negotiated (ALPN); `nil` if no protocol was negotiated.
  public let applicationProtocol: String?
  /// Whether an earlier session was resumed.
  public let isResumed: Bool

  package init(version: String, cipherSuite: String, applicationProtocol: String?, isResumed: Bool) {
    self.version = version
    self.cipherSuite = cipherSuite
    self.applicationProtocol = applicationProtocol
    self.isResumed = isResumed
  }

  /// A description in one line, for logs.
  public var description: String {
    let inside = applicationProtocol.map { " \($0.debugDescription)" } ?? ""
    return "\(version) \(cipherSuite)\(inside)\(isResumed ? ", resumed" : "")"
  }
}
