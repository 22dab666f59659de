extension TLSError {
  /// The cause of an error, for programs to compare. Later versions may add codes; treat an unknown one as
  /// ``protocolError``.
  public struct Code: Hashable, Sendable, CustomStringConvertible {
    /// The code's name, for example `expired`.
    public let description: String

    private init(_ name: String) { description = name }

    // The peer's certificate.

    /// The certificate leads to no trusted root: the root is unknown here, or the peer did not send an intermediate
    /// certificate.
    public static let unknownAuthority = Code("unknownAuthority")
    /// The certificate signed itself and is not trusted here.
    public static let selfSigned = Code("selfSigned")
    /// A certificate of the chain has expired.
    public static let expired = Code("expired")
    /// A certificate of the chain is not valid yet.
    public static let notYetValid = Code("notYetValid")
    /// The certificate is valid for other names, but not for the name that was asked for.
    public static let nameMismatch = Code("nameMismatch")
    /// The certificate has another purpose: a client's certificate on a server, or an issuer that is not an authority.
    public static let wrongPurpose = Code("wrongPurpose")
    /// The chain has more certificates than allowed.
    public static let chainTooLong = Code("chainTooLong")
    /// An authority may not issue certificates for this name or address.
    public static let nameConstraint = Code("nameConstraint")
    /// The certificate was revoked.
    public static let revoked = Code("revoked")
    /// Whether the certificate was revoked is unknown: there is no revocation list of its issuer that can be used.
    public static let revocationUnknown = Code("revocationUnknown")
    /// The revocation list of the certificate's issuer has expired, or is not valid yet. Load a newer one with
    /// ``TLSContext/reloadRevocationLists()``.
    public static let revocationListExpired = Code("revocationListExpired")
    /// The server stapled no response of OCSP to its certificate, although ``TLSConfiguration/requiresStaple`` or the
    /// certificate itself demands one.
    public static let stapleMissing = Code("stapleMissing")
    /// The stapled response of OCSP is malformed, out of date, about another certificate, or not signed by the issuer.
    public static let stapleInvalid = Code("stapleInvalid")
    /// A key or a signature in the chain is too weak for OpenSSL's security level.
    public static let weakCertificate = Code("weakCertificate")
    /// The peer's certificates together are larger than OpenSSL accepts: 100 KiB. Or a client's own certificate is too large
    /// for a ticket of TLS 1.2.
    public static let certificateTooLarge = Code("certificateTooLarge")
    /// No key of the chain is pinned.
    public static let publicKeyNotPinned = Code("publicKeyNotPinned")
    /// A certificate is malformed, or its signature is wrong.
    public static let badCertificate = Code("badCertificate")
    /// A closure of the program refused the peer. If the closure threw, ``TLSError/underlyingError`` is its error.
    public static let rejected = Code("rejected")
    /// The server requires a certificate of the client, and the client showed no certificate.
    public static let clientCertificateRequired = Code("clientCertificateRequired")

    // The certificates and settings of a context.

    /// The server has no certificate for the name that the client asked for, or no certificate at all.
    public static let noIdentity = Code("noIdentity")
    /// The private key does not belong to the certificate.
    public static let keyMismatch = Code("keyMismatch")
    /// A file cannot be read. Or the file or the bytes do not contain what they should, or contain something that is not
    /// supported, for example a key that is encrypted with an old cipher, or one on a curve that TLS does not use.
    public static let badFile = Code("badFile")
    /// A key is encrypted, and the passphrase is wrong or missing.
    public static let wrongPassphrase = Code("wrongPassphrase")
    /// There is no trusted root.
    public static let noTrustRoots = Code("noTrustRoots")
    /// The name of a server is invalid.
    public static let invalidServerName = Code("invalidServerName")
    /// The configuration is invalid: for example an unknown cipher or group, an empty protocol name, or a minimum above
    /// the maximum.
    public static let invalidConfiguration = Code("invalidConfiguration")

    // The handshake and the established connection.

    /// The two sides support no common version of TLS.
    public static let protocolVersion = Code("protocolVersion")
    /// The two sides support no common cipher, group or signature algorithm.
    public static let noSharedCipher = Code("noSharedCipher")
    /// The two sides support no common application protocol.
    public static let noApplicationProtocol = Code("noApplicationProtocol")
    /// The handshake took longer than ``TLSConfiguration/handshakeTimeout``.
    public static let handshakeTimedOut = Code("handshakeTimedOut")
    /// The peer closed the connection before the handshake was done.
    public static let closedDuringHandshake = Code("closedDuringHandshake")
    /// The connection ended without the peer's close_notify: the last bytes may be missing.
    public static let truncated = Code("truncated")
    /// Bytes had arrived in plain text before the handshake began, and no read had taken them.
    public static let plaintextBeforeTLS = Code("plaintextBeforeTLS")
    /// The peer sent an alert; ``TLSError/alert`` names it.
    public static let alertReceived = Code("alertReceived")
    /// The peer does not speak TLS: its first bytes are something else.
    public static let notTLS = Code("notTLS")
    /// The peer sent too many key updates or other messages without data: see ``TLSConfiguration/keyUpdateLimit``.
    public static let tooManyKeyUpdates = Code("tooManyKeyUpdates")
    /// The peer asked for another handshake on an established connection.
    public static let renegotiationRefused = Code("renegotiationRefused")
    /// Keying material cannot be exported: the connection uses TLS 1.2, and the peer lacks the extended master secret.
    public static let exporterUnavailable = Code("exporterUnavailable")
    /// The peer violated the protocol in another way.
    public static let protocolError = Code("protocolError")
    /// A failure on this side, for example for lack of memory.
    public static let internalError = Code("internalError")
  }
}

extension TLSError.Code {
  /// For errors without a detail.
  var sentence: String { Self.sentences[self] ?? "the connection failed" }

  private static let sentences: [TLSError.Code: String] = [
    .unknownAuthority:
      "the certificate does not lead to a trusted root; trust its authority, or have the peer send the intermediates",
    .selfSigned: "the peer's certificate is self-signed and not among the trust roots",
    .expired: "the peer's certificate is no longer valid; it has to be renewed, or this machine's clock is wrong",
    .notYetValid: "the peer's certificate is not valid yet; this machine's clock may be wrong",
    .nameMismatch: "the peer's certificate is for other names",
    .wrongPurpose: "the certificate is not meant for this purpose",
    .chainTooLong: "the chain has too many certificates between the peer's and the root",
    .nameConstraint: "the authority may not issue certificates for this name",
    .revoked: "the certificate was revoked",
    .revocationUnknown: "whether the certificate was revoked is unknown: no revocation list of its issuer can be used",
    .revocationListExpired:
      "the revocation list of the certificate's issuer is out of date; a newer one has to be loaded",
    .stapleMissing: "the server stapled no OCSP response to its certificate, and one is required",
    .stapleInvalid: "the OCSP response that the server stapled to its certificate cannot be used",
    .weakCertificate: "a key or a signature in the peer's chain of certificates is too weak",
    .certificateTooLarge: "the peer's certificates have more bytes than the limit allows",
    .publicKeyNotPinned: "no public key in the peer's chain of certificates is pinned",
    .badCertificate: "the certificate is malformed, or its signature is wrong",
    .rejected: "the program refused the peer's certificate",
    .clientCertificateRequired: "the server requires a client certificate, and none was sent",
    .noIdentity: "a server needs a certificate with its key; set the configuration's identity",
    .keyMismatch: "the private key does not belong to the certificate",
    .badFile: "the file does not have the expected contents",
    .wrongPassphrase: "the key is encrypted, and the passphrase is wrong",
    .noTrustRoots: "there are no trust roots, so every certificate would be refused",
    .invalidServerName: "the text is not a valid server name",
    .invalidConfiguration: "the configuration contradicts itself or has a value out of range",
    .protocolVersion: "the two sides have no version of TLS in common",
    .noSharedCipher: "the two sides have no cipher, group or kind of signature in common",
    .noApplicationProtocol: "the two sides have no application protocol in common",
    .handshakeTimedOut: "the handshake took too long",
    .closedDuringHandshake: "the peer closed the connection during the handshake",
    .truncated: "the connection ended without a close_notify alert; the last bytes may be missing",
    .plaintextBeforeTLS: "bytes had arrived in plain text before the handshake began",
    .alertReceived: "the peer ended the connection with an alert",
    .notTLS:
      "what the peer sends is not TLS; it may be another port that speaks it, or TLS begins only after a command",
    .tooManyKeyUpdates: "the peer sent too many messages without data",
    .renegotiationRefused: "the peer requested a renegotiation, which is refused",
    .exporterUnavailable:
      "keying material cannot be exported in TLS 1.2 without the extended master secret, which the peer lacks",
    .protocolError: "the peer broke the rules of the protocol",
    .internalError: "something failed on this side",
  ]
}
