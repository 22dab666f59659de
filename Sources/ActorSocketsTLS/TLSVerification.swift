/// How the certificate of a peer is judged.
public enum TLSVerification: Sendable {
  /// Everything is checked: it leads to a trusted root, is valid today, is meant for this purpose, and a server's is for
  /// the name that was asked for.
  case full
  /// Nothing is checked. Whoever is between the two ends can read and change everything: for tests and for looking at
  /// what a server has. The verdict can still be asked for (``TLSSession/verdict``).
  case dangerouslyNone
  /// The closure decides, after the checks of ``full`` and whatever they came to, and before any application byte moves.
  ///
  /// It is asked once for each handshake in which the peer shows a certificate; clients do not ask again when they resume
  /// a session that it had accepted, and servers with such a closure resume none. It may take its time, within
  /// ``TLSConfiguration/handshakeTimeout``. To refuse, return `false` or throw: the error is then the
  /// ``TLSError/underlyingError``.
  case custom(@Sendable (TLSPeer) async throws -> Bool)
}

/// What a peer has shown of itself, for a closure that decides whether it is to be trusted.
public struct TLSPeer: Sendable {
  /// The certificates as the peer sent them, its own first.
  public let certificates: [TLSCertificate]
  /// What the built-in checks came to.
  public let verdict: TLSVerdict
  /// Which side this is, and the name that was asked for.
  public let role: TLSRole

  /// The peer's own certificate.
  public var certificate: TLSCertificate? { certificates.first }
}

/// What the built-in checks of a peer's certificate came to.
public enum TLSVerdict: Sendable {
  /// It is what it should be.
  case trusted
  /// It is not, and why.
  case untrusted(TLSError)
  /// The peer showed no certificate: a client that was not asked, or did not have to.
  case noCertificate

  /// Whether there was a certificate that passed.
  public var isTrusted: Bool { if case .trusted = self { true } else { false } }

  /// Why it did not pass.
  public var error: TLSError? { if case .untrusted(let error) = self { error } else { nil } }
}

/// Whether a server asks its clients for certificates.
public enum TLSClientCertificates: Sendable, Hashable {
  /// It does not.
  case none
  /// It asks, and verifies what it gets; a client without one is served, too.
  case optional
  /// It asks, and a client without one is refused.
  case required
}
