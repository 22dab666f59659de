public import SocketSystem

/// An X.509 certificate. Its contents are claims until a verification has checked them.
///
/// Whoever made the certificate chose its texts, so escape them before you show them.
public struct TLSCertificate: Sendable, Hashable {
  let certificate: Certificate

  init(_ certificate: Certificate) { self.certificate = certificate }

  /// Parses a certificate in DER form.
  ///
  /// - Parameter bytes: The certificate and nothing else.
  /// - Throws: ``TLSError`` with the code `.badFile`.
  public init(der bytes: [UInt8]) throws(TLSError) {
    certificate = try Certificate.read(der: bytes, from: .bytes)
  }

  /// Parses all certificates of a text in PEM form.
  ///
  /// - Parameter bytes: The text. Lines outside of certificates are ignored.
  /// - Returns: The certificates, at least one.
  /// - Throws: ``TLSError`` with the code `.badFile`.
  public static func all(pem bytes: [UInt8]) throws(TLSError) -> [TLSCertificate] {
    try Certificate.read(pem: bytes, from: .bytes, allowsUnknownBlocks: true).map(TLSCertificate.init)
  }

  /// The name of its owner, in the form of RFC 2253: `CN=www.example.org,O=Example`.
  public var subject: String { certificate.subject }
  /// The name of the authority that signed it, in the same form.
  public var issuer: String { certificate.issuer }
  /// The host names that it is valid for, wildcards included.
  public var dnsNames: [String] { certificate.alternativeNames.dns }
  /// The IP addresses that it is valid for.
  public var ipAddresses: [String] { certificate.alternativeNames.addresses }
  /// The beginning of its validity.
  public var notBefore: UnixTime { .seconds(certificate.notBefore) }
  /// The end of its validity. `certificate.notAfter.duration(to: .now)` is negative while it is valid.
  public var notAfter: UnixTime { .seconds(certificate.notAfter) }
  /// Its serial number, which its issuer gave it, in hexadecimal digits.
  public var serial: String { certificate.serial }
  /// The SHA-256 hash of the certificate, its fingerprint: 32 bytes.
  public var sha256: [UInt8] { Digest.sha256(der) }
  /// The SHA-256 hash of its public key (SubjectPublicKeyInfo), as pins contain it: 32 bytes.
  public var publicKeySHA256: [UInt8] { certificate.publicKeySHA256 }
  /// The certificate in DER form.
  public var der: [UInt8] { certificate.der }
  /// The certificate in PEM form, with a line break at the end.
  public var pem: String { certificate.pem }

  /// Compares two certificates byte for byte.
  public static func == (left: TLSCertificate, right: TLSCertificate) -> Bool { left.der == right.der }

  /// Hashes the DER form.
  public func hash(into hasher: inout Hasher) { hasher.combine(der) }
}
