import ActorSockets
import ExampleSupport
import Testing

@testable import DNSForwarder

/// What the forwarder does with servers and clients that do not do their part.
@Suite struct DNSTroubleTests {
  private static let question: [UInt8] = [1, 97, 7] + Array("example".utf8) + [0, 0, 1, 0, 1]

  /// A question for the address of `a.example`.
  private static func query(id: UInt16) -> [UInt8] {
    DNSHeader(id: id, flags: .recursionDesired, questions: 1).bytes + question
  }

  /// Returns the answer to a question with one address.
  private static func answer(to query: [UInt8], host: UInt8, lifetime: UInt8 = 60) -> [UInt8] {
    let header = DNSHeader(
      id: UInt16(query[0]) << 8 | UInt16(query[1]), flags: [.response, .recursionAvailable], questions: 1, answers: 1)
    return header.bytes + question + [0xC0, 12, 0, 1, 0, 1, 0, 0, 0, lifetime, 0, 4, 192, 0, 2, host]
  }

  @Test func `A datagram that does not answer the question is ignored`() async throws {
    try await within("the right answer comes") {
      let server = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      let stranger = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      let forwarder = DNSForwarder(upstream: Self.upstream(server))
      async let answer = forwarder.answer(to: Self.query(id: 7), isDatagram: true)
      let asked = try await server.receive()
      try await stranger.send(Self.answer(to: asked.bytes, host: 66), to: #require(asked.remoteAddress))
      var wrongID = Self.answer(to: asked.bytes, host: 66)
      wrongID[0] ^= 1
      var wrongName = Self.answer(to: asked.bytes, host: 66)
      wrongName[13] = 98
      let cut = Array(Self.answer(to: asked.bytes, host: 66).dropLast())
      for bytes in [wrongID, wrongName, asked.bytes, [], [1, 2, 3], cut] { try await server.send(asked.reply(bytes)) }
      try await server.send(asked.reply(Self.answer(to: asked.bytes, host: 7)))
      let bytes = try #require(await answer)
      #expect(bytes.suffix(4) == [192, 0, 2, 7] && bytes.prefix(2) == [0, 7])
      await server.close()
    }
  }

  @Test func `A question is asked again, from another port and with another number`() async throws {
    try await within("the answer comes") {
      let server = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      let forwarder = DNSForwarder(upstream: Self.upstream(server, patience: .milliseconds(30)))
      async let answer = forwarder.answer(to: Self.query(id: 7), isDatagram: true)
      let first = try await server.receive()
      let second = try await server.receive()
      #expect(first.remoteAddress != second.remoteAddress)
      #expect(first.bytes.dropFirst(2) == second.bytes.dropFirst(2))
      // The forwarder may have given up the second question by now.
      let answering = Task {
        try await server.send(second.reply(Self.answer(to: second.bytes, host: 7)))
        for try await next in server.datagrams {
          try await server.send(next.reply(Self.answer(to: next.bytes, host: 7)))
        }
      }
      #expect(try #require(await answer).suffix(4) == [192, 0, 2, 7])
      await server.close()
      try await answering.value
    }
  }

  @Test func `Clients with the same question wait for one answer, and too many are refused`() async throws {
    try await within("every client has an answer") {
      let server = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      var limits = DNSForwarder.Limits()
      limits.waiting = 20
      let forwarder = DNSForwarder(upstream: Self.upstream(server), limits: limits)
      try await withThrowingTaskGroup(of: [UInt8]?.self) { group in
        for id in 0..<20 { group.addTask { await forwarder.answer(to: Self.query(id: UInt16(id)), isDatagram: true) } }
        let asked = try await server.receive()
        // All 20 wait: the next one is refused as soon as the others have begun.
        while await forwarder.waiting < 20 { await Task.yield() }
        let refused = try #require(await forwarder.answer(to: Self.query(id: 99), isDatagram: true))
        #expect(DNSFlags(rawValue: UInt16(refused[2]) << 8 | UInt16(refused[3])).status == .serverFailure)
        try await server.send(asked.reply(Self.answer(to: asked.bytes, host: 7)))
        for try await answer in group { #expect(answer?.suffix(4) == [192, 0, 2, 7]) }
      }
      #expect(await server.metrics.datagramsReceived == 1)
      await server.close()
    }
  }

  @Test func `Messages that are no question get the right refusal, or no answer`() async throws {
    let forwarder = DNSForwarder(upstream: DNSUpstream(servers: []))
    func status(_ message: [UInt8]) async -> DNSStatus? {
      let answer = await forwarder.answer(to: message, isDatagram: true)
      return answer.flatMap { DNSFlags(rawValue: UInt16($0[2]) << 8 | UInt16($0[3])).status }
    }
    let query = Self.query(id: 7)
    #expect(await status(query) == .serverFailure)
    for length in 0..<12 { #expect(await status(Array(query.prefix(length))) == nil) }
    for length in 12..<query.count { #expect(await status(Array(query.prefix(length))) == .formatError) }
    for (index, byte, wanted) in [
      (2, 0x81, nil), (2, 0x29, .notImplemented), (5, 2, .formatError), (11, 1, .formatError), (12, 0xC0, .formatError),
    ]
      as [(Int, UInt8, DNSStatus?)]
    {
      var message = query
      message[index] = byte
      #expect(await status(message) == wanted, "\(index)")
    }
  }

  private static func upstream(_ server: UDPEndpoint, patience wait: Duration = .seconds(20)) -> DNSUpstream {
    var upstream = DNSUpstream(servers: [.address(server.localAddresses[0])])
    upstream.patience = wait
    upstream.attempts = 10
    return upstream
  }
}
