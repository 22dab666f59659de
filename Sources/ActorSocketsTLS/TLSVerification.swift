/// How the certificate of a peer is verified.
public enum TLSVerification: Sendable {
  /// Checks everything: the certificate leads to a trusted root, is valid today and has this purpose; a server's
  /// certificate is for the name that was asked for.
  case full
  /// Accepts every certificate, whatever the checks find. An attacker between the two ends can read and change everything.
  ///
  /// Use it for tests, and to look at what a server shows. ``TLSSession/verdict`` has the result of the checks.
  case dangerouslyNone
  /// Lets the closure decide, after the checks of ``full`` and whatever their result, and before any application byte
  /// moves.
  ///
  /// The closure is called once for each handshake in which the peer shows a certificate. Clients do not call it again
  /// when they resume a session that it accepted; servers with such a closure resume no sessions. It may take as long
  /// as ``TLSConfiguration/handshakeTimeout`` allows. To refuse the peer, it returns `false` or throws; its error becomes
  /// the ``TLSError/underlyingError``.
  case custom(@Sendable (TLSPeer) async throws -> Bool)
}

/// The peer of a handshake, for a closure that decides whether to trust it.
public struct TLSPeer: Sendable {
  /// The certificates as the peer sent them, beginning with its own.
  public let certificates: [TLSCertificate]
  /// The result of the built-in checks.
  public let verdict: TLSVerdict
  /// The side that this end takes, with the name that a client asked for.
  public let role: TLSRole

  /// The peer's own certificate.
  public var certificate: TLSCertificate? { certificates.first }
}

/// The result of the built-in checks of a peer's certificate.
@nonexhaustive
public enum TLSVerdict: Sendable {
  /// The certificate passed all checks.
  case trusted
  /// The certificate failed a check, for this reason.
  case untrusted(TLSError)
  /// The peer showed no certificate: a client that was not asked for one, or that did not have to show one.
  case noCertificate

  /// Whether there was a certificate and it passed.
  public var isTrusted: Bool { if case .trusted = self { true } else { false } }

  /// Why the certificate did not pass; `nil` if it passed, or if the peer showed no certificate.
  public var error: TLSError? { if case .untrusted(let error) = self { error } else { nil } }
}

/// Whether a server asks its clients for certificates.
public enum TLSClientCertificates: Sendable, Hashable {
  /// The server does not ask.
  case none
  /// The server asks and verifies what it gets. It also serves clients without a certificate.
  case optional
  /// The server asks and refuses clients without a certificate.
  case required
}
