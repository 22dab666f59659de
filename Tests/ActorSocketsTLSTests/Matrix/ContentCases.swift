@testable import ActorSocketsTLS

extension MatrixCase {
  /// Validity, RFC 5280, section 4.1.2.5.
  static let validity: [MatrixCase] = [
    MatrixCase(
      name: "no longer valid", make: { try $0.issue("leaf", by: "root", extensions: name, dates: past) }, code: .expired
    ),
    MatrixCase(
      name: "not yet valid", make: { try $0.issue("leaf", by: "root", extensions: name, dates: future) },
      code: .notYetValid),
    MatrixCase(
      name: "an intermediate certificate that is no longer valid",
      make: {
        try $0.issue("middle", by: "root", extensions: authority, dates: past)
        try $0.issue("leaf", by: "middle", extensions: name)
      }, between: ["middle"], code: .expired),
    MatrixCase(
      name: "an intermediate certificate that is not yet valid",
      make: {
        try $0.issue("middle", by: "root", extensions: authority, dates: future)
        try $0.issue("leaf", by: "middle", extensions: name)
      }, between: ["middle"], code: .notYetValid),
    MatrixCase(
      name: "a root that is no longer valid",
      make: {
        try $0.makeRoot("old", dates: past)
        try $0.issue("leaf", by: "old", extensions: name)
      }, roots: ["old"], code: .expired),
    MatrixCase(
      name: "an old and a new certificate of the same root",
      make: {
        try $0.makeRoot("old", subject: "/CN=renewed", dates: past)
        try $0.folder.write("new.key", $0.folder.read("old.key"))
        try $0.makeRoot("new", subject: "/CN=renewed")
        try $0.issue("leaf", by: "new", extensions: name)
      }, roots: ["old", "new"], code: nil),
    MatrixCase(
      name: "no longer valid, and for another name",
      make: { try $0.issue("leaf", by: "root", extensions: "subjectAltName=DNS:other.example", dates: past) },
      // OpenSSL checks names before dates.
      code: .nameMismatch),
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
    MatrixCase(
      name: "an RSA key of 1024 bits",
      make: { try $0.issue("leaf", by: "root", key: rsa1024, extensions: name) }, code: .weakCertificate),
    MatrixCase(
      name: "an RSA key of 2048 bits",
      make: { try $0.issue("leaf", by: "root", key: "rsa:2048", extensions: name) }, code: nil),
    MatrixCase(
      name: "an authority with an RSA key of 1024 bits",
      make: {
        try $0.issue("middle", by: "root", key: rsa1024, extensions: authority)
        try $0.issue("leaf", by: "middle", extensions: name)
      }, between: ["middle"], code: .weakCertificate),
    MatrixCase(
      name: "a signature with SHA-1",
      make: { try $0.issue("leaf", by: "root", extensions: name, digest: "sha1") }, code: .weakCertificate),
    MatrixCase(
      name: "a signature with MD5",
      make: {
        try $0.makeRoot("rsa", key: "rsa:2048")
        try $0.issue("leaf", by: "rsa", extensions: name, digest: "md5")
      }, roots: ["rsa"], code: .weakCertificate),
    MatrixCase(
      name: "an intermediate certificate with a signature with SHA-1",
      make: {
        try $0.issue("middle", by: "root", extensions: authority, digest: "sha1")
        try $0.issue("leaf", by: "middle", extensions: name)
      }, between: ["middle"], code: .weakCertificate),
    MatrixCase(
      name: "a root that signed itself with SHA-1, which proves nothing",
      make: {
        try $0.makeRoot("old", digest: "sha1")
        try $0.issue("leaf", by: "old", extensions: name)
      }, roots: ["old"], code: nil),
    MatrixCase(
      name: "Ed25519 all through",
      make: {
        try $0.makeRoot("edwards", key: "ed25519", digest: "null")
        try $0.issue("leaf", by: "edwards", key: "ed25519", extensions: name, digest: "null")
      }, roots: ["edwards"], code: nil),
  ]

  private static func constrained(
    _ name: String, _ constraints: String, _ extensions: String, asked: String = "www.example.org",
    _ code: TLSError.Code?
  ) -> MatrixCase {
    MatrixCase(
      name: name, asked: asked,
      make: {
        try $0.issue("middle", by: "root", extensions: "\(authority)\nnameConstraints=critical,\(constraints)")
        try $0.issue("leaf", by: "middle", subject: "/O=Example", extensions: extensions)
      }, between: ["middle"], code: code)
  }
}
