internal import SocketSystem

/// Why a handshake failed, a connection could not go on, or what a context was to be made of is no good.
///
/// Compare ``code``; the description is for people.
public struct TLSError: Error, Sendable, CustomStringConvertible {
  /// All there is to it, in one word: connections keep room for errors and hardly ever have one.
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

  /// An error with the cause given.
  ///
  /// - Parameters:
  ///   - code: The cause.
  ///   - detail: A clause about this case; it ends up in ``description``, so text from a peer must be escaped in it.
  ///   - reason: OpenSSL's own text.
  ///   - alert: The alert that ended the connection, as RFC 8446 names it.
  ///   - certificate: The subject of the certificate that it is about.
  ///   - underlyingError: What a closure of the program's threw.
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

  /// What ``description`` says about this case in particular.
  public var detail: String { box.contents.detail }

  /// What OpenSSL itself says, or nothing if it was not OpenSSL that found it out.
  public var reason: String {
    get { box.contents.reason }
    set { change { $0.reason = newValue } }
  }

  /// The alert that ended the connection, as RFC 8446 names it, for example `"bad_certificate"`: the one that the peer sent
  /// if the code is ``Code/alertReceived`` or if the peer refused, otherwise the one that was sent to it.
  public var alert: String? {
    get { box.contents.alert }
    set { change { $0.alert = newValue } }
  }

  /// The subject of the certificate that it is about, as it is in it: escape it before it is shown to anyone.
  public var certificate: String? {
    get { box.contents.certificate }
    set { change { $0.certificate = newValue } }
  }

  /// What a closure of the program's threw, for ``Code/rejected``.
  public var underlyingError: (any Error)? { box.contents.underlying }

  private mutating func change(_ body: (inout Contents) -> Void) {
    var contents = box.contents
    body(&contents)
    box = Box(contents)
  }

  /// One sentence that a person can act on. What came from a peer is escaped in it.
  public var description: String {
    let what = detail.isEmpty ? code.sentence : detail
    var additions: [String] = []
    if let certificate { additions.append("certificate \(AddressError.quote(certificate))") }
    if let alert { additions.append("alert \(alert)") }
    if !reason.isEmpty { additions.append("OpenSSL: \(reason)") }
    return additions.isEmpty ? "TLS: \(what)" : "TLS: \(what) (\(additions.joined(separator: ", ")))"
  }
}
