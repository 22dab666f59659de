import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite struct PinTests {
  /// root → middle → leaf, which is for www.example.org; and another leaf for the same key that is too old.
  private static let files = Result {
    let folder = try CertificateFolder(isShared: true)
    let authority = try Authority(in: folder, "root")
    try authority.issueChain()
    try authority.makeRoot("stranger")
    try folder.write("old.key", folder.read("leaf.key"))
    try authority.issue("old", by: "middle", extensions: MatrixCase.name, dates: MatrixCase.past)
    try folder.write("client.key", folder.read("leaf.key"))
    let client = "\(MatrixCase.name)\nextendedKeyUsage=clientAuth"
    try authority.issue("client", by: "middle", extensions: client)
    return folder
  }

  private func error(
    pins: [String], roots: [String] = [], sent: [String] = ["leaf", "middle"], asked: String = "www.example.org"
  ) throws -> TLSError? {
    let folder = try Self.files.get()
    func certificates(_ name: String) throws -> [TLSCertificate] {
      try TLSCertificate.all(pem: folder.read("\(name).pem"))
    }
    let chain = try CertificateFolder()
    try chain.write("chain.pem", sent.flatMap { try folder.read("\($0).pem") })
    let server = try ChainServer(chain: chain("chain.pem"), key: folder("leaf.key"))
    let hashes = try pins.flatMap { try certificates($0).map(\.publicKeySHA256) }
    var trust: [TLSTrustRoots] = [.publicKeys(hashes)]
    if !roots.isEmpty { trust.append(.certificates(try roots.flatMap(certificates))) }
    return try server.verdict(of: TLSContext(TLSConfiguration(trustRoots: trust)), asking: asked).error
  }

  @Test func `A pinned key needs no roots, whether it is the server's own or an intermediate's`() throws {
    #expect(try error(pins: ["leaf"]) == nil)
    #expect(try error(pins: ["leaf"], sent: ["leaf"]) == nil)
    #expect(try error(pins: ["middle"]) == nil)
    #expect(try error(pins: ["stranger", "middle"]) == nil)
  }

  @Test func `Another key is refused`() throws {
    let refused = try error(pins: ["stranger"])
    #expect(refused?.code == .publicKeyNotPinned)
    #expect(refused?.alert == "bad_certificate")
    #expect(refused?.certificate == "CN=leaf")
    // The root's key is pinned, but the server did not send the root's certificate.
    #expect(try error(pins: ["root"])?.code == .publicKeyNotPinned)
  }

  @Test func `A pinned certificate that is sent along proves nothing by itself`() throws {
    #expect(try error(pins: ["stranger"], sent: ["leaf", "middle", "stranger"])?.code == .unknownAuthority)
  }

  @Test func `All other checks hold`() throws {
    #expect(try error(pins: ["leaf"], asked: "other.example")?.code == .nameMismatch)
    #expect(try error(pins: ["leaf"], sent: ["old"])?.code == .expired)
    #expect(try error(pins: ["leaf"], sent: ["client"])?.code == .wrongPurpose)
    #expect(try error(pins: ["middle"], sent: ["old", "middle"])?.code == .expired)
  }

  @Test func `Beside roots both have to be right`() throws {
    #expect(try error(pins: ["leaf"], roots: ["root"]) == nil)
    #expect(try error(pins: ["middle"], roots: ["root"]) == nil)
    #expect(try error(pins: ["root"], roots: ["root"]) == nil)
    #expect(try error(pins: ["stranger"], roots: ["root"])?.code == .publicKeyNotPinned)
    #expect(try error(pins: ["leaf"], roots: ["stranger"])?.code == .unknownAuthority)
    #expect(
      try error(pins: ["stranger"], roots: ["root"], sent: ["leaf", "middle", "stranger"])?.code == .publicKeyNotPinned)
  }
}
