import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct DatagramEndTests {
  @Test(.inRealTime, arguments: DatagramTransport.allCases)
  func `A receive until an instant returns the datagram, or nil`(transport: DatagramTransport) async throws {
    let time = ManualTime()
    let (client, server, address) = try transport.pair(on: time.reactor)
    let early = Task.immediate { [deadline = time.now + .seconds(5)] in try await server.receive(until: deadline) }
    try await client.send([1], to: address)
    #expect(try await early.value?.bytes == [1])
    let late = Task.immediate { [deadline = time.now + .seconds(5)] in try await server.receive(until: deadline) }
    try await eventually("the call waits") { await server.metrics.pendingReceives == 1 }
    await time.advance(by: .seconds(5) - .nanoseconds(1))
    #expect(await server.metrics.pendingReceives == 1)
    await time.advance(by: .nanoseconds(1))
    #expect(try await late.value == nil)
    #expect(await server.metrics.pendingReceives == 0)
    // After the instant, nothing is taken.
    try await client.send([2], to: address)
    #expect(try await server.receive(until: time.now - .nanoseconds(1)) == nil)
    #expect(try await server.receive(until: time.now + .seconds(5))?.bytes == [2])
  }

  @Test(.inRealTime, arguments: DatagramTransport.allCases)
  func `A loop ends at its instant, also in a flood, and what it did not take stays`(
    transport: DatagramTransport
  ) async throws {
    let time = ManualTime()
    let (client, server, address) = try transport.pair(on: time.reactor)
    for number in 0..<8 as Range<UInt8> { try await client.send([number], to: address) }
    var bytes: [UInt8] = []
    for try await datagram in server.datagrams.ending(at: time.now + .seconds(5)) {
      bytes += datagram.bytes
      if bytes.count == 3 { await time.advance(by: .seconds(5)) }
    }
    #expect(bytes == [0, 1, 2])
    #expect(try await server.firstBytes(5, upTo: 10) == [3, 4, 5, 6, 7])
    let waiting = server.datagrams.ending(at: time.now + .seconds(5))
    let loop = Task.immediate { try await waiting.first { _ in true } }
    try await eventually("the loop waits") { await server.metrics.pendingReceives == 1 }
    await time.advance(by: .seconds(5))
    #expect(try await loop.value == nil)
  }

  @Test(.inRealTime, arguments: DatagramTransport.allCases)
  func `The timeout of a loop throws if it comes first`(transport: DatagramTransport) async throws {
    let time = ManualTime()
    let (_, server, _) = try transport.pair(on: time.reactor)
    let datagrams = server.datagrams(timeout: .seconds(3)).ending(at: time.now + .seconds(5))
    for end in [SocketError.Code.timedOut, nil] {
      let loop = Task.immediate { try await datagrams.first { _ in true } }
      try await eventually("the loop waits") { await server.metrics.pendingReceives == 1 }
      await time.advance(by: .seconds(end == nil ? 2 : 3))
      if let end { await expectError(end) { _ = try await loop.value } } else { #expect(try await loop.value == nil) }
    }
  }

  @Test(arguments: DatagramTransport.allCases)
  func `Closing and cancelling end a receive until an instant as any other`(transport: DatagramTransport) async throws {
    let (_, server, _) = try transport.pair()
    let far = ContinuousClock.now + .seconds(1_000)
    let cancelled = Task.immediate { try await server.receive(until: far) }
    try await eventually("the call waits") { await server.metrics.pendingReceives == 1 }
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { _ = try await cancelled.value }
    let closed = Task.immediate { try await server.receive(until: far) }
    let loop = Task.immediate { try await server.datagrams.ending(at: far).first { _ in true } }
    try await eventually("both wait") { await server.metrics.pendingReceives == 2 }
    await server.close()
    await expectError(.closed) { _ = try await closed.value }
    #expect(try await loop.value == nil)
    await expectError(.closed) { _ = try await server.receive(until: far) }
  }

  @Test func `A refusal that was reported about the peer is thrown`() async throws {
    let target = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)), reactor: ConformanceReactor.current)
    let client = try DatagramTransport.ipv4.bind()
    try await client.connect(to: .address(target.localAddresses[0]))
    await target.close()
    try await client.send([1])
    await expectError(.connectionRefused) { _ = try await client.receive(until: .now + .seconds(1_000)) }
  }
}
