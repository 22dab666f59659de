public import ActorSockets
internal import SocketSystem

/// An error of a handshake, of an established connection, or of the certificates and settings of a context.
///
/// Programs compare ``code``; ``description`` is for people.
public struct TLSError: Error, Sendable, CustomStringConvertible {
  /// One word of memory: connections reserve room for errors but rarely have one.
  private var box: Box

  private final class Box: Sendable {
    let contents: Contents
    init(_ contents: Contents) { self.contents = contents }
  }

  private struct Contents: Sendable {
    var code: Code
    var detail: String
    var reason: String
    var alert: String?
    var certificate: String?
    var underlying: (any Error)?
  }

  /// Makes an error with a cause.
  ///
  /// - Parameters:
  ///   - code: The cause.
  ///   - detail: A clause about this case. It becomes part of ``description``, so escape text from a peer.
  ///   - reason: OpenSSL's own text.
  ///   - alert: The alert that ended the connection, by its name in RFC 8446.
  ///   - certificate: The subject of the certificate concerned.
  ///   - underlyingError: The error that a closure of the program threw.
  public init(
    _ code: Code, detail: String = "", reason: String = "", alert: String? = nil, certificate: String? = nil,
    underlyingError: (any Error)? = nil
  ) {
    box = Box(
      Contents(
        code: code, detail: detail, reason: reason, alert: alert, certificate: certificate,
        underlying: underlyingError))
  }

  /// The cause.
  public var code: Code { box.contents.code }

  /// A clause about this case, part of ``description``.
  public var detail: String { box.contents.detail }

  /// OpenSSL's own text; empty if the error was not found by OpenSSL.
  public var reason: String {
    get { box.contents.reason }
    set { change { $0.reason = newValue } }
  }

  /// The alert that ended the connection, by its name in RFC 8446, for example `"bad_certificate"`; `nil` if no
  /// alert ended it.
  ///
  /// It is the peer's alert if the code is ``Code/alertReceived`` or if the peer refused, otherwise the alert sent to
  /// the peer.
  public var alert: String? {
    get { box.contents.alert }
    set { change { $0.alert = newValue } }
  }

  /// The subject of the certificate concerned, as written in the certificate: escape it before you show it. `nil` if
  /// the error concerns no certificate.
  public var certificate: String? {
    get { box.contents.certificate }
    set { change { $0.certificate = newValue } }
  }

  /// The error that a closure of the program threw, with ``Code/rejected``; otherwise `nil`.
  public var underlyingError: (any Error)? { box.contents.underlying }

  /// Whether the peer caused the error: its certificates or its messages were refused, it refused this side, it ended the connection, or it
  /// was too slow. Otherwise the cause is in the configuration or on this machine.
  public var isCausedByPeer: Bool {
    switch code {
    case .revocationUnknown, .revocationListExpired, .noIdentity, .keyMismatch, .badFile, .wrongPassphrase,
      .noTrustRoots, .invalidServerName,
      .invalidConfiguration, .exporterUnavailable, .internalError:
      false
    default: true
    }
  }

  private mutating func change(_ body: (inout Contents) -> Void) {
    var contents = box.contents
    body(&contents)
    box = Box(contents)
  }

  /// A sentence that a person can act on. Text from a peer is escaped in it.
  public var description: String {
    let what = detail.isEmpty ? code.sentence : detail
    var additions: [String] = []
    if let certificate { additions.append("certificate \(AddressError.quote(certificate))") }
    if let alert { additions.append("alert \(alert)") }
    if !reason.isEmpty { additions.append("OpenSSL: \(reason)") }
    return additions.isEmpty ? "TLS: \(what)" : "TLS: \(what) (\(additions.joined(separator: ", ")))"
  }
}

extension TLSError: NetworkError {
  /// Whether the handshake took longer than ``TLSConfiguration/handshakeTimeout``.
  public var isTimeout: Bool { code == .handshakeTimedOut }

  /// Whether the same work may succeed on a new connection: the connection was cut off or damaged, the peer was too slow, or it reported an
  /// internal error. It is `false` if a certificate or a setting of either side has to change first.
  public var isRetryable: Bool {
    switch code {
    case .truncated, .closedDuringHandshake, .handshakeTimedOut, .protocolError: true
    case .alertReceived: [TLSAlert.internalError, TLSAlert.userCanceled].contains { alert == TLSAlert.name($0) }
    default: false
    }
  }
}

extension TLSError.Code {
  /// Matches an error with this code, so that `catch TLSError.Code.truncated`, or `catch .truncated`, handles exactly that.
  ///
  /// - Parameters:
  ///   - code: The code.
  ///   - error: An error of any type.
  /// - Returns: Whether the error is a ``TLSError`` with this code, or a `PipeError` with such an error.
  public static func ~= (code: TLSError.Code, error: any Error) -> Bool {
    (PipeError.cause(of: error) as? TLSError)?.code == code
  }
}
