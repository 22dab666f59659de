/// A source of the roots that a peer's certificate must lead to.
public enum TLSTrustRoots: Sendable {
  /// The roots that the system's administrator maintains: on Debian the package `ca-certificates`.
  ///
  /// The environment variables `SSL_CERT_FILE` and `SSL_CERT_DIR` name other locations.
  case system
  /// A file with one or more certificates, in PEM or DER form.
  ///
  /// A text may also have keys, parameters, requests and revocation lists, which are ignored. A block of another kind is an
  /// error, because its certificates would be missing.
  case file(String)
  /// All certificates in the files of a directory, whatever the names of the files.
  ///
  /// Files without certificates and subdirectories are ignored.
  case directory(String)
  /// One or more certificates in PEM form, as in a file.
  case pem([UInt8])
  /// A certificate in DER form.
  case der([UInt8])
  /// Certificates that the program already has, for example from ``TLSIdentity/selfSigned(for:key:validity:)``.
  case certificates([TLSCertificate])
  /// Pins: SHA-256 hashes of public keys (of the whole SubjectPublicKeyInfo, as in RFC 7469), 32 bytes each.
  ///
  /// With other roots, the chain that leads to a root must contain a pinned key. Without other roots, pins replace
  /// authorities: a certificate with a pinned key is trusted, and so is every certificate that it signed. All other
  /// checks still apply: names, validity and purpose.
  case publicKeys([[UInt8]])
}
