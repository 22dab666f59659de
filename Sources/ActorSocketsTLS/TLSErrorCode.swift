extension TLSError {
  /// A cause that programs tell apart. More may come; treat those you do not know as ``protocolError``.
  public struct Code: Hashable, Sendable, CustomStringConvertible {
    /// The code's name, as in `.expired`.
    public let description: String

    private init(_ name: String) { description = name }

    // The certificate of the peer.

    /// The certificate leads to no trusted root: the root is not known here, or the peer did not send what is between.
    public static let unknownAuthority = Code("unknownAuthority")
    /// The certificate is signed by itself and not trusted here.
    public static let selfSigned = Code("selfSigned")
    /// A certificate of the chain is no longer valid.
    public static let expired = Code("expired")
    /// A certificate of the chain is not valid yet.
    public static let notYetValid = Code("notYetValid")
    /// The certificate is for other names than the one that was asked for.
    public static let nameMismatch = Code("nameMismatch")
    /// The certificate is not meant for this: that of a client on a server, or one of an authority that is none.
    public static let wrongPurpose = Code("wrongPurpose")
    /// There are more certificates up to the root than are allowed.
    public static let chainTooLong = Code("chainTooLong")
    /// An authority may not issue certificates for this name or address.
    public static let nameConstraint = Code("nameConstraint")
    /// The certificate was revoked.
    public static let revoked = Code("revoked")
    /// A key or a signature in the chain is too weak for the security level.
    public static let weakCertificate = Code("weakCertificate")
    /// The peer's certificates together have more bytes than OpenSSL accepts: 100 KiB.
    public static let certificateTooLarge = Code("certificateTooLarge")
    /// No key of the chain is pinned.
    public static let publicKeyNotPinned = Code("publicKeyNotPinned")
    /// A certificate is malformed, or its signature is wrong.
    public static let badCertificate = Code("badCertificate")
    /// A closure of the program's refused; ``TLSError/underlyingError`` is what it threw, if it did.
    public static let rejected = Code("rejected")
    /// A client has to show a certificate and has none.
    public static let clientCertificateRequired = Code("clientCertificateRequired")

    // What a context is made of.

    /// A server has no certificate, or none for the name that the client asked for.
    public static let noIdentity = Code("noIdentity")
    /// The private key does not belong to the certificate.
    public static let keyMismatch = Code("keyMismatch")
    /// A file cannot be read, or it or the bytes in its place are not what they should be.
    public static let badFile = Code("badFile")
    /// A key is encrypted, and the passphrase is wrong or missing.
    public static let wrongPassphrase = Code("wrongPassphrase")
    /// There is no root to trust.
    public static let noTrustRoots = Code("noTrustRoots")
    /// The name of a server is none.
    public static let invalidServerName = Code("invalidServerName")
    /// The configuration makes no sense: an unknown cipher or group, an empty protocol name, a minimum above the maximum.
    public static let invalidConfiguration = Code("invalidConfiguration")

    // The handshake and what comes after it.

    /// The two sides have no version of the protocol in common.
    public static let protocolVersion = Code("protocolVersion")
    /// The two sides have no cipher, no group or no kind of signature in common.
    public static let noSharedCipher = Code("noSharedCipher")
    /// The two sides have no application protocol in common.
    public static let noApplicationProtocol = Code("noApplicationProtocol")
    /// The handshake took too long.
    public static let handshakeTimedOut = Code("handshakeTimedOut")
    /// The peer closed the connection before the handshake was done.
    public static let closedDuringHandshake = Code("closedDuringHandshake")
    /// The connection ended without the peer saying so in TLS: the last bytes may be missing.
    public static let truncated = Code("truncated")
    /// Bytes had arrived in plain text before the handshake began, and nobody had read them.
    public static let plaintextBeforeTLS = Code("plaintextBeforeTLS")
    /// The peer sent an alert; ``TLSError/alert`` names it.
    public static let alertReceived = Code("alertReceived")
    /// What the peer sends is not TLS.
    public static let notTLS = Code("notTLS")
    /// The peer sent too many key updates or other messages without data.
    public static let tooManyKeyUpdates = Code("tooManyKeyUpdates")
    /// The peer wanted another handshake on a connection that is up.
    public static let renegotiationRefused = Code("renegotiationRefused")
    /// The connection can export no keying material: it speaks TLS 1.2, and the peer lacks the extended master secret.
    public static let exporterUnavailable = Code("exporterUnavailable")
    /// The peer broke the rules of the protocol in some other way.
    public static let protocolError = Code("protocolError")
    /// Something failed on this side, for example memory ran out.
    public static let internalError = Code("internalError")
  }
}

extension TLSError.Code {
  /// What the code means, for a description without anything more particular.
  var sentence: String { Self.sentences[self] ?? "the connection failed" }

  private static let sentences: [TLSError.Code: String] = [
    .unknownAuthority:
      "the peer's certificate leads to no trusted root; trust its authority, or let the peer send the certificates between",
    .selfSigned: "the peer's certificate is signed by itself and not among the trusted roots",
    .expired: "the peer's certificate is no longer valid; it has to be renewed, or this machine's clock is wrong",
    .notYetValid: "the peer's certificate is not valid yet; this machine's clock may be wrong",
    .nameMismatch: "the peer's certificate is for other names",
    .wrongPurpose: "the certificate is not meant for this purpose",
    .chainTooLong: "there are too many certificates between the peer's and the root",
    .nameConstraint: "the authority may not issue certificates for this name",
    .revoked: "the certificate was revoked",
    .weakCertificate: "a key or a signature in the peer's chain of certificates is too weak",
    .certificateTooLarge: "the peer's certificates have more bytes than the limit allows",
    .publicKeyNotPinned: "no public key in the peer's chain of certificates is pinned",
    .badCertificate: "the certificate is malformed, or its signature is wrong",
    .rejected: "the program refused the peer's certificate",
    .clientCertificateRequired: "the server demands a certificate of the client, and there was none",
    .noIdentity: "a server needs a certificate with its key, set the configuration's identity",
    .keyMismatch: "the private key does not belong to the certificate",
    .badFile: "the file is not what it should be",
    .wrongPassphrase: "the key is encrypted, and the passphrase is wrong",
    .noTrustRoots: "there are no trusted roots, so no certificate could be verified",
    .invalidServerName: "this is not the name of a server",
    .invalidConfiguration: "the configuration makes no sense",
    .protocolVersion: "the two sides have no version of TLS in common",
    .noSharedCipher: "the two sides have no cipher, group or kind of signature in common",
    .noApplicationProtocol: "the two sides have no application protocol in common",
    .handshakeTimedOut: "the handshake took too long",
    .closedDuringHandshake: "the peer closed the connection during the handshake",
    .truncated: "the connection ended without notice from the peer, the last bytes may be missing",
    .plaintextBeforeTLS: "bytes had arrived in plain text before the handshake began",
    .alertReceived: "the peer ended the connection with an alert",
    .notTLS:
      "what the peer sends is not TLS; it may be another port that speaks it, or TLS begins only after a command",
    .tooManyKeyUpdates: "the peer sent too many messages without data",
    .renegotiationRefused: "the peer wanted another handshake on this connection, which is refused",
    .exporterUnavailable:
      "keying material cannot be exported in TLS 1.2 without the extended master secret, which the peer lacks",
    .protocolError: "the peer broke the rules of the protocol",
    .internalError: "something failed on this side",
  ]
}
