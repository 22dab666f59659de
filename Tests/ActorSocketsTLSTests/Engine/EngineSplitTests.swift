import TestSupport
import Testing

@testable import ActorSocketsTLS

/// However the stream of bytes is cut, the same comes of it.
@Suite(.tags(.pure)) struct EngineSplitTests {
  /// Connects, sends each message both ways, and ends both ways. Checks that all of it arrives, in this order.
  private func talk(
    _ client: TLSContext, _ server: TLSContext, messages: [Int] = [1, 700], _ what: @autoclosure () -> String,
    _ wire: (EnginePair.Direction, [UInt8]) -> [[UInt8]]
  ) throws {
    let pair = try EnginePair(client: client, server: server)
    pair.exchange(wire)
    var sent: [UInt8] = []
    for length in messages {
      pair.client.send(pattern(length))
      pair.server.send(pattern(length))
      sent += pattern(length)
      pair.exchange(wire)
    }
    pair.client.finish()
    pair.server.finish()
    pair.exchange(wire)
    let isRight = pair.isUp && pair.client.received == sent && pair.server.received == sent
    #expect(isRight && pair.client.hasEnded && pair.server.hasEnded, "\(what())")
    #expect(!pair.client.isStuck && !pair.server.isStuck, "\(what())")
  }

  @Test(arguments: TLSVersion.both, [false, true])
  func `One byte at a time`(version: TLSVersion, withClientCertificate: Bool) throws {
    try talk(
      Contexts.client(version, showingCertificate: withClientCertificate),
      Contexts.server(version, clientCertificates: withClientCertificate ? .required : .none),
      messages: [0, 1, 700, 20_000], "one byte at a time"
    ) { $1.map { [$0] } }
  }

  /// All flights are cut at the same place in each round, so there are as many rounds as the longest one has places.
  @Test(arguments: TLSVersion.both)
  func `Every cut of each flight in two`(version: TLSVersion) throws {
    let client = try Contexts.client(version, showingCertificate: true)
    let server = try Contexts.server(version, clientCertificates: .required)
    var longest = 0
    try talk(client, server, "whole") { _, bytes in
      longest = max(longest, bytes.count)
      return [bytes]
    }
    #expect(longest > 500)
    for place in 1..<longest {
      try talk(client, server, "cut behind \(place) bytes") { _, bytes in
        place < bytes.count ? [Array(bytes[..<place]), Array(bytes[place...])] : [bytes]
      }
    }
  }

  @Test(arguments: TLSVersion.both, Array(1...6) as [UInt64])
  func `Random cuts, and flights that come together`(version: TLSVersion, seed: UInt64) throws {
    let client = try Contexts.client(version)
    let server = try Contexts.server(version)
    var random = SeededRandom(seed: seed)
    for round in 0..<5 {
      let lengths = (0..<4).map { _ in Int.random(in: 0...40_000, using: &random) }
      let longest = 1 << Int.random(in: 0...15, using: &random)
      try talk(client, server, messages: lengths, "seed \(seed), round \(round), \(lengths), up to \(longest)") {
        var pieces: [[UInt8]] = []
        var rest = $1[...]
        while !rest.isEmpty {
          let count = Int.random(in: 1...longest, using: &random)
          pieces.append(Array(rest.prefix(count)))
          rest = rest.dropFirst(count)
        }
        return pieces
      }
    }
  }
}
