import TestSupport
import Testing

@testable import ActorSocketsTLS

/// What a certificate says of itself, beside what the `openssl` command says.
@Suite(.tags(.singleThread, .manualMemory)) struct CertificateTests {
  @Test func `Its fields are those that OpenSSL's command shows`() throws {
    let folder = try CertificateFolder()
    let authority = try Authority(in: folder, "root")
    try authority.issue(
      "leaf", by: "root", subject: "/O=Example/CN=www.example.org",
      extensions: "subjectAltName=DNS:example.org,DNS:*.example.org,IP:192.0.2.1,IP:2001:db8::1,email:a@example.org",
      dates: ("20240229123456Z", "20510101000000Z"))
    let certificate = try #require(try TLSCertificate.all(pem: folder.read("leaf.pem")).first)
    #expect(certificate.subject == "CN=www.example.org,O=Example")
    #expect(certificate.issuer == "CN=root")
    #expect(certificate.dnsNames == ["example.org", "*.example.org"])
    #expect(certificate.ipAddresses == ["192.0.2.1", "2001:db8::1"])
    #expect(certificate.notBefore == .seconds(1_709_210_096))
    #expect(certificate.notAfter == .seconds(2_556_144_000))
    let serial = try folder.openssl("x509 -in leaf.pem -noout -serial")
    #expect(serial == "serial=\(certificate.serial)\n")
    let fingerprint = try folder.openssl("x509 -in leaf.pem -noout -fingerprint -sha256")
    let digits = certificate.sha256.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
    #expect(fingerprint == "sha256 Fingerprint=\(digits.joined(separator: ":").uppercased())\n")
    #expect(try certificate.pem == folder.text("leaf.pem"))
    try folder.openssl("x509 -in leaf.pem -outform DER -out leaf.der")
    #expect(try certificate.der == folder.read("leaf.der"))
    #expect(try TLSCertificate(der: certificate.der) == certificate)
    try folder.openssl("x509 -in leaf.pem -noout -pubkey -out leaf.pub")
    try folder.openssl("pkey -pubin -in leaf.pub -outform DER -out leaf.pub.der")
    try folder.openssl("dgst -sha256 -binary -out leaf.pin leaf.pub.der")
    #expect(try certificate.publicKeySHA256 == folder.read("leaf.pin"))
  }

  @Test func `Texts outside of ASCII and commas are kept`() throws {
    let folder = try CertificateFolder()
    try folder.openssl(
      "req -x509 -utf8 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key -out pem -subj /CN=Bücher,Inc")
    let certificate = try #require(try TLSCertificate.all(pem: folder.read("pem")).first)
    #expect(certificate.subject == "CN=Bücher\\,Inc")
    #expect(certificate.dnsNames.isEmpty && certificate.ipAddresses.isEmpty)
  }

  @Test(arguments: 0..<4)
  func `Whatever is in a certificate, reading it ends in fields or in an error`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let folder = try CertificateFolder()
    let authority = try Authority(in: folder, "root")
    try authority.issue(
      "leaf", by: "root", extensions: "subjectAltName=DNS:example.org,IP:192.0.2.1,IP:2001:db8::1,email:a@example.org")
    let good = try #require(try TLSCertificate.all(pem: folder.read("leaf.pem")).first).der
    var readable = 0
    for _ in 0..<5000 {
      var der = good
      for _ in 0..<Int.random(in: 1...3, using: &random) {
        der[Int.random(in: 0..<der.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
      }
      guard let certificate = try? TLSCertificate(der: der) else { continue }
      readable += 1
      let texts = [certificate.subject, certificate.issuer, certificate.serial, certificate.pem]
      let names = certificate.dnsNames + certificate.ipAddresses
      #expect(
        texts.count + names.count >= 4 && certificate.notBefore < .seconds(.max)
          && certificate.notAfter < .seconds(.max))
      #expect(certificate.publicKeySHA256.count == 32)
    }
    #expect(readable > 100)
  }

  @Test func `Certificates are equal if they are the same byte for byte`() throws {
    let (one, other) = (try Made.identity.get().certificate, try Made.other.get().certificate)
    #expect(try TLSCertificate(der: one.der) == one)
    #expect(one != other)
    #expect(Set([one, other, try TLSCertificate(der: other.der)]).count == 2)
  }
}
