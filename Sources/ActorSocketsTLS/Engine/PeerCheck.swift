internal import COpenSSL

/// What a handshake has found out about the certificate of the peer.
struct PeerCheck {
  /// The result of the built-in checks; `nil` unless the peer showed a certificate in this handshake.
  var verdict: TLSVerdict?
  /// The result of the chain and the pins as one of OpenSSL's numbers (`X509_V_ERR_…`). A bad staple does not change it.
  private(set) var result: Int32 = 0
  /// The verified issuer of the server's certificate, until the stapled response is verified.
  var issuer: Certificate?
  /// Set by a verification with `.custom`: a closure has to decide about this peer.
  var question: TLSPeer?
  /// `nil` until the closure has decided.
  var answer: Result<Void, TLSError>?

  mutating func passed(issuer: Certificate?) {
    result = X509_V_OK
    verdict = .trusted
    self.issuer = issuer
  }

  mutating func failed(_ result: Int32, _ error: TLSError) {
    self.result = result
    verdict = .untrusted(error)
  }

  var needsAnswer: Bool { question != nil && answer == nil }

  /// Whether the certificate passed the checks, but not the response stapled to it. OpenSSL does not keep that with the
  /// session, so a resumed one would seem to be trusted.
  var hasBadStaple: Bool { result == X509_V_OK && verdict?.error != nil }
}
