import ActorSockets
import TestSupport
import Testing

@testable import ActorSocketsTLS

/// A stapled response, and what a client should make of it.
struct StapleCase: Sendable, CustomTestStringConvertible {
  let testDescription: String
  let make: @Sendable (StapleFiles) throws -> [UInt8]?
  var leaf = "leaf"
  /// Why it is refused; nil if it is accepted.
  let code: TLSError.Code?

  init(
    _ name: String, showing leaf: String = "leaf", _ code: TLSError.Code? = nil,
    _ make: @escaping @Sendable (StapleFiles) throws -> [UInt8]?
  ) {
    testDescription = name
    self.leaf = leaf
    self.code = code
    self.make = make
  }

  static let all = [
    StapleCase("good, signed by the issuer") { try $0.response() },
    StapleCase("good, and the issuer is named by another hash") { try $0.response("sha256") },
    StapleCase("good, without the signer's certificate") {
      try $0.response("leaf", "good", by: "middle", ["-resp_no_certs"])
    },
    StapleCase("good, signed by a responder of the issuer") { try $0.response(by: "responder") },
    StapleCase("signed by a certificate of the issuer for other purposes", .stapleInvalid) {
      try $0.response(by: "other")
    },
    StapleCase("signed by a responder of somebody else", .stapleInvalid) { try $0.response(by: "foreign") },
    StapleCase("signed by the issuer's issuer", .stapleInvalid) { try $0.response(by: "root") },
    StapleCase("signed by an impostor with the issuer's name", .stapleInvalid) { try $0.response(by: "impostor") },
    StapleCase("a wrong signature", .stapleInvalid) { try $0.response("leaf", "good", by: "middle", ["-badsig"]) },
    StapleCase("revoked", .revoked) { try $0.response("leaf", "revoked") },
    StapleCase("revoked, signed by a responder", .revoked) { try $0.response("leaf", "revoked", by: "responder") },
    StapleCase("unknown to the issuer", .revocationUnknown) { try $0.response("leaf", "unknown") },
    StapleCase("about another certificate", .stapleInvalid) { try $0.response("other") },
    StapleCase("current") { try $0.response(from: -60, to: 60) },
    StapleCase("expired, but by less than clocks differ") { try $0.response(from: -3_600, to: -200) },
    StapleCase("expired", .stapleInvalid) { try $0.response(from: -3_600, to: -400) },
    StapleCase("early, but by less than clocks differ") { try $0.response(from: 200, to: 3_600) },
    StapleCase("not valid yet", .stapleInvalid) { try $0.response(from: 400, to: 3_600) },
    StapleCase("without an end, and young") { try $0.response(from: -80_000, to: nil) },
    StapleCase("without an end, and old", .stapleInvalid) { try $0.response(from: -90_000, to: nil) },
    StapleCase("an error of the responder", .stapleInvalid) { $0.tryLater() },
    StapleCase("cut off", .stapleInvalid) { try $0.response().dropLast() },
    StapleCase("something behind it", .stapleInvalid) { try $0.response() + [0] },
    StapleCase("no response at all", .stapleInvalid) { _ in Array("no response".utf8) },
    StapleCase("none") { _ in nil },
    StapleCase("none, although the certificate says that there is one", showing: "must", .stapleMissing) { _ in nil },
    StapleCase("one, as the certificate says", showing: "must") { try $0.response("must") },
  ]
}

@Suite struct StapleTests {
  private let files: StapleFiles

  init() throws { files = try .shared }

  @Test(arguments: StapleCase.all, TLSVersion.both)
  func `A client verifies what is stapled`(stapleCase: StapleCase, version: TLSVersion) throws {
    let response = try stapleCase.make(files)
    let server = try files.server(response, showing: stapleCase.leaf)
    for isRequired in [false, true] {
      let client = try files.client(version, requiring: isRequired)
      let (error, session) = try server.verdict(of: client, asking: RevocationFiles.name)
      let code = stapleCase.code ?? (isRequired && response == nil ? .stapleMissing : nil)
      #expect(error?.code == code, "\(String(describing: error))")
      #expect(error == nil || error?.alert == "bad_certificate_status_response")
      #expect(error == nil || error?.certificate == "CN=\(stapleCase.leaf)")
      #expect(error != nil || session?.verdict.isTrusted == true)
      #expect(error == nil || client.sessions.count == 0)
    }
  }

  @Test(arguments: TLSVersion.both)
  func `A certificate that signs itself is the issuer for the response that is stapled to it`(
    version: TLSVersion
  ) throws {
    let folder = try CertificateFolder()
    let authority = Authority(in: folder)
    try authority.makeRoot(
      "solo", extensions: "subjectAltName=DNS:example.org\nkeyUsage=critical,digitalSignature,keyCertSign")
    try folder.openssl("ocsp -issuer solo.pem -cert solo.pem -no_nonce -reqout solo.request")
    try authority.writeIndex("good.index", good: ["solo"])
    try authority.writeIndex("revoked.index", revoking: ["solo"])
    for (index, code) in [("good", nil), ("revoked", .revoked)] as [(String, TLSError.Code?)] {
      try folder.openssl(
        "ocsp -index \(index).index -CA solo.pem -rsigner solo.pem -rkey solo.key -reqin solo.request "
          + "-respout \(index).response -ndays 7")
      let identity = try TLSIdentity(certificateFile: folder("solo.pem"), keyFile: folder("solo.key"))
      try identity.replaceStaple(file: folder("\(index).response"))
      var configuration = TLSConfiguration(trustRoots: [.file(folder("solo.pem"))])
      configuration.requiresStaple = true
      configuration.limit(to: version)
      let server = try TLSContext(TLSConfiguration(identity: identity))
      let ends = try TwoEnds(client: TLSContext(configuration), server: server)
      let error = ends.handshake().client
      #expect(error?.code == code, "\(String(describing: error))")
    }
  }

  @Test func `A response over the limit is refused`() throws {
    let large = [UInt8](repeating: 0x30, count: Staple.limit + 1)
    let error = try files.server(large).verdict(of: files.client(.v13), asking: RevocationFiles.name).error
    #expect(
      error?.code == .stapleInvalid && error?.description.contains("16384 are the limit") == true,
      "\(String(describing: error))")
    // OpenSSL refuses the message before.
    #expect(try files.server(large).verdict(of: files.client(.v12), asking: RevocationFiles.name).error != nil)
  }

  // MARK: With other settings

  @Test(arguments: TLSVersion.both)
  func `Without verification the session has the verdict; a closure is asked before and cannot overrule it`(
    version: TLSVersion
  ) throws {
    let server = try files.server(files.response("leaf", "revoked"))
    let careless = try files.client(version) { $0.verification = .dangerouslyNone }
    let (error, session) = try server.verdict(of: careless, asking: RevocationFiles.name)
    #expect(error == nil && session?.verdict.error?.code == .revoked)
    // A resumed session would forget this verdict, so the session is not resumed.
    let identity = try files.files.identity()
    try identity.replaceStaple(files.response("leaf", "revoked"))
    let ours = try TLSContext(TLSConfiguration(identity: identity))
    for _ in 0..<2 {
      let ends = try TwoEnds(client: careless, server: ours, serverName: RevocationFiles.name)
      #expect(ends.handshake().client == nil && !ends.client.session.isResumed)
      #expect(ends.client.session.verdict.error?.code == .revoked)
    }
    func ask(_ roots: String, _ server: ChainServer, requiring: Bool = false) throws -> (TLSError.Code?, Bool?) {
      let seen = Notes<Bool>()
      let asking = try files.client(version, requiring: requiring) {
        $0.trustRoots = [.file(files.folder("\(roots).pem"))]
        $0.verification = .custom { _ in true }
      }
      let error = try server.verdict(of: asking, asking: RevocationFiles.name) { peer in
        seen.add(peer.verdict.isTrusted)
        return .success(())
      }.error
      return (error?.code, seen.all.first)
    }
    #expect(try ask("root", server) == (.revoked, true))
    // A certificate that was accepted although it is not trusted has no issuer who could speak for it.
    #expect(try ask("stranger", server, requiring: true) == (nil, false))
    #expect(try ask("root", files.server(nil), requiring: true) == (.stapleMissing, true))
  }

  @Test func `Responses are verified with whatever is trusted as the issuer`() throws {
    let certificates = try files.files.identity().certificates
    func code(_ roots: TLSTrustRoots, _ index: String, alone: Bool = false) throws -> TLSError.Code? {
      let client = try files.client {
        $0.trustRoots = [roots]
        $0.acceptsPartialChains = true
      }
      let server = try files.server(files.response("leaf", index), alone: alone)
      return try server.verdict(of: client, asking: RevocationFiles.name).error?.code
    }
    for certificate in certificates.prefix(2) {
      for roots in [.publicKeys([certificate.publicKeySHA256]), .certificates([certificate])] as [TLSTrustRoots] {
        #expect(try code(roots, "good") == nil)
        #expect(try code(roots, "revoked") == .revoked)
      }
    }
    // Without the issuer nothing can be verified, also not what is good.
    for roots in [.publicKeys([certificates[0].publicKeySHA256]), .certificates([certificates[0]])] as [TLSTrustRoots] {
      #expect(try code(roots, "good", alone: true) == .stapleInvalid)
    }
  }

  // MARK: Servers

  @Test(arguments: TLSVersion.both)
  func `A server staples, and the response is replaced while it runs`(version: TLSVersion) throws {
    let identity = try files.files.identity()
    let server = try TLSContext(TLSConfiguration(identity: identity))
    func connect() throws -> TLSError.Code? {
      let ends = try TwoEnds(
        client: files.client(version, requiring: true), server: server, serverName: RevocationFiles.name)
      return ends.handshake().client?.code
    }
    #expect(try connect() == .stapleMissing)
    try identity.replaceStaple(files.response())
    #expect(try connect() == nil)
    try files.folder.write("revoked.response", files.response("leaf", "revoked"))
    try identity.replaceStaple(file: files.folder("revoked.response"))
    #expect(try connect() == .revoked)
    // What cannot be used leaves the old one.
    for bytes in [
      files.tryLater(), [], try files.response("other"), try files.response(from: -900, to: -600),
      try files.response().dropLast(), [UInt8](repeating: 0, count: 20_000),
    ] {
      let error = try #require(throws: TLSError.self) { try identity.replaceStaple(bytes) }
      #expect(error.code == .stapleInvalid)
    }
    #expect(throws: TLSError.self) { try identity.replaceStaple(file: files.folder("absent")) }
    #expect(try connect() == .revoked)
    // Once it has expired, it is not sent.
    let old = try files.response(from: -900, to: -600)
    identity.stapled.withLock { $0 = old }
    #expect(try connect() == .stapleMissing)
    try identity.replaceStaple(nil)
    #expect(try connect() == .stapleMissing && identity.staple == nil)
  }

  @Test(arguments: TLSVersion.both)
  func `Each identity has its own response, and a resumed session needs no response`(version: TLSVersion) throws {
    let (leaf, other) = (try files.files.identity(), try files.files.identity("other"))
    try leaf.replaceStaple(files.response())
    var configuration = TLSConfiguration(identity: other)
    configuration.identities = ["*.test": leaf]
    let server = try TLSContext(configuration)
    let client = try files.client(version, requiring: true)
    for round in 0..<3 {
      let ends = try TwoEnds(client: client, server: server, serverName: RevocationFiles.name)
      #expect(ends.handshake().client == nil && ends.client.session.isResumed == (round > 0))
    }
    try server.replaceIdentities(identity: other)
    let fresh = try files.client(version, requiring: true)
    let ends = try TwoEnds(client: fresh, server: server, serverName: RevocationFiles.name)
    #expect(ends.handshake().client?.code == .stapleMissing)
  }
}
