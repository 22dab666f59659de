import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite struct EngineMemoryTests {
  /// In a process of its own, so that nothing else takes memory meanwhile.
  @Test func `Ten thousand handshakes, half of which fail, leave nothing behind`() async {
    await #expect(processExitsWith: .success) { await inOwnProcess { try Self.shakeHands() } }
  }

  /// Versions of OpenSSL differ in how much memory an idle engine keeps.
  @Test func `An idle connection has given back the buffers that large records took`() async {
    await #expect(processExitsWith: .success) {
      await inOwnProcess {
        for version in TLSVersion.both {
          let (small, large) = (try Self.idle(version, after: 1), try Self.idle(version, after: 20_000))
          if large > small + 1_000 || small > 40_000 {
            throw Overdue(
              description: "\(version): an idle engine keeps \(large) bytes, and \(small) without large records")
          }
        }
      }
    }
  }

  /// The bytes that an idle engine keeps after it has sent and received a message of this size.
  private static func idle(_ version: TLSVersion, after size: Int) throws -> Int {
    let (client, server) = (try Contexts.client(version), try Contexts.server(version))
    let message = pattern(size)
    func pair() throws -> EnginePair {
      let pair = try EnginePair(client: client, server: server)
      pair.exchange()
      pair.client.send(message)
      pair.server.send(message)
      pair.exchange()
      guard pair.client.received == message, pair.server.received == message else {
        throw Overdue(description: "the message did not arrive")
      }
      pair.client.received = []
      pair.server.received = []
      return pair
    }
    var pairs = [try pair()]
    let before = try allocatedBytes()
    for _ in 0..<100 { pairs.append(try pair()) }
    let each = (try allocatedBytes() - before) / 200
    return withExtendedLifetime(pairs) { each }
  }

  private static func shakeHands() throws {
    let shaker = try Shaker()
    var after2000 = 0
    for round in 0..<10_000 {
      try shaker.shakeHands(round)
      if round == 2_000 { after2000 = try allocatedBytes() }
    }
    let growth = try allocatedBytes() - after2000
    // Three bytes a handshake: the allocator's noise, and what the caches hold now of other lengths.
    if growth > 24_000 { throw Overdue(description: "the heap has grown by \(growth) bytes") }
  }
}

/// Connections that succeed and that fail in different ways, one after the other.
private struct Shaker {
  let client: [TLSContext]
  let server: [TLSContext]
  let doubtful: TLSContext
  let demanding: TLSContext
  let choosy: TLSContext

  init() throws {
    client = try TLSVersion.both.map { version in
      try Contexts.client(version) {
        $0.applicationProtocols = ["one"]
        $0.sessionCacheSize = 16
      }
    }
    // The caches are full long before the counting begins.
    server = try TLSVersion.both.map { try Contexts.server($0) { $0.sessionCacheSize = 64 } }
    doubtful = try Contexts.client { $0.trustRoots = [.certificates([try Identities.stranger.get().certificate])] }
    demanding = try Contexts.server(clientCertificates: .required)
    choosy = try Contexts.server { $0.applicationProtocols = ["two"] }
  }

  func shakeHands(_ round: Int) throws {
    let client = client[round / 2 % 2]
    let server = server[round / 2 % 2]
    let pair =
      switch round % 16 {
      case 1: try EnginePair(client: doubtful, server: server)
      case 3: try EnginePair(client: client, server: demanding)
      case 5: try EnginePair(client: client, server: choosy)
      case 7: try EnginePair(client: self.client[0], server: self.server[1])
      default: try EnginePair(client: client, server: server)
      }
    // The others fail by what happens on the way: changed, cut off, broken off.
    pair.exchange { way, bytes in
      var bytes = bytes
      switch round % 16 {
      case 9 where way == .toClient: bytes[bytes.count / 2] ^= 1
      case 11 where way == .toServer: bytes = [0x47, 0x45, 0x54, 0x20]
      case 13 where way == .toClient: bytes = Array(bytes.prefix(bytes.count / 2))
      case 15: bytes = []
      default: break
      }
      return [bytes]
    }
    if round.isMultiple(of: 2) {
      guard pair.isUp else { throw Overdue(description: "round \(round) failed: \(pair.client.failure as Any)") }
      pair.client.send(pattern(100))
      pair.exchange()
    } else {
      pair.client.takeEnd()
      pair.server.takeEnd()
      guard pair.client.failure != nil || pair.server.failure != nil else {
        throw Overdue(description: "round \(round) did not fail")
      }
    }
  }
}
