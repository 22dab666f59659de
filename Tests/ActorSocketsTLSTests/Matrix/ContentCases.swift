import TestSupport

@testable import ActorSocketsTLS

extension MatrixCase {
  /// Validity, RFC 5280, section 4.1.2.5.
  static let validity: [MatrixCase] = [
    .init("no longer valid", .expired) { try $0.issue("leaf", by: "root", extensions: name, dates: past) },
    .init("not yet valid", .notYetValid) { try $0.issue("leaf", by: "root", extensions: name, dates: future) },
    .init("an intermediate certificate that is no longer valid", between: ["middle"], .expired) {
      try $0.issue("middle", by: "root", extensions: authority, dates: past)
      try $0.issue("leaf", by: "middle", extensions: name)
    },
    .init("an intermediate certificate that is not yet valid", between: ["middle"], .notYetValid) {
      try $0.issue("middle", by: "root", extensions: authority, dates: future)
      try $0.issue("leaf", by: "middle", extensions: name)
    },
    .init("a root that is no longer valid", roots: ["old"], .expired) {
      try $0.makeRoot("old", dates: past)
      try $0.issue("leaf", by: "old", extensions: name)
    },
    .init("an old and a new certificate of the same root", roots: ["old", "new"]) {
      try $0.makeRoot("old", subject: "/CN=renewed", dates: past)
      try $0.folder.write("new.key", $0.folder.read("old.key"))
      try $0.makeRoot("new", subject: "/CN=renewed")
      try $0.issue("leaf", by: "new", extensions: name)
    },
    // OpenSSL checks names before dates.
    .init("no longer valid, and for another name", .nameMismatch) {
      try $0.issue("leaf", by: "root", extensions: "subjectAltName=DNS:other.example", dates: past)
    },
  ]

  /// What it may be used for, RFC 5280, sections 4.2.1.3, 4.2.1.9 and 4.2.1.12.
  static let purposes: [MatrixCase] = [
    .extensions("for servers", "extendedKeyUsage=serverAuth", nil),
    .extensions("for servers and clients", "extendedKeyUsage=clientAuth,serverAuth", nil),
    .extensions("for clients alone", "extendedKeyUsage=clientAuth", .wrongPurpose),
    .extensions("for signing programs", "extendedKeyUsage=codeSigning", .wrongPurpose),
    .extensions("for any use", "extendedKeyUsage=anyExtendedKeyUsage", .wrongPurpose),
    .extensions("a key for signatures", "keyUsage=critical,digitalSignature", nil),
    .extensions("a key that may only sign certificates", "keyUsage=critical,keyCertSign", .wrongPurpose),
    .extensions("an authority's own certificate", "basicConstraints=critical,CA:TRUE", nil),
    .extensions("an unknown extension", "1.2.3.4=DER:0500", nil),
    .extensions("an unknown extension that must be understood", "1.2.3.4=critical,DER:0500", .badCertificate),
  ]

  /// Which names an authority may certify, RFC 5280, section 4.2.1.10.
  static let constraints: [MatrixCase] = [
    constrained("a name that is permitted", "permitted;DNS:example.org", name, nil),
    constrained("a name that is not permitted", "permitted;DNS:example.com", name, .nameConstraint),
    constrained("a name that is excluded", "excluded;DNS:example.org", name, .nameConstraint),
    constrained("a name beside one that is excluded", "excluded;DNS:example.com", name, nil),
    constrained(
      "one name that is permitted and one that is not", "permitted;DNS:example.org",
      "subjectAltName=DNS:www.example.org,DNS:www.example.com", .nameConstraint),
    constrained(
      "a wildcard that is permitted", "permitted;DNS:example.org", "subjectAltName=DNS:*.example.org", nil),
    constrained(
      "an address that is permitted", "permitted;IP:192.0.2.0/255.255.255.0", "subjectAltName=IP:192.0.2.1",
      asked: "192.0.2.1", nil),
    constrained(
      "an address that is not permitted", "permitted;IP:198.51.100.0/255.255.255.0", "subjectAltName=IP:192.0.2.1",
      asked: "192.0.2.1", .nameConstraint),
    constrained(
      "an address that is excluded", "excluded;IP:192.0.2.0/255.255.255.0", "subjectAltName=IP:192.0.2.1",
      asked: "192.0.2.1", .nameConstraint),
  ]

  /// Keys and signatures at security level 2.
  static let strength: [MatrixCase] = [
    .init("an RSA key of 1024 bits", .weakCertificate) {
      try $0.issue("leaf", by: "root", key: rsa1024, extensions: name)
    },
    .init("an RSA key of 2048 bits") { try $0.issue("leaf", by: "root", key: "rsa:2048", extensions: name) },
    .init("an authority with an RSA key of 1024 bits", between: ["middle"], .weakCertificate) {
      try $0.issue("middle", by: "root", key: rsa1024, extensions: authority)
      try $0.issue("leaf", by: "middle", extensions: name)
    },
    .init("a signature with SHA-1", .weakCertificate) {
      try $0.issue("leaf", by: "root", extensions: name, digest: "sha1")
    },
    .init("a signature with MD5", roots: ["rsa"], .weakCertificate) {
      try $0.makeRoot("rsa", key: "rsa:2048")
      try $0.issue("leaf", by: "rsa", extensions: name, digest: "md5")
    },
    .init("an intermediate certificate with a signature with SHA-1", between: ["middle"], .weakCertificate) {
      try $0.issue("middle", by: "root", extensions: authority, digest: "sha1")
      try $0.issue("leaf", by: "middle", extensions: name)
    },
    .init("a root that signed itself with SHA-1, which proves nothing", roots: ["old"]) {
      try $0.makeRoot("old", digest: "sha1")
      try $0.issue("leaf", by: "old", extensions: name)
    },
    .init("Ed25519 all through", roots: ["edwards"]) {
      try $0.makeRoot("edwards", key: "ed25519", digest: "null")
      try $0.issue("leaf", by: "edwards", key: "ed25519", extensions: name, digest: "null")
    },
  ]

  private static func constrained(
    _ name: String, _ constraints: String, _ extensions: String, asked: String = "www.example.org",
    _ code: TLSError.Code?
  ) -> MatrixCase {
    MatrixCase(name, asked: asked, between: ["middle"], code) {
      try $0.issue("middle", by: "root", extensions: "\(authority)\nnameConstraints=critical,\(constraints)")
      try $0.issue("leaf", by: "middle", subject: "/O=Example", extensions: extensions)
    }
  }
}
