import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite(.tags(.pure)) struct EngineGarbageTests {
  @Test(arguments: TLSVersion.both, Garbage.allCases)
  func `Garbage in place of a flight ends that side, and nothing else happens`(
    version: TLSVersion, garbage: Garbage
  ) throws {
    for direction in [EnginePair.Direction.toServer, .toClient] {
      for flight in 0..<3 {
        let pair = try EnginePair(client: Contexts.client(version), server: Contexts.server(version))
        var count = 0
        var isReplaced = false
        func wire(_ way: EnginePair.Direction, _ bytes: [UInt8]) -> [[UInt8]] {
          if way != direction { return [bytes] }
          defer { count += 1 }
          if count != flight { return count < flight ? [bytes] : [] }
          isReplaced = true
          return [garbage.bytes]
        }
        pair.exchange(wire)
        if pair.isUp {
          // The handshake has fewer flights: it is the data.
          pair.client.send([1])
          pair.server.send([1])
          pair.exchange(wire)
        }
        #expect(isReplaced)
        let end = direction == .toServer ? pair.server : pair.client
        if garbage == .empty, end.failure == nil { end.takeEnd() }
        #expect(end.failure != nil, "\(direction), flight \(flight)")
        if garbage == .text {
          // At the start of a connection it is no TLS, and later a broken protocol.
          #expect(end.failure?.code == (flight == 0 ? .notTLS : .protocolError), "\(direction), flight \(flight)")
          #expect(end.failure?.isCausedByPeer == true)
        }
        #expect(!end.isStuck && end.received.isEmpty)
      }
    }
  }

  @Test func `Input that is not TLS is reported as such`() throws {
    for garbage in [Garbage.text, .http] {
      let server = try EngineEnd(Contexts.server(), .server)
      server.take(garbage.bytes)
      #expect(server.failure?.code == .notTLS, "\(garbage): \(String(describing: server.failure))")
      #expect(garbage != .http || server.failure?.reason == "http request")
      let client = try EngineEnd(Contexts.client(), .client(serverName: "server.test"))
      client.take(garbage.bytes)
      #expect(client.failure?.code == .notTLS, "\(garbage): \(String(describing: client.failure))")
    }
  }

  @Test(arguments: TLSVersion.both)
  func `An alert in place of an answer is told by its name`(version: TLSVersion) throws {
    let client = try EngineEnd(greeting: Contexts.client(version))
    client.take([21, 3, 3, 0, 2, 2, 40])
    #expect(client.failure?.code == .alertReceived)
    #expect(client.failure?.alert == "handshake_failure")
  }

  /// Plain warnings in the handshake and empty records cost nothing to send.
  @Test(arguments: TLSVersion.both, [[21, 3, 3, 0, 2, 1, 90], [22, 3, 3, 0, 0], [23, 3, 3, 0, 0]] as [[UInt8]])
  func `A flood of messages without contents ends the connection`(version: TLSVersion, message: [UInt8]) throws {
    for isServer in [false, true] {
      let end = try EngineEnd(
        isServer ? Contexts.server(version) : Contexts.client(version),
        isServer ? .server : .client(serverName: "server.test"))
      end.take([])
      var count = 0
      while end.failure == nil, count < 10_000 {
        end.take(message)
        count += 1
      }
      #expect(end.failure != nil, "\(count) messages were taken")
    }
  }

  @Test(arguments: TLSVersion.both)
  func `A record that was changed on the way ends the connection, and no byte of it is shown`(
    version: TLSVersion
  ) throws {
    let client = try Contexts.client(version)
    let server = try Contexts.server(version)
    for place in stride(from: 0, to: 130, by: 3) {
      let pair = try EnginePair(client: client, server: server)
      pair.exchange()
      pair.client.send(pattern(100))
      var record = pair.client.takeOutput()
      record[min(place, record.count - 1)] ^= 1
      pair.server.take(record)
      if pair.server.failure == nil { pair.server.takeEnd() }
      #expect(pair.server.failure != nil && pair.server.received.isEmpty, "byte \(place)")
    }
  }
}
