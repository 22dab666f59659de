import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite(.tags(.singleThread, .manualMemory)) struct IdentityTests {
  /// Files that are made once for all tests here, and are only read.
  private static let files = Result {
    let folder = try CertificateFolder(isShared: true)
    let curve = "ec -pkeyopt ec_paramgen_curve:P-256"
    try folder.openssl("req -x509 -newkey \(curve) -nodes -keyout ec.key -out ec.pem -subj /CN=ec")
    try folder.openssl("req -x509 -newkey rsa:2048 -nodes -keyout rsa.key -out rsa.pem -subj /CN=rsa")
    try folder.openssl("req -x509 -newkey ed25519 -nodes -keyout ed.key -out ed.pem -subj /CN=ed")
    for name in ["ec", "rsa", "ed"] {
      try folder.openssl("x509 -in \(name).pem -outform DER -out \(name).der")
      try folder.openssl("pkey -in \(name).key -outform DER -out \(name).key.der")
      try folder.openssl("pkcs8 -topk8 -in \(name).key -out \(name).encrypted.key -passout pass:open")
      try folder.openssl("pkcs8 -topk8 -in \(name).key -outform DER -out \(name).encrypted.der -passout pass:open")
      try folder.openssl("pkcs12 -export -inkey \(name).key -in \(name).pem -out \(name).p12 -passout pass:open")
      try folder.openssl("pkcs12 -export -inkey \(name).key -in \(name).pem -out \(name).bare.p12 -passout pass:")
      try folder.write("\(name).both", folder.read("\(name).key") + folder.read("\(name).pem"))
    }
    try folder.openssl("rsa -in rsa.key -traditional -out rsa.traditional.key")
    try folder.openssl("rsa -in rsa.key -traditional -aes128 -passout pass:open -out rsa.traditional.encrypted.key")
    try folder.openssl("ec -in ec.key -out ec.traditional.key")
    try folder.openssl("rsa -in rsa.key -traditional -outform DER -out rsa.traditional.der")
    return folder
  }

  @Test(arguments: [
    ("ec.pem", "ec.key"), ("rsa.pem", "rsa.key"), ("ed.pem", "ed.key"), ("ec.der", "ec.key.der"),
    ("rsa.der", "rsa.key.der"), ("ed.der", "ed.key.der"), ("ec.der", "ec.key"), ("rsa.pem", "rsa.key.der"),
    ("rsa.pem", "rsa.traditional.key"), ("ec.pem", "ec.traditional.key"), ("rsa.der", "rsa.traditional.der"),
    ("ec.pem", "ec.both"), ("ec.both", "ec.both"),
  ])
  func `Keys are read in every form`(certificate: String, key: String) throws {
    let files = try Self.files.get()
    let fromFiles = try TLSIdentity(certificateFile: files(certificate), keyFile: files(key))
    let fromBytes = try TLSIdentity(certificates: files.read(certificate), key: files.read(key))
    #expect(fromFiles.certificate == fromBytes.certificate)
    #expect(fromFiles.certificate.subject == "CN=\(certificate.prefix { $0 != "." })")
    #expect(try serves(fromFiles) && serves(fromBytes))
  }

  @Test(arguments: ["ec", "rsa", "ed"])
  func `Certificate and key may be in one file`(name: String) throws {
    let files = try Self.files.get()
    #expect(try serves(TLSIdentity(certificateFile: files("\(name).both"))))
    #expect(try serves(TLSIdentity(certificates: files.read("\(name).both"))))
  }

  @Test(arguments: [
    "ec.encrypted.key", "rsa.encrypted.key", "ed.encrypted.key", "rsa.traditional.encrypted.key", "ec.encrypted.der",
    "rsa.encrypted.der",
  ])
  func `An encrypted key asks once for its passphrase`(key: String) throws {
    let files = try Self.files.get()
    let certificate = files("\(key.prefix { $0 != "." }).pem")
    var questions = 0
    let identity = try TLSIdentity(certificateFile: certificate, keyFile: files(key)) {
      questions += 1
      return "open"
    }
    #expect(questions == 1)
    #expect(try serves(identity))

    let wrong = refused(.wrongPassphrase, "\"\(files(key))\" is encrypted, and the passphrase is wrong") {
      try TLSIdentity(certificateFile: certificate, keyFile: files(key)) { "wrong" }
    }
    #expect(wrong?.reason.isEmpty == false)
    refused(.wrongPassphrase, "\"\(files(key))\" is encrypted, and no passphrase was given") {
      try TLSIdentity(certificateFile: certificate, keyFile: files(key))
    }
    refused(.wrongPassphrase) { try TLSIdentity(certificateFile: certificate, keyFile: files(key)) { nil } }
  }

  @Test func `A key that is not encrypted asks for no passphrase`() throws {
    let files = try Self.files.get()
    _ = try TLSIdentity(certificateFile: files("ec.pem"), keyFile: files("ec.key")) {
      Issue.record("nobody has to be asked")
      return nil
    }
  }

  @Test(arguments: ["ec", "rsa", "ed"])
  func `PKCS 12 is read with its passphrase, or without one if its passphrase is empty`(name: String) throws {
    let files = try Self.files.get()
    #expect(try serves(TLSIdentity(pkcs12File: files("\(name).p12")) { "open" }))
    #expect(try serves(TLSIdentity(pkcs12: files.read("\(name).p12")) { "open" }))
    #expect(try serves(TLSIdentity(pkcs12File: files("\(name).bare.p12"))))
    #expect(try serves(TLSIdentity(pkcs12File: files("\(name).bare.p12")) { "" }))
    for passphrase in ["wrong", "", nil] {
      let error = refused(.wrongPassphrase) { try TLSIdentity(pkcs12File: files("\(name).p12")) { passphrase } }
      #expect(error?.detail.hasPrefix("\"\(files("\(name).p12"))\" is encrypted") ?? false)
    }
  }

  @Test func `The certificates between are shown, those of PKCS 12 in order`() throws {
    let folder = try CertificateFolder()
    let authority = try Authority(in: folder, "root")
    try authority.issue("middle", by: "root", extensions: "basicConstraints=critical,CA:TRUE")
    try authority.issue("inner", by: "middle", extensions: "basicConstraints=critical,CA:TRUE")
    try authority.issue("leaf", by: "inner", extensions: "subjectAltName=DNS:example.org")
    try folder.write("chain.pem", folder.read("leaf.pem") + folder.read("inner.pem") + folder.read("middle.pem"))
    try folder.write("mixed.pem", folder.read("middle.pem") + folder.read("inner.pem"))
    try folder.openssl(
      "pkcs12 -export -inkey leaf.key -in leaf.pem -certfile mixed.pem -out leaf.p12 -passout pass:")
    for identity in [
      try TLSIdentity(certificateFile: folder("chain.pem"), keyFile: folder("leaf.key")),
      try TLSIdentity(pkcs12File: folder("leaf.p12")),
    ] {
      #expect(identity.certificates.map(\.subject) == ["CN=leaf", "CN=inner", "CN=middle"])
      let client = try TLSContext(TLSConfiguration(trustRoots: [.file(folder("root.pem"))]))
      let ends = try TwoEnds(client: client, server: TLSContext(TLSConfiguration(identity: identity)))
      #expect(ends.handshake().client == nil)
      #expect(ends.client.session.peerCertificates == identity.certificates)
    }
    let der = try ["leaf", "inner", "middle"].map { name -> [UInt8] in
      try folder.openssl("x509 -in \(name).pem -outform DER -out \(name).der")
      return try folder.read("\(name).der")
    }
    try folder.openssl("pkey -in leaf.key -outform DER -out leaf.key.der")
    let identity = try TLSIdentity(der: der, key: folder.read("leaf.key.der"))
    #expect(identity.certificates.map(\.subject) == ["CN=leaf", "CN=inner", "CN=middle"])
  }

  @Test(arguments: [TLSIdentity.KeyKind.ecdsaP256, .rsa2048])
  func `OpenSSL's command accepts the certificates that are made here`(kind: TLSIdentity.KeyKind) throws {
    let names = ["example.org", "*.example.org", "192.0.2.1", "2001:db8::1"]
    let identity = try TLSIdentity.selfSigned(for: names, key: kind)
    #expect(identity.certificate.dnsNames == ["example.org", "*.example.org"])
    #expect(identity.certificate.ipAddresses == ["192.0.2.1", "2001:db8::1"])
    let folder = try CertificateFolder()
    try folder.write("self.pem", identity.certificate.pem)
    for purpose in ["sslserver", "sslclient"] {
      let result = try folder.openssl("verify -x509_strict -purpose \(purpose) -CAfile self.pem self.pem")
      #expect(result.contains("self.pem: OK"))
    }
    #expect(try folder.openssl("verify -CAfile self.pem -verify_hostname www.example.org self.pem").contains("OK"))
    #expect(try folder.openssl("verify -CAfile self.pem -verify_ip 2001:db8::1 self.pem").contains("OK"))
    let text = try folder.openssl("x509 -in self.pem -noout -text")
    #expect(text.contains("CA:FALSE") && text.contains("TLS Web Server Authentication"))
  }

  @Test(arguments: [
    (.seconds(90000), 1_000_090_000), (.seconds(-60), 999_999_940), (.zero, 1_000_000_000),
    (Duration(attoseconds: .min), 0), (Duration(attoseconds: .max), 253_402_300_799),
  ])
  func `A certificate is valid from an hour before one time to a duration after it`(
    validity: Duration, end: Int
  ) throws {
    let now = 1_000_000_000
    let certificate = try TLSIdentity.selfSigned(for: ["example.org"], validity: validity, now: now).certificate
    #expect(certificate.notBefore == .seconds(now - 3600))
    #expect(certificate.notAfter == .seconds(end))
  }

  @Test(arguments: ["", "a..b", "*.", "*", "a b", "a,DNS:b", "a\0b"])
  func `An invalid name is refused, and so is a certificate without a name`(name: String) {
    refused(.invalidServerName) { try TLSIdentity.selfSigned(for: [name]) }
    refused { try TLSIdentity.selfSigned(for: []) }
  }

  private func serves(_ identity: TLSIdentity) throws -> Bool {
    let errors = try TwoEnds(
      client: .made { $0.verification = .dangerouslyNone }, server: TLSContext(TLSConfiguration(identity: identity))
    ).handshake()
    return errors.client == nil && errors.server == nil
  }
}
