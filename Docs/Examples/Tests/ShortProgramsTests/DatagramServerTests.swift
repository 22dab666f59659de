import ActorSockets
import ActorSocketsTestTraits
import ActorSocketsTesting
import ByteText
import ExampleSupport
import Foundation
import Testing

@testable import ShortPrograms

@Suite struct SyslogReceiverTests {
  @Test func `Messages of both transports arrive, whatever else is sent`() async throws {
    try await within("all messages have arrived") {
      let (messages, log) = AsyncStream.makeStream(of: SyslogMessage.self)
      var receiver = SyslogReceiver { log.yield($0) }
      receiver.signals = []
      let endpoint = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      let server = Endpoint.address(listener.localAddresses[0])
      var next = messages.makeAsyncIterator()
      let (counts, _) = try await during({ [receiver] in try await receiver.run(endpoint, listener) }) {
        let client = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
        for text in ["no priority", "<192>too high", "<34>over UDP"] {
          try await client.send(utf8: text, to: endpoint.localAddresses[0])
        }
        let datagram = try #require(await next.next())
        #expect((datagram.facility, datagram.severity) == (4, 2))
        #expect(datagram.text == ByteText("over UDP"))

        // A length that is too large, a flood without an end, and one that stops in the middle.
        for bad in ["99999 x", "123456", "<1>" + String(repeating: "x", count: 20_000), "0 "] {
          let peer = try await TCPConnection.connect(to: server)
          _ = peer.enqueueWrite(Array(bad.utf8))
          await #expect(throws: SocketError.self) { while try await peer.read() != nil {} }
        }
        let half = try await TCPConnection.connect(to: server)
        try await half.write(utf8: "100 <13>half")

        let peer = try await TCPConnection.connect(to: server)
        for byte in Array("11 <13>two\nlin3 <1>".utf8) { try await peer.write([byte]) }
        #expect(await next.next()?.text == ByteText("two\nlin"))
        try await peer.write(utf8: "<13>with an end\n7 <0>\u{1F600}")
        for text in ["", "with an end", "\u{1F600}"] { #expect(await next.next()?.text == ByteText(text)) }
        await peer.close()
        await half.abort()
        await endpoint.drain(within: .seconds(5))
        await listener.drain(within: .seconds(5))
      }
      #expect(counts == (3, 6))
    }
  }
}

@Suite struct GameServerTests {
  private func message(_ kind: Character, _ bytes: [UInt8] = []) -> [UInt8] { [kind.asciiValue ?? 0] + bytes }

  /// Waits for a datagram of a kind.
  private func next(_ kind: Character, _ player: UDPEndpoint, where isWanted: ([UInt8]) -> Bool = { _ in true })
    async throws -> [UInt8]
  {
    while true {
      let bytes = try await player.receive(timeout: .seconds(30)).bytes
      if bytes.first == kind.asciiValue, isWanted(bytes) { return bytes }
    }
  }

  private func join(_ server: Endpoint) async throws -> UDPEndpoint {
    let player = try await UDPEndpoint.connect(to: server)
    try await player.send(message("J", Array(repeating: 0, count: 8)))
    let cookie = try await next("C", player).dropFirst()
    try await player.send(message("J", Array(cookie)))
    return player
  }

  @Test func `Players see each other move, and those that are silent disappear`() async throws {
    try await within("the game is over") {
      var settings = GameServer.Settings()
      (settings.signals, settings.interval, settings.playerTimeout) = ([], .milliseconds(10), .seconds(2))
      settings.mostPlayers = 2
      let game = GameServer(settings)
      let endpoint = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      let server = Endpoint.address(endpoint.localAddresses[0])
      _ = try await during({ try await game.run(endpoint) }) {
        let one = try await join(server)
        let two = try await join(server)
        let third = try await join(server)
        let start = ContinuousClock.now
        let first = try await next("S", one) { $0[5] == 2 }
        try await one.send(message("M", [3, 0xFE]))
        _ = try await next("S", two) {
          $0.dropFirst(10).starts(with: [0, 3, 0xFF, 0xFE]) || $0.suffix(4) == [0, 3, 0xFF, 0xFE]
        }

        // What no player should send, a great many times, does not hold up the clock.
        let evil = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
        for bytes in [
          [], [0], message("M"), message("M", [1, 1]), message("J", Array(repeating: 9, count: 8)), message("X"),
        ] {
          for _ in 0..<200 { try await evil.send(bytes, to: endpoint.localAddresses[0]) }
        }
        let later = try await next("S", one) { $0[1...4].last != first[4] }
        #expect(later.count == 6 + 2 * 8)
        // Only the second player says something.
        _ = try await {
          while true {
            try await two.send(message("M", [0, 0]))
            if try await next("S", two)[5] == 1 { return }
          }
        }()
        #expect(ContinuousClock.now - start > .seconds(1))
        // A place is free now.
        try await third.send(message("J", Array(next("C", join(third, server)).dropFirst())))
        _ = try await next("S", two) { $0[5] == 2 }
        await game.stop()
        _ = try await next("B", two)
      }
      #expect(await endpoint.isClosed)
    }
  }

  /// Asks for the cookie again.
  private func join(_ player: UDPEndpoint, _ server: Endpoint) async throws -> UDPEndpoint {
    try await player.send(message("J", Array(repeating: 0, count: 8)))
    return player
  }
}

@Suite struct MDNSResponderTests {
  private static let group = IPAddress("224.0.0.251")
  private static let question: [UInt8] =
    Array("\0\u{7}\0\0\0\u{2}\0\0\0\0\0\0\u{5}other\u{5}local\0\0\u{1}\0\u{1}\u{3}BoX".utf8) + [0xC0, 18, 0, 1, 0, 1]

  @Test(.simulated(seeds: 10)) func `A name has an answer, and a goodbye`() async throws {
    let simulation = try #require(Simulation.current)
    let group = try #require(Self.group).socketAddress(port: 5353)
    let host = simulation.host("box")
    let (endpoints, continuation) = AsyncStream.makeStream(of: UDPEndpoint.self)
    host.start {
      let endpoint = try MDNSResponder.bind()
      continuation.yield(endpoint)
      try await MDNSResponder("box", signals: []).run(endpoint)
    }
    try await simulation.host("client").run {
      try await UDPEndpoint.withEndpoint(boundTo: .port(0)) { client in
        var answers: [[UInt8]] = []
        // The responder may not have joined the group yet.
        while answers.isEmpty {
          for bad in [[], [0], Array(Self.question.dropLast(3)), Self.question.map { $0 == 18 ? 30 : $0 }] {
            try await client.send(bad, to: group)
          }
          try await client.send(Self.question, to: group)
          for try await answer in client.datagrams.ending(at: .now + .seconds(1)) { answers.append(answer.bytes) }
        }
        let answer = try #require(answers.first)
        try #require(answer.starts(with: [0, 7, 0x84, 0, 0, 1, 0]))
        try #require(answer.contains(sequence: Array("\u{3}box\u{5}local\0".utf8)))
      }
    }
    for await endpoint in endpoints {
      await endpoint.close()
      break
    }
  }

  @Test(.needsHosts, .needs(.python), .needs(.shortProgram))
  func `Interfaces that come are used, those that go do no harm, and the end is announced`() async throws {
    try await within("the names have answers") {
      let network = try await Host.network(of: 2)
      let (middle, far) = (network.hosts[0], try await Host())
      let responder = try middle.start(.shortProgram, ["mdns", "box"])
      let near = try network.hosts[1].start(.python, [Tool.script("ask.py"), "eth0", "box"])
      try await near.waitForOutput("answer 10.0.0.1")
      try await near.waitForOutput("group 10.0.0.1 120")
      try await middle.connect("eth1", 1, to: far, "eth0", 2, network: 1)
      let other = try far.start(.python, [Tool.script("ask.py"), "eth0", "box"])
      try await other.waitForOutput("answer 10.0.1.1")
      try await middle.ip("link delete eth1")
      let again = try network.hosts[1].start(.python, [Tool.script("ask.py"), "eth0", "box"])
      try await again.waitForOutput("answer 10.0.0.1")
      await responder.kill(SIGTERM)
      #expect(try await responder.exitStatus() == 0)
      try await again.waitForOutput("group 10.0.0.1 0")
      for program in [near, other, again] { await program.kill(SIGKILL) }
    }
  }
}

extension Tool {
  static let python = Tool("python3")
  static let shortProgram = Tool(example: "ShortProgram")

  static func script(_ name: String) -> String {
    URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent(name).path
  }
}

extension [UInt8] {
  fileprivate func contains(sequence: [UInt8]) -> Bool {
    indices.contains { self[$0...].starts(with: sequence) }
  }
}
