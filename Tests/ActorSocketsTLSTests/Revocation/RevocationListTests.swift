import ActorSockets
import Foundation
import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTLS

/// Some lists, and what should become of a chain that is checked against them.
struct RevocationCase: Sendable, CustomTestStringConvertible {
  let testDescription: String
  let lists: [String]
  var scope = TLSRevocation.Scope.chain
  /// Why it is refused, with the alert and a part of the sentence; nil if it is accepted.
  var refusal: Refusal?

  struct Refusal: Sendable {
    let code: TLSError.Code
    let alert: String
    let sentence: String
  }

  init(_ name: String, _ lists: [String], _ scope: TLSRevocation.Scope = .chain, _ refusal: Refusal? = nil) {
    testDescription = name
    self.lists = lists
    self.scope = scope
    self.refusal = refusal
  }

  private static let revoked = Refusal(
    code: .revoked, alert: "certificate_revoked", sentence: "was revoked by its issuer")
  private static let missing = Refusal(
    code: .revocationUnknown, alert: "certificate_unknown", sentence: "there is no revocation list for ")
  private static let unusable = Refusal(
    code: .revocationUnknown, alert: "certificate_unknown", sentence: "cannot be used")
  private static let old = Refusal(
    code: .revocationListExpired, alert: "certificate_unknown", sentence: "has expired; a newer one")
  private static let early = Refusal(
    code: .revocationListExpired, alert: "certificate_unknown", sentence: "is not valid yet")

  static let all = [
    RevocationCase("nothing is revoked", ["root-empty", "middle-empty"]),
    RevocationCase("the peer's own is revoked", ["root-empty", "middle-leaf"], .chain, revoked),
    RevocationCase("the peer's own is revoked, and only that is checked", ["middle-leaf"], .leaf, revoked),
    RevocationCase("an authority is revoked", ["root-middle", "middle-empty"], .chain, revoked),
    RevocationCase(
      "an authority is revoked, but only the peer's own is checked", ["root-middle", "middle-empty"], .leaf),
    RevocationCase("no list for the peer's own", ["root-empty"], .chain, missing),
    RevocationCase("no list for the peer's own, which is all that is checked", ["root-empty"], .leaf, missing),
    RevocationCase("no list for the authority", ["middle-empty"], .chain, missing),
    RevocationCase("no list for the authority, but only the peer's own is checked", ["middle-empty"], .leaf),
    RevocationCase("the list has expired", ["root-empty", "middle-past"], .chain, old),
    RevocationCase("the list is not valid yet", ["root-empty", "middle-future"], .chain, early),
    RevocationCase("an expired list and a current one", ["root-empty", "middle-past", "middle-empty"]),
    RevocationCase("a list of another authority", ["root-empty", "stranger-empty"], .chain, missing),
    RevocationCase("a list of an impostor, who has another key", ["root-empty", "impostor-empty"], .chain, missing),
    RevocationCase(
      "a list of an impostor who does not name the key", ["root-empty", "impostor-plain"], .chain, unusable),
  ]
}

@Suite(.endsInTime) struct RevocationListTests {
  private let files: RevocationFiles

  init() throws { files = try .shared }

  @Test(arguments: RevocationCase.all, VerifyingSide.allCases)
  func `The verdict is the right one, and that of OpenSSL's command`(
    revocationCase: RevocationCase, side: VerifyingSide
  ) throws {
    for version in TLSVersion.both {
      let verifier = try files.verifier(files.lists(revocationCase.lists, revocationCase.scope), version: version)
      let (_, failure, other) = try side.connect(verifier, files.shower())
      #expect(failure?.code == revocationCase.refusal?.code, "\(String(describing: failure))")
      guard let refusal = revocationCase.refusal else { continue }
      #expect(failure?.alert == refusal.alert && other?.alert == refusal.alert)
      #expect(failure?.description.contains(refusal.sentence) == true, "\(String(describing: failure))")
      #expect(
        failure?.certificate == (failure?.detail.contains("the peer's certificate") == true ? "CN=leaf" : "CN=middle"))
    }
    let flag = revocationCase.scope == .chain ? ["-crl_check_all"] : ["-crl_check"]
    let lists = revocationCase.lists.flatMap { ["-CRLfile", "\($0).crl"] }
    let (status, output) = try files.folder.run(
      ["verify", "-CAfile", "root.pem", "-untrusted", "middle.pem"] + flag + lists + ["leaf.pem"])
    #expect((status == 0) == (revocationCase.refusal == nil), "openssl verify: \(output)")
  }

  @Test func `Lists are read as PEM and DER, from files and from memory, several in one`() throws {
    func bytes(_ names: [String]) throws -> [UInt8] { try names.flatMap { try files.folder.read($0) } }
    let two = try bytes(["root-empty.crl", "middle-leaf.crl"])
    try files.folder.write("two.crl", two)
    let der = TLSRevocation.List.file(files.folder("middle-leaf.crl.der"))
    for sources in [
      [.bytes(two)], [.file(files.folder("two.crl"))], [.file(files.folder("root-empty.crl")), der],
      [.bytes(try bytes(["middle-leaf.crl.der"])), .bytes(try bytes(["root-empty.crl.der"]))],
    ] as [[TLSRevocation.List]] {
      #expect(try RevocationLists(.crls(sources)).count == 2)
      let failure = try VerifyingSide.client.connect(files.verifier(.crls(sources)), files.shower()).failure
      #expect(failure?.code == .revoked)
    }
  }

  @Test func `A source without a valid list is an error that names the source`() throws {
    let der = try files.folder.read("middle-leaf.crl.der")
    let pem = try files.folder.text("middle-leaf.crl")
    try files.folder.write("damaged.crl", pem + pem.replacing("MII", with: "MIA"))
    try files.folder.write("empty.crl", "")
    for (source, sentence) in [
      (.file(files.folder("root.pem")), "root.pem\" has no revocation list in PEM form"),
      (.file(files.folder("absent.crl")), "absent.crl\" cannot be read"),
      (.file(files.folder("empty.crl")), "empty.crl\" has no revocation list in PEM or DER form"),
      (.file(files.folder("damaged.crl")), "has a revocation list that cannot be read, number 2"),
      (.bytes(Array(der.dropLast())), "the bytes given has no revocation list"),
      (.bytes(der + [0]), "has something behind the revocation list"),
      (.bytes([]), "has no revocation list"),
    ] as [(TLSRevocation.List, String)] {
      let error = try #require(throws: TLSError.self) { try files.verifier(.crls([source])) }
      #expect(error.code == .badFile && error.description.contains(sentence), "\(error)")
    }
    let error = try #require(throws: TLSError.self) { try files.verifier(.crls([])) }
    #expect(error.code == .invalidConfiguration)
  }

  // MARK: Trust

  @Test(arguments: VerifyingSide.allCases)
  func `A trust root needs no list, also if it is not self-signed`(side: VerifyingSide) throws {
    func failure(_ lists: [String], _ shown: String, roots: [String]) throws -> TLSError.Code? {
      let verifier = try files.verifier(files.lists(lists), roots: roots.map { .file(files.folder("\($0).pem")) }) {
        $0.acceptsPartialChains = true
      }
      return try side.connect(verifier, files.shower(shown)).failure?.code
    }
    #expect(try failure(["middle-empty"], "leaf", roots: ["middle"]) == nil)
    #expect(try failure(["middle-leaf"], "leaf", roots: ["middle"]) == .revoked)
    #expect(try failure(["root-empty"], "leaf", roots: ["middle"]) == .revocationUnknown)
    #expect(try failure(["root-empty"], "leaf", roots: ["leaf"]) == nil)
    #expect(try failure(["root-empty"], "alone", roots: ["alone"]) == nil)
    // The lists of the root are of no use for a chain that ends at the root, except for what the root has issued.
    #expect(try failure(["middle-empty"], "leaf", roots: ["root"]) == .revocationUnknown)
  }

  @Test func `Pinned keys do not make up for a revoked certificate`() throws {
    let pin = TLSTrustRoots.publicKeys([try files.identity().certificates[1].publicKeySHA256])
    for roots in [[pin], [pin, .file(files.folder("root.pem"))]] {
      for (list, code) in [("middle-leaf", TLSError.Code.revoked), ("middle-empty", nil)] {
        let verifier = try files.verifier(files.lists(["root-empty", list]), roots: roots)
        #expect(try VerifyingSide.client.connect(verifier, files.shower()).failure?.code == code)
      }
    }
  }

  @Test(arguments: VerifyingSide.allCases, TLSVersion.both)
  func `A closure gets the verdict and decides; without verification the session tells it`(
    side: VerifyingSide, version: TLSVersion
  ) throws {
    let lists = files.lists(["root-empty", "middle-leaf"])
    let asking = try files.verifier(lists, version: version) { $0.verification = .custom { _ in true } }
    let seen = Notes<TLSError.Code?>()
    for answer in [Result.success(()), .failure(TLSError(.rejected))] as [Result<Void, TLSError>] {
      let (ends, failure, other) = try side.connect(asking, files.shower()) { peer in
        seen.add(peer.verdict.error?.code)
        return answer
      }
      if side == .server {
        #expect(ends.server.state.peerCheck.question?.verdict.error?.code == .revoked)
      } else if case .failure = answer {
        #expect(failure?.code == .rejected && other?.alert == "certificate_revoked")
      } else {
        #expect(failure == nil && side.session(ends).verdict.error?.code == .revoked)
      }
    }
    if side == .client { #expect(seen.all == [.revoked, .revoked]) }
    let careless = try files.verifier(lists, version: version) { $0.verification = .dangerouslyNone }
    let (ends, failure, _) = try side.connect(careless, files.shower())
    #expect(failure == nil && side.session(ends).verdict.error?.code == .revoked)
  }

  // MARK: Replacing

  @Test(arguments: VerifyingSide.allCases, TLSVersion.both)
  func `Lists that were read again count for new connections, also for those that would resume`(
    side: VerifyingSide, version: TLSVersion
  ) throws {
    let folder = try CertificateFolder()
    func publish(_ list: String) throws {
      try folder.write("now.crl", files.folder.read("root-empty.crl") + files.folder.read("\(list).crl"))
    }
    try publish("middle-empty")
    let verifier = try files.verifier(.crls([.file(folder("now.crl"))]), version: version)
    let shower = try files.shower()
    for round in 0..<3 {
      let (ends, failure, _) = try side.connect(verifier, shower)
      #expect(failure == nil && side.session(ends).isResumed == (round > 0))
    }
    // A mistake in the new file leaves the old lists and the sessions in place.
    try folder.write("now.crl", "nothing")
    #expect(throws: TLSError.self) { try verifier.reloadRevocationLists() }
    #expect(try side.session(side.connect(verifier, shower).ends).isResumed)
    try publish("middle-leaf")
    #expect(try side.session(side.connect(verifier, shower).ends).isResumed)
    try verifier.reloadRevocationLists()
    for _ in 0..<2 { #expect(try side.connect(verifier, shower).failure?.code == .revoked) }
    try verifier.replaceRevocationLists(files.lists(["middle-empty"], .leaf))
    for round in 0..<2 {
      let (ends, failure, _) = try side.connect(verifier, shower)
      #expect(failure == nil && side.session(ends).isResumed == (round > 0))
    }
    try verifier.replaceRevocationLists(.none)
    let (ends, failure, _) = try side.connect(verifier, shower)
    #expect(failure == nil && !side.session(ends).isResumed)
  }

  @Test(arguments: VerifyingSide.allCases, TLSVersion.both)
  func `A connection that began before the lists were replaced leaves no session for later`(
    side: VerifyingSide, version: TLSVersion
  ) throws {
    let lists = files.lists(["root-empty", "middle-empty"])
    let (verifier, shower) = (try files.verifier(lists, version: version), try files.shower())
    let (client, server) = side == .client ? (verifier, shower) : (shower, verifier)
    let ends = try TwoEnds(client: client, server: server, serverName: RevocationFiles.name)
    try verifier.replaceRevocationLists(lists)
    let errors = ends.handshake()
    #expect(errors.client == nil && errors.server == nil)
    if side == .client { #expect(verifier.sessions.count == 0) }
    #expect(try !side.session(side.connect(verifier, shower).ends).isResumed)
    #expect(try side.session(side.connect(verifier, shower).ends).isResumed)
  }

  @Test func `Lists are replaced while connections are made on other threads`() async throws {
    let (good, bad) = (files.lists(["root-empty", "middle-empty"]), files.lists(["root-empty", "middle-leaf"]))
    let (verifier, shower) = (try files.verifier(good), try files.shower())
    try await within("all are done") {
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<3 {
          group.addTask {
            for _ in 0..<30 {
              let code = try VerifyingSide.client.connect(verifier, shower).failure?.code
              #expect(code == nil || code == .revoked)
            }
          }
        }
        group.addTask {
          for round in 0..<60 { try verifier.replaceRevocationLists(round.isMultiple(of: 2) ? bad : good) }
        }
        try await group.waitForAll()
      }
    }
    #expect(try VerifyingSide.client.connect(verifier, shower).failure == nil)
    try verifier.replaceRevocationLists(bad)
    #expect(try VerifyingSide.client.connect(verifier, shower).failure?.code == .revoked)
  }

  // MARK: Over sockets

  @Test(arguments: TLSVersion.both)
  func `A server refuses a revoked client, and a client a revoked server`(version: TLSVersion) async throws {
    let lists = files.lists(["root-empty", "middle-leaf"])
    let strict = try OurServer(files.verifier(lists, version: version))
    await expectTLSError(.alertReceived) { try await exchange(with: strict, files.shower()) }
    try await eventually("the server says why") { !strict.failures.all.isEmpty }
    #expect((strict.failures.all.first as? TLSError)?.code == .revoked)
    try await strict.stop()
    let server = try OurServer(files.shower())
    let error = await expectTLSError(.revoked) {
      try await exchange(with: server, files.verifier(lists, version: version))
    }
    #expect(error.alert == "certificate_revoked")
    try await server.stop()
  }

  private func exchange(with server: OurServer, _ context: TLSContext) async throws {
    let connection = try await TLSConnection.connect(
      to: .host("127.0.0.1", port: server.port), context: context, serverName: RevocationFiles.name)
    try await connection.write([1])
    _ = try await connection.read(exactly: 1)
    await connection.close()
  }

  @Test func `A block that is not recognised beside a good list is reported`() throws {
    let good = try files.folder.text("middle-leaf.crl")
    let bad = good.replacing("X509 CRL", with: "X509 CLR")
    for text in [good + bad, bad + good] {
      try files.folder.write("misspelled.crl", text)
      for source in [.bytes(Array(text.utf8)), .file(files.folder("misspelled.crl"))] as [TLSRevocation.List] {
        let error = try #require(throws: TLSError.self) { try files.verifier(.crls([source])) }
        #expect(error.code == .badFile && error.description.contains("has a block that is not recognised"), "\(error)")
      }
    }
  }
}
