import ActorSockets
import TestSupport
import Testing

struct FilterTests {
  @Test
  func `Every third datagram is lost`() async throws {
    try await within("the others arrive") {
      var configuration = UDPEndpoint.Configuration()
      configuration.sendFilter = losing(every: 3)
      let receiver = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      let sender = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0), configuration: configuration)
      for number in 1...10 as ClosedRange<UInt8> { try await sender.send([number], to: receiver.localAddresses[0]) }
      var seen: [UInt8] = []
      while seen.count < 7 { seen += try await receiver.receive().bytes }
      #expect(seen == [1, 2, 4, 5, 7, 8, 10])
      let metrics = await sender.metrics
      #expect(metrics.datagramsFiltered == 3 && metrics.datagramsSent == 7)
    }
  }

  @Test
  func `Duplicates are dropped, and the others are numbered`() async throws {
    try await within("they arrive") {
      var configuration = UDPEndpoint.Configuration()
      configuration.receiveFilter = removingDuplicates(among: 2)
      let receiver = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0), configuration: configuration)
      let senders = [try UDPEndpoint.bind(), try UDPEndpoint.bind()]
      let target = receiver.localAddresses[0]
      let texts = ["a", "a", "b", "b", "a", "c", "a"]
      for text in texts { try await senders[0].send(Array(text.utf8), to: .ipv4(.loopback, port: target.port ?? 0)) }
      // The same from somebody else is no duplicate.
      try await senders[1].send(Array("a".utf8), to: .ipv4(.loopback, port: target.port ?? 0))
      var seen: [String] = []
      for number in 1...5 {
        let datagram = try await receiver.receive()
        let arrival = try #require(datagram.annotation as? Arrival)
        #expect(arrival.number == number)
        seen.append(String(decoding: datagram.bytes, as: UTF8.self) + "\(arrival.duplicatesBefore)")
      }
      // Of the last two, "a" was the older one when "c" came, and so forgotten.
      #expect(seen == ["a0", "b1", "c3", "a3", "a3"])
    }
  }

  @Test func `A filter that waits lets known senders through, in order`() async throws {
    try await within("they are answered") {
      let server = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      let clients = try (0..<3).map { _ in try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0)) }
      let known = [clients[0].localAddresses[0], clients[2].localAddresses[0]]
      let answering = Task {
        try await answer(server) { sender in
          await Task.yield()
          return known.contains(sender)
        }
      }
      for client in clients { try await client.send(utf8: "hello", to: server.localAddresses[0]) }
      for client in [clients[0], clients[2]] {
        let reply = try await client.receive()
        #expect(reply.bytes == Array("welcome".utf8))
      }
      #expect(try await clients[1].receive(until: .now) == nil)
      answering.cancel()
      _ = await answering.result
    }
  }

  @Test(arguments: [0, 1, 3, 100])
  func `The number of remembered datagrams has a limit`(limit: Int) {
    let recent = Recent(limit: limit)
    for value in 0..<1000 { #expect(recent.note(value) != nil) }
    let known = (0..<1000).reversed().prefix { recent.note($0) == nil }
    #expect(known.count == max(1, limit))
  }

  @Test
  func `A bucket gives what has come in, and no more than it holds`() {
    let start = ContinuousClock.now
    func after(_ seconds: Double) -> ContinuousClock.Instant { start + .seconds(seconds) }
    var bucket = TokenBucket(rate: 100, burst: 50, now: start)
    #expect(bucket.take(50, now: start) == .zero)
    // Empty: ten bytes take a tenth of a second, those behind them wait for both.
    #expect(bucket.take(10, now: start) == .seconds(0.1))
    #expect(bucket.take(10, now: start) == .seconds(0.2))
    #expect(bucket.take(0, now: after(0.2)) == .zero)
    // A long pause fills it, once.
    #expect(bucket.take(50, now: after(1000)) == .zero)
    #expect(bucket.take(50, now: after(1000)) == .seconds(0.5))
  }

  @Test
  func `A shaped flow is slower, complete and in order`() async throws {
    try await within("all of it arrives") {
      let (entrance, exit) = (try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0)), try UDPEndpoint.bind())
      let receiver = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      let shaping = Task {
        try await shape(
          entrance, to: receiver.localAddresses[0], through: exit, by: TokenBucket(rate: 10_000, burst: 100))
      }
      let start = ContinuousClock.now
      for number in 0..<11 as Range<UInt8> {
        try await exit.send([UInt8](repeating: number, count: 100), to: entrance.localAddresses[0])
      }
      var seen: [UInt8] = []
      while seen.count < 11 { seen.append(try #require(try await receiver.receive().bytes.first)) }
      #expect(seen == Array(0..<11))
      // The last thousand bytes, at ten thousand in a second.
      #expect(start.duration(to: .now) >= .milliseconds(100))
      await entrance.close()
      try await shaping.value
    }
  }

  @Test
  func `A loop echoes until its endpoint is closed`() async throws {
    try await within("it ends") {
      let server = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      let echoing = Task { try await echo(server) }
      let client = try await UDPEndpoint.connect(to: .address(server.localAddresses[0]))
      for text in ["one", "", "three"] {
        try await client.send(Array(text.utf8))
        #expect(try await client.receive().bytes == Array(text.utf8))
      }
      await server.close()
      try await echoing.value
    }
  }
}
