/// A certificate with its private key, and the certificates between it and the root: what this side shows of itself.
///
/// It is read once and never changes. For new certificates make a new one and give it to
/// ``TLSContext/replaceIdentities(identity:identities:)``.
///
/// All initialisers throw a `TLSError` that names the file: `.badFile` if it cannot be read or holds something else,
/// `.keyMismatch` if the key does not belong to the certificate, `.wrongPassphrase`, or `.weakCertificate` if key or
/// signature are below OpenSSL's security level 2.
public struct TLSIdentity: Sendable {
  /// The certificates, this side's own first.
  public let certificates: [TLSCertificate]
  let key: PrivateKey
  /// The certificates without the first, as OpenSSL takes them.
  let chain: CertificateStack

  init(_ certificates: [Certificate], _ key: PrivateKey, from source: Source) throws(TLSError) {
    try key.check(belongsTo: certificates, from: source)
    self.certificates = certificates.map(TLSCertificate.init)
    self.key = key
    chain = try CertificateStack(certificates.dropFirst())
  }

  /// Whether it is the same one, and not merely an equal one.
  func isSame(as other: TLSIdentity) -> Bool { key === other.key && chain === other.chain }

  /// This side's own certificate.
  public var certificate: TLSCertificate { certificates[0] }

  /// Reads certificates and key from files in PEM or DER form.
  ///
  /// - Parameters:
  ///   - certificateFile: This side's certificate, and behind it, in PEM form, those between it and the root.
  ///   - keyFile: The private key; `nil` if it is in the file of the certificates.
  ///   - passphrase: Asked for the passphrase if the key is encrypted.
  /// - Throws: `TLSError`.
  public init(
    certificateFile: String, keyFile: String? = nil, passphrase: (() -> String?)? = nil
  ) throws(TLSError) {
    let source = Source.file(certificateFile)
    let contents = try source.read()
    let certificates = try Certificate.read(contents, from: source)
    let keySource = keyFile.map(Source.file) ?? source
    let key = try PrivateKey(keyFile == nil ? contents : keySource.read(), from: keySource, passphrase)
    try self.init(certificates, key, from: keySource)
  }

  /// Takes certificates and key from memory, in PEM or DER form.
  ///
  /// - Parameters:
  ///   - certificates: This side's certificate, and behind it, in PEM form, those between it and the root.
  ///   - key: The private key; `nil` if it is in the same text as the certificates.
  ///   - passphrase: Asked for the passphrase if the key is encrypted.
  /// - Throws: `TLSError`.
  public init(
    certificates: [UInt8], key: [UInt8]? = nil, passphrase: (() -> String?)? = nil
  ) throws(TLSError) {
    let chain = try Certificate.read(certificates, from: .bytes)
    try self.init(chain, PrivateKey(key ?? certificates, from: .bytes, passphrase), from: .bytes)
  }

  /// Takes certificates and key from memory, in DER form.
  ///
  /// - Parameters:
  ///   - certificates: This side's certificate, and behind it those between it and the root.
  ///   - key: The private key, plain or as encrypted PKCS#8.
  ///   - passphrase: Asked for the passphrase if the key is encrypted.
  /// - Throws: `TLSError`.
  public init(
    der certificates: [[UInt8]], key: [UInt8], passphrase: (() -> String?)? = nil
  ) throws(TLSError) {
    var chain: [Certificate] = []
    for bytes in certificates { chain.append(try Certificate.read(der: bytes, from: .bytes)) }
    try self.init(chain, PrivateKey(key, from: .bytes, passphrase), from: .bytes)
  }

  /// Reads certificates and key from a PKCS#12 file (`.p12`, `.pfx`).
  ///
  /// - Parameters:
  ///   - pkcs12File: The file.
  ///   - passphrase: Asked for its passphrase; none is the same as an empty one.
  /// - Throws: `TLSError`.
  public init(pkcs12File: String, passphrase: (() -> String?)? = nil) throws(TLSError) {
    let source = Source.file(pkcs12File)
    let (certificates, key) = try PKCS12.read(source.read(), from: source, passphrase)
    try self.init(certificates, key, from: source)
  }

  /// Takes certificates and key from memory, in PKCS#12 form.
  ///
  /// - Parameters:
  ///   - pkcs12: The contents of such a file.
  ///   - passphrase: Asked for its passphrase; none is the same as an empty one.
  /// - Throws: `TLSError`.
  public init(pkcs12: [UInt8], passphrase: (() -> String?)? = nil) throws(TLSError) {
    let (certificates, key) = try PKCS12.read(pkcs12, from: .bytes, passphrase)
    try self.init(certificates, key, from: .bytes)
  }

  /// The kind of a key that is made here.
  public enum KeyKind: Sendable {
    /// Elliptic curve P-256, with ECDSA signatures: fast, and understood everywhere.
    case ecdsaP256
    /// RSA with 2048 bits.
    case rsa2048
  }

  /// Makes a key and a certificate that is signed by itself: for tests and demonstrations. The other side trusts it if its
  /// ``TLSConfiguration/trustRoots`` have it: `.certificates([identity.certificate])`.
  ///
  /// - Parameters:
  ///   - names: The names and IP addresses that it is for; the names may be wildcards.
  ///   - key: The kind of the key.
  ///   - validity: How long it is valid, from an hour ago on.
  /// - Returns: The identity. It may be that of a server or of a client.
  /// - Throws: `TLSError` with the code `.invalidServerName` if one of the names is none.
  public static func selfSigned(
    for names: [String], key: KeyKind = .ecdsaP256, validity: Duration = .seconds(365 * 24 * 60 * 60)
  ) throws(TLSError) -> TLSIdentity {
    let key = try PrivateKey(generating: key)
    let certificate = try Certificate(
      selfSignedWith: key, for: names, seconds: Int(clamping: validity.components.seconds))
    return try TLSIdentity([certificate], key, from: .bytes)
  }
}
