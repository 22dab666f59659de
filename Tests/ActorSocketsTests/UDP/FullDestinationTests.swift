import ActorSockets
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct FullDestinationTests {
  @Test(.inRealTime)
  func `A send without time to wait tries a destination that has room again, behind those that wait`() async throws {
    let time = ManualTime()
    let (client, deaf, full, sent) = try await DatagramTransport.full(on: time.reactor)
    let waiting = Task.immediate { try await client.send([1], to: full) }
    try await client.hasPending(sends: 1)
    _ = try await deaf.firstBytes(sent)
    // No time passes, so nothing else tries again.
    try await client.send([2], to: full, timeout: .zero)
    try await waiting.value
    #expect(try await deaf.receive().bytes == [1])
    #expect(try await deaf.receive().bytes == [2])
  }

  @Test(.inRealTime) func `A destination without room at the end of the clock traps nothing`() async throws {
    let time = ManualTime()
    await time.advance(by: .seconds(Int64.max))
    let (client, deaf, full, _) = try await DatagramTransport.full(on: time.reactor)
    let waiting = Task.immediate { try await client.send([1], to: full) }
    try await client.hasPending(sends: 1)
    waiting.cancel()
    await expectCancellation { try await waiting.value }
    await deaf.close()
  }

  @Test(.inRealTime) func `A reply waits five seconds for room, and is then dropped`() async throws {
    let time = ManualTime()
    let (deaf, server, address) = try DatagramTransport.unix.pair(on: time.reactor)
    try await deaf.send([1], to: address)
    let datagram = try await server.receive()
    while await server.metrics.pendingSends == 0 { try await server.send(datagram.reply([2])) }
    await time.advance(by: .milliseconds(4_900))
    #expect(await server.metrics.pendingSends == 1)
    // The pauses between the tries are at most 100 ms.
    await time.advance(by: .milliseconds(300))
    let metrics = await server.metrics
    #expect(metrics.pendingSends == 0 && metrics.datagramsUndelivered == 1, "\(metrics)")
  }

  @Test func `A unix receiver that reads nothing delays only the datagrams to itself`() async throws {
    let (client, deaf, full, _) = try await DatagramTransport.full()
    let server = try DatagramTransport.unix.bind()
    let good = server.localAddresses[0]
    let waiting = Task.immediate { try await client.send([1], to: full) }
    let handle = client.enqueueSend(Datagram([2], to: full))
    let mixed = Task.immediate { try await client.send([Datagram([3], to: full), Datagram([4], to: good)]) }
    #expect(try await server.receive().bytes == [4])
    for number in 10..<100 as Range<UInt8> {
      switch number % 4 {
      case 0: try await client.send([number], to: good)
      case 1: try await client.send([number], to: good, timeout: .zero)
      case 2: try await client.send([Datagram([number], to: good)])
      default: try await client.enqueueSend(Datagram([number], to: good)).value
      }
      #expect(try await server.receive().bytes == [number])
    }
    #expect(await client.metrics.pendingSends == 3)
    // Those that wait leave in their order.
    var seen: [UInt8] = []
    while seen.last != 3 { seen += try await deaf.receive(upTo: 32).map { $0.bytes[0] } }
    #expect(seen.suffix(3) == [1, 2, 3])
    try await waiting.value
    try await handle.value
    try await mixed.value
  }

  @Test(.inRealTime) func `Every timeout holds, wherever in the queue a send waits`() async throws {
    let time = ManualTime()
    let (client, deaf, full, sent) = try await DatagramTransport.full(on: time.reactor)
    let first = Task.immediate { try await client.send([1], to: full) }
    try await client.hasPending(sends: 1)
    let limited = [Timeout.after(.seconds(1)), .within(.seconds(1)), .seconds(1)].map { timeout in
      Task.immediate { try await client.send([2], to: full, timeout: timeout) }
    }
    let batch = Task.immediate { try await client.send([Datagram([2], to: full)], timeout: .seconds(1)) }
    let handle = client.enqueueSend(Datagram([2], to: full), timeout: .seconds(1))
    try await client.hasPending(sends: 6)
    await expectError(.timedOut) { try await client.send([3], to: full, timeout: .zero) }
    await expectError(.timedOut) { try await client.enqueueSend(Datagram([3], to: full), timeout: .zero).value }
    #expect(await client.metrics.pendingSends == 6)
    await time.advance(by: .seconds(1))
    for task in limited + [batch] { await expectError(.timedOut) { try await task.value } }
    await expectError(.timedOut) { try await handle.value }
    #expect(await client.metrics.pendingSends == 1)
    var count = 0
    while count < sent + 1 {
      count += try await deaf.receive(upTo: 32).count
      await time.advance(by: .seconds(1))
    }
    try await first.value
  }

  @Test(.inRealTime) func `A unix receiver that reads nothing does not keep the reactor busy`() async throws {
    let time = ManualTime()
    let (client, deaf, full, _) = try await DatagramTransport.full(on: time.reactor)
    let waiting = Task.immediate { try await client.send([1], to: full) }
    try await client.hasPending(sends: 1)
    let (left, right, address) = try DatagramTransport.ipv4.pair()
    func polls(during work: () async throws -> Void) async throws -> Int {
      let before = time.reactor.metrics.polls
      try await work()
      return time.reactor.metrics.polls - before
    }
    let idle = try await polls {
      for _ in 0..<1000 {
        try await left.send([1], to: address)
        _ = try await right.receive()
      }
    }
    #expect(idle < 20, "\(idle) polls while nothing could change")
    await time.advance(by: .seconds(10))
    // Ten seconds: each attempt wakes the reactor, and so does the event that it causes.
    let retries = try await polls { for _ in 0..<10 { await time.advance(by: .seconds(1)) } }
    #expect(retries < 1000, "\(retries) polls in ten seconds")
    waiting.cancel()
    _ = try? await waiting.value
    await deaf.close()
  }

  @Test(.inRealTime, arguments: [false, true])
  func `Connecting to a client whose replies wait neither keeps the reactor busy nor changes their order`(
    hadPeer: Bool
  ) async throws {
    let time = ManualTime()
    let transport = DatagramTransport.unix
    let (server, client) = (try transport.bind(reactor: time.reactor), try transport.bind())
    let address = client.localAddresses[0]
    try await client.send([0], to: server.localAddresses[0])
    let request = try await server.receive()
    if hadPeer { try await server.connect(to: .address(address)) }
    var count: UInt8 = 0
    while await server.metrics.pendingSends == 0 {
      try await server.send(request.reply([count]))
      count += 1
    }
    try await server.connect(to: .address(address))
    await time.advance(by: .seconds(1))
    try await time.reactor.sleeps()
    let behind = Task.immediate { [count] in try await server.send([count]) }
    try await server.hasPending(sends: 2)
    for number in 0...count {
      #expect(try await client.receive(timeout: .zero).bytes == [number])
      await time.advance(by: .milliseconds(100))
    }
    try await behind.value
  }

  @Test(arguments: [ReplyLoop.single, .batch, .unchanged, .enqueued, .inPlace])
  func `A unix client that does not read its answers ends and holds up no loop that replies`(
    loop: ReplyLoop
  ) async throws {
    let (client, server, address) = try DatagramTransport.unix.pair { $0.sendBudget = 64 * 256 }
    let serving = Task { try await loop.echo(on: server) }
    let deaf = try DatagramTransport.unix.bind()
    for number in 0..<100 as Range<UInt8> {
      try await deaf.send([number], to: address)
      try await client.send([number], to: address)
      #expect(try await client.receive().bytes == [number])
    }
    if loop != .inPlace {
      let metrics = await server.metrics
      // A quarter of the budget waits, and the rest is counted.
      #expect(metrics.pendingSends <= 16 && metrics.datagramsUndelivered > 60, "\(metrics)")
      #expect(await server.errors.next()?.error.address == deaf.localAddresses[0])
    }
    await server.close()
    _ = try? await serving.value
  }

  @Test func `A datagram to a destination without room is dropped, if the configuration says so`() async throws {
    let transport = DatagramTransport.unix
    let client = try transport.bind { $0.fullDestination = .drop }
    let (deaf, server) = (try transport.bind(), try transport.bind())
    let (full, good) = (deaf.localAddresses[0], server.localAddresses[0])
    for number in 0..<100 as Range<UInt8> {
      switch number % 3 {
      case 0: try await client.send([number], to: full)
      case 1: try await client.send([Datagram([number], to: full), Datagram([number], to: good)])
      default: try await client.enqueueSend(Datagram([number], to: full)).value
      }
      if number % 3 == 1 { #expect(try await server.receive().bytes == [number]) }
    }
    let metrics = await client.metrics
    #expect(metrics.datagramsSent + metrics.datagramsUndelivered == 133 && metrics.pendingSends == 0, "\(metrics)")
    #expect(metrics.datagramsUndelivered > 80, "\(metrics)")
    #expect(await client.errors.next()?.error.address == full)
  }
}
