import TestSupport
import Testing

@testable import ActorSocketsTLS

/// Files that are sound and cannot be used here. Their errors say what is not supported, and not something else.
@Suite struct UnusableFileTests {
  // The command would need a provider of its own to make these three. The passphrase is "secret".
  private static let pbeMD5DES = """
    -----BEGIN ENCRYPTED PRIVATE KEY-----
    MIGwMBsGCSqGSIb3DQEFAzAOBAjssF/9GjoH9wICCAAEgZDhgD71E8vWAhW8W73s
    Jm/PGQ4h1UXXLVCJr8/LQn/GJe2dtFMTL/yATGJs4HHvEXIpelXP4Bpnxeuk8gyx
    RhyNiwkhbsChYUk1fzdl/l6eCnYh79tThJ0RgefuzvGEWjB47/lytmFZ7GdcPs7X
    /hcLeOuGCGA0sM0x9OLnXT2+pci+YCjsku41OU9YMUrRrjU=
    -----END ENCRYPTED PRIVATE KEY-----

    """
  private static let singleDES = """
    -----BEGIN EC PRIVATE KEY-----
    Proc-Type: 4,ENCRYPTED
    DEK-Info: DES-CBC,817812B10DDB427D

    smNj/XlrY4RNU7FGh9m5CCkT4fRKOEHJu+9sT7ioIHkMSWg05+XzF6GzOZASIiEB
    atNK77VmeN+sX+c4bFmPCqri9y/WtsnXcjZsAf22LJGSg7/r4XVMGbLSuOc+1QX/
    DspFX4o+g5DVC3Nnt0d0fjP5RElXHDKIA9q6cfMgJdw=
    -----END EC PRIVATE KEY-----

    """
  private static let pbeRC4 = """
    -----BEGIN ENCRYPTED PRIVATE KEY-----
    MIGrMBwGCiqGSIb3DQEMAQEwDgQI61tDbFMFbMUCAggABIGKng7ruNwKGGzzHrsR
    bHEczYMnuBBw0FRpDXHGjCufLGUsd2bCfo5SSutklicwf7DIBi6GLUoY9C7BKljl
    gLech7IKfjpB2FsP4TNt13/077TWx2yBF38fmHYtjfOKZy9jwANPYVaQOgY7Uhie
    tnKIf7ExjetVOHmZ0BzJ87KoqozUIh7rkXlCdvGe
    -----END ENCRYPTED PRIVATE KEY-----

    """

  /// A folder with a key of this kind, and a certificate for it that signs itself.
  private static func folder(_ key: String, _ options: String = "") throws -> CertificateFolder {
    let folder = try CertificateFolder()
    try folder.openssl("req -x509 -newkey \(key) -nodes -keyout it.key -out it.pem -subj /CN=it \(options)")
    return folder
  }

  @Test(arguments: [pbeMD5DES, singleDES, pbeRC4], ["secret", "wrong"])
  func `A key in a cipher that OpenSSL has given up is not said to have a wrong passphrase`(
    key: String, passphrase: String
  ) throws {
    let identity = try Identities.client.get()
    let error = refused(.badFile) {
      try TLSIdentity(certificates: Array(identity.certificate.pem.utf8), key: Array(key.utf8)) { passphrase }
    }
    #expect(error?.detail.contains("an algorithm that OpenSSL no longer supports") == true)
  }

  @Test func `A key in a cipher that OpenSSL has is still said to have a wrong passphrase, in both old and new form`()
    throws
  {
    let folder = try Self.folder("rsa:2048")
    try folder.openssl("rsa -in it.key -traditional -aes128 -passout pass:secret -out old.key")
    try folder.openssl("pkcs8 -topk8 -in it.key -passout pass:secret -out new.key")
    for name in ["old.key", "new.key"] {
      // A wrong passphrase may decrypt to something that has the right form by chance.
      for number in 0..<600 {
        refused(.wrongPassphrase) {
          try TLSIdentity(certificateFile: folder("it.pem"), keyFile: folder(name)) { "wrong \(number)" }
        }
      }
    }
  }

  @Test func `A PKCS#12 file without a MAC is opened if nothing in it is encrypted, and otherwise it is said why not`()
    throws
  {
    let folder = try Self.folder("rsa:2048")
    try folder.openssl("pkcs12 -export -nomac -inkey it.key -in it.pem -passout pass:secret -out closed.p12")
    try folder.openssl(
      "pkcs12 -export -nomac -keypbe NONE -certpbe NONE -inkey it.key -in it.pem -passout pass: -out open.p12")
    for passphrase in [nil, "", "secret"] as [String?] {
      #expect(try TLSIdentity(pkcs12File: folder("open.p12")) { passphrase }.certificate.subject == "CN=it")
      let error = refused(.badFile) { try TLSIdentity(pkcs12: folder.read("closed.p12")) { passphrase } }
      #expect(error?.detail.contains("has no MAC") == true)
    }
  }

  @Test(arguments: ["secp256k1", "brainpoolP256r1", "brainpoolP384r1", "secp224r1"])
  func `A key on a curve that TLS does not use is refused when it is loaded`(curve: String) throws {
    let folder = try Self.folder("ec -pkeyopt ec_paramgen_curve:\(curve)")
    try folder.openssl("pkcs12 -export -inkey it.key -in it.pem -passout pass:secret -out it.p12")
    for load in [
      { try TLSIdentity(certificateFile: folder("it.pem"), keyFile: folder("it.key")) },
      { try TLSIdentity(pkcs12File: folder("it.p12")) { "secret" } },
    ] {
      #expect(refused(.badFile) { try load() }?.detail.contains("the curve \(curve)") == true)
    }
  }

  @Test(arguments: ["P-256", "P-384", "P-521"])
  func `Keys on the curves of TLS shake hands`(curve: String) throws {
    let folder = try Self.folder("ec -pkeyopt ec_paramgen_curve:\(curve)", "-addext subjectAltName=DNS:example.org")
    for version in TLSVersion.both {
      let identity = try TLSIdentity(certificateFile: folder("it.pem"), keyFile: folder("it.key"))
      let client = try TLSContext(TLSConfiguration(trustRoots: [.file(folder("it.pem"))]))
      _ = try TwoEnds.up(client: client, server: .made(.init(identity: identity), version))
    }
  }

  // MARK: Blocks of unknown kinds

  private static let damage: [@Sendable (String) -> String] = [
    { $0.replacing("CERTIFICATE", with: "CERTFICATE") },
    { $0.replacing("CERTIFICATE", with: "PKCS7") },
    { $0.replacing("BEGIN CERTIFICATE-----", with: "BEGIN CERTIFICATE---") },
    { $0.replacing("-----BEGIN CERTIFICATE", with: "----BEGIN CERTIFICATE") },
    { $0.replacing("-----BEGIN CERTIFICATE-----\n", with: "") },
  ]

  @Test(arguments: damage.indices, [false, true])
  func `A block that is not recognised beside a good certificate is reported`(index: Int, isFirst: Bool) throws {
    let good = try Identities.server.get().certificate.pem
    let bad = try Self.damage[index](Identities.client.get().certificate.pem)
    let text = Array((isFirst ? bad + good : good + bad).utf8)
    let folder = try CertificateFolder()
    try folder.write("roots.pem", text)
    for load in [
      { _ = try TLSContext(TLSConfiguration(trustRoots: [.file(folder("roots.pem"))])) },
      { _ = try TLSContext(TLSConfiguration(trustRoots: [.pem(text)])) },
      { _ = try Certificate.read(text, from: .bytes) },
    ] {
      #expect(refused(.badFile) { try load() }?.detail.contains("block") == true)
    }
    // A directory may have files of all kinds. The certificates in them that can be used are trusted.
    #expect(throws: Never.self) { try TLSContext(TLSConfiguration(trustRoots: [.directory(folder(""))])) }
    // Documented to ignore everything else.
    #expect(try TLSCertificate.all(pem: text).count == 1)
  }

  @Test func `Keys, parameters, requests, lists and text between the blocks are no reason to refuse a file`() throws {
    let folder = try CertificateFolder()
    let authority = try Authority(in: folder, "root")
    try authority.issue("leaf", by: "root")
    let parameters = try folder.openssl("ecparam -name prime256v1")
    let root = try folder.text("root.pem").replacing("\n", with: "\r\n")
    let leaf = try folder.text("leaf.pem").replacing("-----\n", with: "----- \n")
    let others = try [folder.text("root.key"), parameters, folder.text("leaf.csr"), "Certificate:\n    Data\n"]
    let text = "# the root\r\n\r\n\(root)\(others.joined())\(leaf)"
    #expect(try Certificate.read(Array(text.utf8), from: .bytes).count == 2)
    #expect(try TLSContext(TLSConfiguration(trustRoots: [.pem(Array(text.utf8))])).trust.roots.count == 2)
  }

  @Test(arguments: ["secret", "wrong"])
  func `A PKCS#12 file with a MAC that OpenSSL has given up is not said to have a wrong passphrase`(
    passphrase: String
  ) throws {
    let folder = try Self.folder("rsa:2048")
    try folder.openssl("pkcs12 -export -macalg md5 -inkey it.key -in it.pem -passout pass:secret -out it.p12")
    // MD4 in place of MD5: the last byte of its identifier is another one. The command would need a provider for it.
    var bytes = try folder.read("it.p12")
    let md5: [UInt8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x05]
    let start = try #require(bytes.indices.last { bytes[$0...].starts(with: md5) })
    bytes[start + 7] = 4
    let error = refused(.badFile) { try TLSIdentity(pkcs12: bytes) { passphrase } }
    #expect(error?.detail.contains("has a MAC of a kind that this OpenSSL does not support") == true)
  }
}
