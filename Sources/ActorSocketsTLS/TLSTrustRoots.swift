/// Where the certificates are that a peer's certificate has to lead to.
public enum TLSTrustRoots: Sendable {
  /// Those of the system, which its administrator looks after: on Debian the package `ca-certificates`. The environment
  /// variables `SSL_CERT_FILE` and `SSL_CERT_DIR` name others.
  case system
  /// A file with one or more certificates, in PEM or DER form.
  case file(String)
  /// A directory: the certificates in all of its files, whatever their names. Files in it without one are passed over,
  /// directories in it, too.
  case directory(String)
  /// One or more certificates in PEM form.
  case pem([UInt8])
  /// A certificate in DER form.
  case der([UInt8])
  /// Certificates that the program has, for example that of ``TLSIdentity/selfSigned(for:key:validity:)``.
  case certificates([TLSCertificate])
  /// Pins: SHA-256 hashes of public keys (of the whole SubjectPublicKeyInfo, as in RFC 7469), 32 bytes each.
  ///
  /// Beside other roots, the chain that leads to one of those must have a pinned key in it. On their own, they replace
  /// authorities: a certificate with a pinned key is trusted, and so is what it signed. All other checks hold, those of
  /// names, validity and purpose.
  case publicKeys([[UInt8]])
}
