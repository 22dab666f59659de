internal import SocketSystem

/// A certificate with its private key and its intermediate certificates: what this side shows to peers.
///
/// An identity is read once and does not change, except for the response that ``replaceStaple(_:)`` replaces. To use
/// new certificates, make another one and pass it to ``TLSContext/replaceIdentities(identity:identities:)``.
///
/// A file may be a pipe, for example `<(…)` of a shell. It is read up to its end, for which the calling thread waits for up
/// to 10 seconds. The thread of a reactor does not wait.
///
/// The initialisers throw a ``TLSError`` that names the file:
///
/// - `.badFile` if the file cannot be read, contains something else or a PEM block with an unknown label, if its key is
///   encrypted with a cipher that OpenSSL no longer supports, or if its key is on a curve other than P-256, P-384 and P-521
/// - `.keyMismatch` if the key does not belong to the certificate
/// - `.wrongPassphrase`
/// - `.weakCertificate` if a key or a signature is below OpenSSL's security level 2
public struct TLSIdentity: Sendable {
  /// The certificates, beginning with this side's own.
  public let certificates: [TLSCertificate]
  let key: PrivateKey
  /// The certificates without the first, as OpenSSL takes them.
  let chain: CertificateStack
  /// All copies have the same response.
  let stapled = Locked<[UInt8]?>(nil)

  init(_ certificates: [Certificate], _ key: PrivateKey, from source: Source) throws(TLSError) {
    try key.check(belongsTo: certificates, from: source)
    self.certificates = certificates.map(TLSCertificate.init)
    self.key = key
    chain = try CertificateStack(certificates.dropFirst())
  }

  /// Whether this is the same identity, not only an equal one.
  func isSame(as other: TLSIdentity) -> Bool { key === other.key && chain === other.chain }

  /// This side's own certificate.
  public var certificate: TLSCertificate { certificates[0] }

  /// Reads certificates and key from files in PEM or DER form.
  ///
  /// - Parameters:
  ///   - certificateFile: The path of a file with this side's certificate, in PEM form followed by the intermediate
  ///     certificates.
  ///   - keyFile: The path of a file with the private key; `nil` if the first file contains it.
  ///   - passphrase: Is called for the passphrase if the key is encrypted.
  /// - Throws: ``TLSError``.
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

  /// Reads certificates and key from memory, in PEM or DER form.
  ///
  /// - Parameters:
  ///   - certificates: This side's certificate, in PEM form followed by the intermediate certificates.
  ///   - key: The private key; `nil` if `certificates` contains it.
  ///   - passphrase: Is called for the passphrase if the key is encrypted.
  /// - Throws: ``TLSError``.
  public init(
    certificates: [UInt8], key: [UInt8]? = nil, passphrase: (() -> String?)? = nil
  ) throws(TLSError) {
    let chain = try Certificate.read(certificates, from: .bytes)
    try self.init(chain, PrivateKey(key ?? certificates, from: .bytes, passphrase), from: .bytes)
  }

  /// Reads certificates and key from memory, in DER form.
  ///
  /// - Parameters:
  ///   - certificates: This side's certificate, followed by the intermediate certificates.
  ///   - key: The private key, unencrypted or as encrypted PKCS#8.
  ///   - passphrase: Is called for the passphrase if the key is encrypted.
  /// - Throws: ``TLSError``.
  public init(
    der certificates: [[UInt8]], key: [UInt8], passphrase: (() -> String?)? = nil
  ) throws(TLSError) {
    var chain: [Certificate] = []
    for bytes in certificates { chain.append(try Certificate.read(der: bytes, from: .bytes)) }
    try self.init(chain, PrivateKey(key, from: .bytes, passphrase), from: .bytes)
  }

  /// Reads certificates and key from a PKCS#12 file (`.p12`, `.pfx`): RFC 7292.
  ///
  /// - Parameters:
  ///   - pkcs12File: The path of the file.
  ///   - passphrase: Is called for the passphrase of the file. `nil` is the same as an empty passphrase.
  /// - Throws: ``TLSError``.
  public init(pkcs12File: String, passphrase: (() -> String?)? = nil) throws(TLSError) {
    let source = Source.file(pkcs12File)
    let (certificates, key) = try PKCS12.read(source.read(), from: source, passphrase)
    try self.init(certificates, key, from: source)
  }

  /// Reads certificates and key from memory, in PKCS#12 form: RFC 7292.
  ///
  /// - Parameters:
  ///   - pkcs12: The contents of a PKCS#12 file.
  ///   - passphrase: Is called for the passphrase of the file. `nil` is the same as an empty passphrase.
  /// - Throws: ``TLSError``.
  public init(pkcs12: [UInt8], passphrase: (() -> String?)? = nil) throws(TLSError) {
    let (certificates, key) = try PKCS12.read(pkcs12, from: .bytes, passphrase)
    try self.init(certificates, key, from: .bytes)
  }

  /// The kind of a key to generate.
  public enum KeyKind: Sendable {
    /// Elliptic curve P-256, with ECDSA signatures: fast, and supported by every peer.
    case ecdsaP256
    /// RSA with 2048 bits.
    case rsa2048
  }

  /// Generates a key and a certificate that signs itself, for tests and demonstrations.
  ///
  /// A peer trusts it if its ``TLSConfiguration/trustRoots`` contain the certificate:
  /// `.certificates([identity.certificate])`.
  ///
  /// - Parameters:
  ///   - names: The host names, wildcards and IP addresses that the certificate is valid for; at least one.
  ///   - key: The kind of the key.
  ///   - validity: How long the certificate is valid, at most until the end of the year 9999. The time begins one hour before now. A
  ///     negative duration makes a certificate that has expired.
  /// - Returns: The identity, for a server or a client.
  /// - Throws: ``TLSError`` with the code `.invalidServerName` if a name is invalid, or `names` is empty.
  public static func selfSigned(
    for names: [String], key: KeyKind = .ecdsaP256, validity: Duration = .seconds(365 * 24 * 60 * 60)
  ) throws(TLSError) -> TLSIdentity {
    try selfSigned(for: names, key: key, validity: validity, now: Int(realtimeNanoseconds() / 1_000_000_000))
  }

  /// `now` is in seconds since 1970. OpenSSL must not read the clock again: time(2) lags clock_gettime(2) by up to some
  /// milliseconds, so at the end of a second the two differ.
  static func selfSigned(
    for names: [String], key: KeyKind = .ecdsaP256, validity: Duration, now: Int
  ) throws(TLSError) -> TLSIdentity {
    let key = try PrivateKey(generating: key)
    let certificate = try Certificate(
      selfSignedWith: key, for: names, notBefore: now - 3600, notAfter: now + Self.seconds(validity, since: now))
    return try TLSIdentity([certificate], key, from: .bytes)
  }

  /// The end is between 1970 and 9999, because a certificate cannot express later years: RFC 5280, section 4.1.2.5.
  private static func seconds(_ validity: Duration, since now: Int) -> Int {
    let latest = 253_402_300_799
    return Int(max(.seconds(-now), min(validity, .seconds(latest - now))).components.seconds)
  }
}
