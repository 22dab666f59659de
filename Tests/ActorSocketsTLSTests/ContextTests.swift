import Glibc
import TestSupport
import Testing

@testable import ActorSocketsTLS

/// Making a context reports a mistake in its configuration, with the file and the cause.
@Suite struct ContextTests {
  private func error(_ change: (inout TLSConfiguration) throws -> Void) throws -> TLSError? {
    do {
      _ = try TLSContext.made(.init(trustRoots: [.certificates([Made.identity.get().certificate])]), nil, change)
      return nil
    } catch let error as TLSError {
      return error
    }
  }

  @Test func `A context can be made of the defaults`() throws {
    _ = try TLSContext()
    _ = try TLSContext(TLSConfiguration(identity: Made.identity.get()))
  }

  // MARK: Files

  @Test func `A file that is not there is named`() throws {
    let folder = try CertificateFolder()
    let path = folder("missing.pem")
    let description = "TLS: \"\(path)\" cannot be read: No such file or directory"
    let trust = try error { $0.trustRoots = [.file(path)] }
    #expect(trust?.code == .badFile && trust?.description == description)
    #expect(refused { try TLSIdentity(certificateFile: path) }?.description == description)
    #expect(refused { try TLSIdentity(pkcs12File: path) }?.description == description)
    let directory = try error { $0.trustRoots = [.directory(path)] }
    #expect(directory?.description == "TLS: \"\(path)\" cannot be read as a directory: No such file or directory")
  }

  @Test func `A directory is no file, and a file no directory`() throws {
    let folder = try CertificateFolder()
    try folder.write("file", "")
    let clause = "is not a regular file or a pipe"
    #expect(try error { $0.trustRoots = [.file(folder(""))] }?.detail == "\"\(folder(""))\" \(clause)")
    let other = try error { $0.trustRoots = [.directory(folder("file"))] }
    #expect(other?.detail == "\"\(folder("file"))\" cannot be read as a directory: Not a directory")
    #expect(try error { $0.trustRoots = [.file("/dev/zero")] }?.detail == "\"/dev/zero\" \(clause)")
    #expect(try error { $0.trustRoots = [.file("")] }?.detail == "\"\" is not a path")
    #expect(try error { $0.trustRoots = [.file("a\0b")] }?.code == .badFile)
  }

  @Test(arguments: [
    ("", "has no certificate in PEM or DER form"),
    ("garbage", "has no certificate in PEM or DER form"),
    (
      "-----BEGIN CERTIFICATE-----\nMIIgarbage!\n-----END CERTIFICATE-----\n",
      "has a certificate that cannot be read, number 1"
    ),
    (
      "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
      "has a certificate that cannot be read, number 1"
    ),
    ("-----BEGIN CERTIFICATE-----\nMIIB", "has a certificate that cannot be read, number 1"),
    (
      "-----BEGIN NOTHING-----\nMIIB\n-----END NOTHING-----\n",
      "has a block that is not recognised, number 1: \"NOTHING\""
    ),
  ])
  func `Garbage in place of certificates is named`(text: String, clause: String) throws {
    let folder = try CertificateFolder()
    try folder.write("garbage.pem", text)
    let detail = "\"\(folder("garbage.pem"))\" \(clause)"
    refused(.badFile, detail) { try TLSContext(TLSConfiguration(trustRoots: [.file(folder("garbage.pem"))])) }
    refused(nil, detail) { try TLSIdentity(certificateFile: folder("garbage.pem")) }
    refused(nil, "the bytes given \(clause)") { try TLSIdentity(certificates: Array(text.utf8)) }
    #expect(try error { $0.trustRoots = [.pem(Array(text.utf8))] }?.code == .badFile)
    #expect(try error { $0.trustRoots = [.der(Array(text.utf8))] }?.code == .badFile)
  }

  @Test func `The second certificate of a file counts, too`() throws {
    let pem = try Made.identity.get().certificate.pem
    let broken = Array((pem + pem.replacing("\nM", with: "\n!")).utf8)
    #expect(try error { $0.trustRoots = [.pem(broken)] }?.detail.hasSuffix("cannot be read, number 2") ?? false)
    #expect(try TLSCertificate.all(pem: Array((pem + "between\n" + pem).utf8)).count == 2)
    let der = try Made.identity.get().certificate.der
    #expect(
      try error { $0.trustRoots = [.der(der + [0])] }?.detail.hasSuffix("something behind the certificate") ?? false)
  }

  @Test func `A key that does not fit is named, and where the right certificate is`() throws {
    let folder = try CertificateFolder()
    let authority = try Authority(in: folder, "one")
    try authority.makeRoot("two")
    func identity(_ certificate: String, _ key: String? = nil) throws -> TLSIdentity {
      try TLSIdentity(certificateFile: folder(certificate), keyFile: key.map { folder($0) })
    }
    let mismatch = "the private key of \"\(folder("two.key"))\" does not belong to the certificate"
    #expect(refused(.keyMismatch, mismatch) { try identity("one.pem", "two.key") }?.certificate == "CN=one")
    try folder.write("both.pem", folder.read("one.pem") + folder.read("two.pem"))
    let order = refused(.keyMismatch) { try identity("both.pem", "two.key") }
    #expect(
      order?.detail.hasSuffix("to the first certificate, but to number 2 of them, which has to be the first") ?? false)
    refused(nil, "\"\(folder("one.pem"))\" has no private key") { try identity("one.pem") }
    refused(nil, "\"\(folder("one.key"))\" has no certificate in PEM form") { try identity("one.key", "one.pem") }
    try folder.write("garbage", "garbage")
    refused(nil, "\"\(folder("garbage"))\" has no private key in PEM or DER form") {
      try identity("one.pem", "garbage")
    }
    try folder.write("torn.key", String(folder.text("one.key").dropLast(60)))
    refused(nil, "\"\(folder("torn.key"))\" has a private key that cannot be read") {
      try identity("one.pem", "torn.key")
    }
    refused(nil, "\"\(folder("one.pem"))\" is no PKCS#12 file") { try TLSIdentity(pkcs12File: folder("one.pem")) }
    refused { try TLSIdentity(der: [], key: folder.read("one.key")) }
  }

  @Test func `A key that is too weak to be shown is refused here, and not in a handshake`() throws {
    let folder = try CertificateFolder()
    try folder.openssl("req -x509 -newkey rsa:1024 -nodes -keyout weak.key -out weak.pem -subj /CN=weak")
    let error = refused(.weakCertificate) {
      try TLSIdentity(certificateFile: folder("weak.pem"), keyFile: folder("weak.key"))
    }
    #expect(error?.reason == "ee key too small")
  }

  @Test func `All certificates of a directory are trusted, whatever the files are called`() throws {
    let folder = try CertificateFolder()
    let empty = try error { $0.trustRoots = [.directory(folder(""))] }
    #expect(empty?.code == .noTrustRoots)
    #expect(empty?.detail == "no file in \"\(folder(""))\" has a certificate")
    try folder.write("any name.txt", Made.identity.get().certificate.pem)
    try folder.write("other.der", Made.other.get().certificate.der)
    try folder.write("README", "Nothing of interest")
    let client = try TLSContext(TLSConfiguration(trustRoots: [.directory(folder(""))]))
    _ = try TwoEnds.up(client: client, server: Made.server())
    _ = try TwoEnds.up(
      client: client, server: Made.server { $0.identity = try Made.other.get() }, serverName: "other.example")
  }

  @Test func `A file that cannot be read or is too large is named`() throws {
    let memory = try error { $0.trustRoots = [.file("/proc/self/mem")] }
    #expect(memory?.detail == "\"/proc/self/mem\" cannot be read: Input/output error")
    let folder = try CertificateFolder()
    try folder.write("large.pem", [UInt8](repeating: 0, count: 32 << 20 + 1))
    let large = try error { $0.trustRoots = [.file(folder("large.pem"))] }
    #expect(large?.detail == "\"\(folder("large.pem"))\" has more than 32 MiB")
    // This file has no length, and far more bytes.
    let endless = try error { $0.trustRoots = [.file("/proc/self/pagemap")] }
    #expect(endless?.detail == "\"/proc/self/pagemap\" has more than 32 MiB")
  }

  @Test func `PKCS 12 in an encryption that OpenSSL has given up says so`() throws {
    let folder = try CertificateFolder()
    _ = try Authority(in: folder, "old")
    try folder.openssl("pkcs12 -export -legacy -inkey old.key -in old.pem -out old.p12 -passout pass:open")
    refused(
      .badFile,
      "\"\(folder("old.p12"))\" is encrypted with an algorithm that OpenSSL no longer supports; export it again"
    ) { try TLSIdentity(pkcs12File: folder("old.p12")) { "open" } }
  }

  // MARK: Trust

  @Test func `Trust roots are required, unless a closure verifies the peer`() throws {
    #expect(try error { $0.trustRoots = [] }?.code == .noTrustRoots)
    #expect(try error { $0.trustRoots = [.certificates([])] }?.code == .noTrustRoots)
    let chosen = try error {
      $0.trustRoots = []
      $0.verification = .custom { _ in true }
    }
    #expect(chosen == nil)
    // A server that asks its clients for no certificates needs no trust roots; as a client it needs them.
    let server = try Made.server { $0.trustRoots = [] }
    refused(.noTrustRoots) { try TwoEnds(client: server, server: server) }
  }

  @Test func `A system without roots says where they should be and how they get there`() async {
    // In a process of its own, so that no other test reads the changed environment.
    // SAFETY (here and below): the texts are valid for the calls, and no other thread of that process reads them.
    await #expect(processExitsWith: .success) {
      unsafe setenv("SSL_CERT_FILE", "/nowhere/file", 1)
      unsafe setenv("SSL_CERT_DIR", "/nowhere/one:/tmp", 1)
      let error = #expect(throws: TLSError.self) { try TLSContext() }
      #expect(error?.code == .noTrustRoots)
      #expect(
        error?.detail == "the system has no trust roots in \"/nowhere/one\" and \"/tmp\" and \"/nowhere/file\""
          + "; install the package ca-certificates")
      // A server that asks its clients for no certificates needs no trust roots.
      _ = try TLSContext(TLSConfiguration(identity: TLSIdentity.selfSigned(for: ["example.org"])))
    }
  }

  @Test func `The system's roots are those that its variables name`() async {
    await #expect(processExitsWith: .success) {
      let folder = try CertificateFolder()
      let identity = try TLSIdentity.selfSigned(for: ["example.org"])
      try folder.write("root.pem", identity.certificate.pem)
      let server = try TLSContext(TLSConfiguration(identity: identity))
      unsafe setenv("SSL_CERT_DIR", "/nowhere", 1)
      unsafe setenv("SSL_CERT_FILE", folder("root.pem"), 1)
      _ = try TwoEnds.up(client: TLSContext(), server: server)
      unsafe setenv("SSL_CERT_FILE", "/nowhere", 1)
      unsafe setenv("SSL_CERT_DIR", folder(""), 1)
      try folder.openssl("rehash .")
      _ = try TwoEnds.up(client: TLSContext(), server: server)
    }
  }

  @Test(arguments: [0, 20, 31, 33])
  func `A pin of another length is refused, and an empty list of pins`(count: Int) throws {
    #expect(try error { $0.trustRoots = [.publicKeys([])] }?.code == .invalidConfiguration)
    let error = try error { $0.trustRoots = [.publicKeys([[UInt8](repeating: 1, count: count)])] }
    #expect(error?.code == .invalidConfiguration)
    #expect(error?.description.contains("32 bytes, and one of those given has \(count)") ?? false)
  }

  // MARK: The rest

  @Test(arguments: [
    ("nonsense", "no cipher \"nonsense\""), ("ECDHE+AESGCM:nonsense", "no cipher \"nonsense\""),
    ("ECDHE+nonsense", "no cipher \"nonsense\""), ("", "ciphers is empty"), ("a\0b", "NUL"),
    ("HIGH:!HIGH", "leave none"), ("TLS_AES_128_GCM_SHA256:no such:AES", "no cipher \"TLS_AES_128_GCM_SHA256\""),
  ])
  func `A cipher that OpenSSL does not know is named`(list: String, clause: String) throws {
    let error = try error { $0.ciphers = .openSSL(list) }
    #expect(error?.code == .invalidConfiguration)
    #expect(error?.description.contains(clause) ?? false, "\(String(describing: error))")
  }

  @Test(arguments: [
    "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL:!RC4:!nothing:@STRENGTH", "HIGH:!kRSA",
    "DEFAULT", "DEFAULT@SECLEVEL=2", "ALL:-kDHE:+RSA", "ECDHE-RSA-AES256-GCM-SHA384 ECDHE+AES",
  ])
  func `Lists of ciphers are in OpenSSL's notation`(list: String) throws {
    #expect(try error { $0.ciphers = .openSSL(list) } == nil)
  }

  @Test func `A suite or a group that OpenSSL does not know is refused`() throws {
    for list in ["nonsense", "TLS_AES_128_GCM_SHA256:nonsense", "ECDHE-RSA-AES256-GCM-SHA384", ":", ""] {
      #expect(try error { $0.cipherSuites = list }?.code == .invalidConfiguration, "\(list)")
    }
    for list in ["nonsense", "X25519:nonsense", "", ":"] {
      #expect(try error { $0.groups = .openSSL(list) }?.code == .invalidConfiguration, "\(list)")
    }
  }

  @Test func `Names of protocols are neither empty nor too long`() throws {
    #expect(try error { $0.applicationProtocols = ["h2", ""] }?.code == .invalidConfiguration)
    let long = try error { $0.applicationProtocols = [String(repeating: "x", count: 256)] }
    #expect(long?.code == .invalidConfiguration && long?.description.contains("255") ?? false)
    let many = try error { $0.applicationProtocols = .init(repeating: String(repeating: "x", count: 255), count: 300) }
    #expect(many?.code == .invalidConfiguration)
  }

  @Test func `Versions that make no sense are refused`() throws {
    let order = try error {
      $0.minimumVersion = .v13
      $0.maximumVersion = .v12
    }
    #expect(order?.code == .invalidConfiguration)
    #expect(order?.detail == "the oldest version, TLS 1.3, is newer than the newest, TLS 1.2")
    let old = try error { $0.minimumVersion = TLSVersion(rawValue: 0x0301) }
    #expect(old?.detail == "TLS 1.0 is not spoken here, only TLS 1.2 and 1.3 are")
  }

  @Test func `Numbers out of range are refused`() throws {
    let changes: [(inout TLSConfiguration) -> Void] = [
      { $0.maximumChainDepth = -1 }, { $0.maximumChainDepth = 101 }, { $0.sessionCacheSize = -1 },
      { $0.keyUpdateLimit = 7 }, { $0.sessionLifetime = .zero }, { $0.ticketKeyLifetime = .seconds(-1) },
      { $0.handshakeTimeout = .zero },
    ]
    for change in changes { #expect(try error(change)?.code == .invalidConfiguration) }
  }

  @Test func `An invalid name in the table of identities is refused`() throws {
    for name in ["", "*", "*.*.example", "www.*.example", ".example", "a..b", "b\u{fc}cher.example"] {
      #expect(try error { $0.identities = [name: try Made.identity.get()] }?.code == .invalidServerName, "\(name)")
    }
  }
}
