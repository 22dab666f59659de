/// A certificate (X.509): what one says of itself. Whether that is true is for verification to find out.
///
/// Texts in it are as whoever made it wrote them: escape them before they are shown to anyone.
public struct TLSCertificate: Sendable, Hashable {
  let certificate: Certificate

  init(_ certificate: Certificate) { self.certificate = certificate }

  /// Reads a certificate in DER form.
  ///
  /// - Parameter bytes: The certificate and nothing else.
  /// - Throws: `TLSError` with the code `.badFile`.
  public init(der bytes: [UInt8]) throws(TLSError) {
    certificate = try Certificate.read(der: bytes, from: .bytes)
  }

  /// Reads all certificates of a text in PEM form.
  ///
  /// - Parameter bytes: The text; what is not between the lines that begin and end a certificate is passed over.
  /// - Returns: At least one.
  /// - Throws: `TLSError` with the code `.badFile`.
  public static func all(pem bytes: [UInt8]) throws(TLSError) -> [TLSCertificate] {
    try Certificate.read(pem: bytes, from: .bytes).map(TLSCertificate.init)
  }

  /// Who it is of, as RFC 2253 writes names: `CN=www.example.org,O=Example`.
  public var subject: String { certificate.subject }
  /// Who signed it.
  public var issuer: String { certificate.issuer }
  /// The names of hosts that it is for, wildcards included.
  public var dnsNames: [String] { certificate.alternativeNames.dns }
  /// The addresses that it is for.
  public var ipAddresses: [String] { certificate.alternativeNames.addresses }
  /// From when on it is valid, in seconds since 1970-01-01 00:00 UTC.
  public var notBefore: Int { certificate.notBefore }
  /// Until when it is valid, in seconds since 1970-01-01 00:00 UTC.
  public var notAfter: Int { certificate.notAfter }
  /// Its number among those of its issuer, in hexadecimal digits.
  public var serial: String { certificate.serial }
  /// The SHA-256 hash of the whole, its fingerprint: 32 bytes.
  public var sha256: [UInt8] { Digest.sha256(der) }
  /// The SHA-256 hash of its public key (SubjectPublicKeyInfo), as pins have it: 32 bytes.
  public var publicKeySHA256: [UInt8] { certificate.publicKeySHA256 }
  /// The whole in DER form.
  public var der: [UInt8] { certificate.der }
  /// The whole in PEM form, with a line break at the end.
  public var pem: String { certificate.pem }

  /// Whether two are the same, byte for byte.
  public static func == (left: TLSCertificate, right: TLSCertificate) -> Bool { left.der == right.der }

  /// Hashes the whole.
  public func hash(into hasher: inout Hasher) { hasher.combine(der) }
}
