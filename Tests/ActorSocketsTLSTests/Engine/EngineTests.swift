import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite(.tags(.pure)) struct EngineTests {
  @Test(arguments: TLSVersion.both)
  func `Messages of any length arrive, in both directions at once`(version: TLSVersion) throws {
    let pair = try EnginePair.up(version)
    var sent: [UInt8] = []
    var random = SystemRandomNumberGenerator()
    for length in [0, 1, 2, 15, 16, 255, 1_023, 1_024, 16_383, 16_384, 16_385, 17_408, 32_768, 40_000] {
      let message = pattern(length, from: Int.random(in: 0..<251, using: &random))
      pair.client.send(message)
      pair.server.send(message)
      sent += message
      pair.exchange()
      #expect(pair.isUp)
      #expect(pair.server.received == sent && pair.client.received == sent, "after \(length) bytes")
    }
  }

  @Test(arguments: TLSVersion.both, [1, 5, 100, 16_384, 17_000, 60_000])
  func `Ciphertext that is not taken waits, nothing is encrypted behind it`(version: TLSVersion, limit: Int) throws {
    let pair = try EnginePair.up(version)
    let message = pattern(min(100_000, limit * 2_000))
    var sent = 0
    // Room comes bit by bit: what was encrypted is taken as far as it goes.
    for _ in 0..<1_000_000 where sent < message.count || pair.client.engine.hasOutput {
      var room = limit
      let before = pair.client.engine.outputCount
      sent += pair.client.write(Array(message[sent...].prefix(65_536))) { count in
        defer { room -= min(room, count) }
        return min(room, count)
      }
      #expect(before <= limit || pair.client.engine.outputCount == before - limit)
    }
    #expect(sent == message.count && pair.client.failure == nil)
    pair.exchange()
    #expect(pair.server.received == message)
  }

  @Test(arguments: TLSVersion.both)
  func `One direction ends, the other goes on`(version: TLSVersion) throws {
    let pair = try EnginePair.up(version)
    pair.client.send(pattern(100))
    pair.client.finish()
    pair.exchange()
    #expect(pair.server.hasEnded && pair.server.received == pattern(100) && pair.server.failure == nil)
    pair.server.send(pattern(20_000))
    pair.server.finish()
    pair.exchange()
    #expect(pair.client.hasEnded && pair.client.received == pattern(20_000) && pair.client.failure == nil)
  }

  @Test(arguments: TLSVersion.both)
  func `An end without notice is a truncation, behind the bytes`(version: TLSVersion) throws {
    let pair = try EnginePair.up(version)
    pair.server.send(pattern(30_000))
    pair.client.take(pair.server.takeOutput())
    pair.client.takeEnd()
    #expect(pair.client.received == pattern(30_000))
    #expect(pair.client.failure?.code == .truncated && pair.client.failure?.reason == "unexpected eof while reading")
  }

  @Test(arguments: TLSVersion.both)
  func `Where truncation is allowed, an end without notice is an end, but not within a record`(
    version: TLSVersion
  ) throws {
    let context = try Contexts.client(version) { $0.allowsTruncation = true }
    for cut in [0, 1, 4, 5, 6, 50] {
      let pair = try EnginePair(client: context, server: Contexts.server(version))
      pair.exchange()
      pair.server.send(pattern(100))
      pair.client.take(pair.server.takeOutput())
      pair.server.send(pattern(100))
      pair.client.take(Array(pair.server.takeOutput().prefix(cut)))
      pair.client.takeEnd()
      #expect(pair.client.received == pattern(100))
      #expect(pair.client.hasEnded == (cut == 0), "\(cut) bytes of a record")
      #expect(pair.client.failure?.code == (cut == 0 ? nil : .truncated), "\(cut) bytes of a record")
      // The other direction goes on, and no alert says that something is wrong.
      if cut > 0 { continue }
      #expect(pair.client.takeOutput().isEmpty)
      pair.client.send([7])
      pair.server.take(pair.client.takeOutput())
      #expect(pair.server.received == [7])
    }
  }

  @Test(arguments: TLSVersion.both, [EnginePair.Direction.toServer, .toClient])
  func `A peer that closes during the handshake gets an error that says so`(
    version: TLSVersion, direction: EnginePair.Direction
  ) throws {
    for flight in 0..<2 {
      let pair = try EnginePair(client: Contexts.client(version), server: Contexts.server(version))
      var count = 0
      pair.exchange { way, bytes in
        if way != direction { return [bytes] }
        defer { count += 1 }
        return count < flight ? [bytes] : [Array(bytes.prefix(bytes.count / 2))]
      }
      let end = direction == .toServer ? pair.server : pair.client
      if end.isUp { continue }
      end.takeEnd()
      let sentence = "the peer closed the connection during the handshake"
      #expect(
        end.failure?.code == .closedDuringHandshake && end.failure?.description.contains(sentence) == true,
        "in flight \(flight): \(end.failure as Any)")
    }
  }

  @Test(arguments: TLSVersion.both)
  func `A certificate above the size limit gets an error that names the limit, in both roles`(
    version: TLSVersion
  ) throws {
    let names = (0..<6_000).map { "host-\($0).server.test" }
    let large = try TLSIdentity.selfSigned(for: ["server.test"] + names)
    let ofServer = try EnginePair(
      client: Contexts.client(version), server: Contexts.server(version) { $0.identity = large })
    let ofClient = try EnginePair(
      client: Contexts.client(version) { $0.identity = large },
      server: Contexts.server(version, clientCertificates: .required))
    for (pair, end) in [(ofServer, ofServer.client), (ofClient, ofClient.server)] {
      pair.exchange()
      #expect(
        end.failure?.description.contains("certificates have more than 102400 bytes") == true, "\(end.failure as Any)")
      #expect(end.failure?.alert == "illegal_parameter")
    }
  }
}
