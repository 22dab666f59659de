import ActorSockets
import ActorSocketsTesting
import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct SendingTests {
  @Test func `Sends wait for room, in their order, connected or not`() async throws {
    for isConnected in [true, false] {
      let (client, server, address, sent) = try await DatagramTransport.full()
      if isConnected { try await client.connect(to: .address(address)) }
      let tasks = (0..<20).map { number in
        Task.immediate { try await client.send([UInt8(sent + number)], to: address) }
      }
      try await client.hasPending(sends: 20)
      #expect(try await server.firstBytes(sent + 20, upTo: 3) == Array(0..<UInt8(sent + 20)))
      for task in tasks { try await task.value }
      let metrics = await client.metrics
      #expect(metrics.datagramsSent == UInt64(sent + 20) && metrics.pendingSends == 0)
    }
  }

  @Test(.inRealTime) func `A time-out or a cancellation takes a send back`() async throws {
    let time = ManualTime()
    let (client, server, address, sent) = try await DatagramTransport.full(on: time.reactor)
    let late = Task.immediate { try await client.send([100], to: address, timeout: .seconds(1)) }
    let cancelled = Task.immediate { try await client.send([101], to: address) }
    let good = Task.immediate { try await client.send([102], to: address) }
    let handle = client.enqueueSend(Datagram([104], to: address))
    let other = client.enqueueSend(Datagram([105], to: address))
    await time.advance(by: .seconds(1))
    await expectError(.timedOut) { try await late.value }
    await expectError(.timedOut) { try await client.send([103], to: address, timeout: .zero) }
    cancelled.cancel()
    handle.cancel()
    await #expect(throws: CancellationError.self) { try await cancelled.value }
    await #expect(throws: CancellationError.self) { try await handle.value }
    var seen: [UInt8] = []
    while seen.count < sent + 2 {
      seen += try await server.receive(upTo: 100).map { $0.bytes[0] }
      await time.advance(by: .seconds(1))
    }
    #expect(seen == Array(0..<UInt8(sent)) + [102, 105])
    try await good.value
    try await other.value
  }

  @Test func `Enqueued sends keep the order of the calls, and have a budget`() async throws {
    let (client, server, address, sent) = try await DatagramTransport.full { $0.sendBudget = 2000 }
    let first = client.enqueueSend(Datagram(pattern(1500), to: address))
    let second = client.enqueueSend(Datagram(pattern(600), to: address))
    let third = client.enqueueSend(Datagram(pattern(100), to: address))
    let error = await expectError(.limitExceeded) { try await second.value }
    #expect("\(error)".contains("1500 bytes are already waiting"))
    // A send that waits for its turn has no budget: its task is what waits.
    let fourth = Task.immediate { try await client.send(pattern(1000), to: address) }
    var seen: [Int] = []
    while seen.count < sent + 3 { seen.append(try await server.receive().bytes.count) }
    #expect(Array(seen.suffix(3)) == [1500, 100, 1000])
    try await first.value
    try await third.value
    try await fourth.value
  }

  @Test(arguments: DatagramTransport.allCases)
  func `Batches arrive whole and in order, and one that fails does not keep its neighbours`(
    transport: DatagramTransport
  ) async throws {
    let (client, server, address) = try transport.pair()
    try await client.send([] as [Datagram])
    let sending = Task.immediate { try await client.send((0..<200).map { Datagram([UInt8($0)], to: address) }) }
    #expect(try await server.firstBytes(200, upTo: 50) == Array(0..<200))
    try await sending.value
    var mixed = (0..<10).map { Datagram([UInt8($0)], to: address) }
    mixed[0].bytes = pattern(65_536)
    mixed[4].bytes = pattern(transport.isUnix ? 70_000 : 65_530)
    mixed[7].remoteAddress = transport.isUnix ? .ipv4(.loopback, port: 9) : address.with(port: 0)
    do {
      try await client.send(mixed)
      Issue.record("nothing was thrown")
    } catch let error as DatagramBatchError {
      #expect(error.sent == 7 && error.failures.map(\.index) == [0, 4, 7], "\(error)")
      let codes: [SocketError.Code] = [
        .limitExceeded, .limitExceeded, transport.isUnix ? .familyNotSupported : .invalidArgument,
      ]
      #expect(error.failures.map(\.error.code) == codes)
    }
    #expect(try await server.firstBytes(7, upTo: 50) == [1, 2, 3, 5, 6, 8, 9])
  }

  @Test func `Closing fails what waits, or lets it leave`() async throws {
    let (client, full, address, _) = try await DatagramTransport.full()
    let waiting = Task.immediate { try await client.send([1], to: address) }
    let handle = client.enqueueSend(Datagram([2], to: address))
    await client.close()
    await expectError(.closed) { try await waiting.value }
    await expectError(.closed) { try await handle.value }
    await full.close()

    let (other, server, there, sent) = try await DatagramTransport.full()
    let last = Task.immediate { try await other.send([200], to: there) }
    let receiving = Task.immediate { try await other.receive() }
    let closing = Task.immediate { await other.closeAfterPendingSends() }
    let given = Task.immediate { await other.closeAfterPendingSends() }
    given.cancel()
    await given.value
    await expectError(.closed) { _ = try await receiving.value }
    await expectError(.closed) { try await other.send([1], to: there) }
    #expect(try await server.firstBytes(sent + 1, upTo: 100).last == 200)
    try await last.value
    await closing.value
    #expect(await other.isClosed)
  }

  @Test(.inRealTime) func `Closing after the sends has a time limit`() async throws {
    let time = ManualTime()
    let (client, full, address, _) = try await DatagramTransport.full(on: time.reactor)
    let waiting = Task.immediate { try await client.send([1], to: address) }
    let closing = Task.immediate { await client.closeAfterPendingSends(within: .seconds(5)) }
    await time.advance(by: .seconds(5))
    await closing.value
    await expectError(.closed) { try await waiting.value }
    await full.close()
  }

  @Test func `An endpoint sends enqueued datagrams even after the program has dropped it`() async throws {
    let server = try DatagramTransport.ipv4.bind()
    func leave() throws {
      let client = try DatagramTransport.ipv4.bind()
      for number in 0..<5 as Range<UInt8> { client.enqueueSend(Datagram([number], to: server.localAddresses[0])) }
    }
    try leave()
    for number in 0..<5 as Range<UInt8> { #expect(try await server.receive().bytes == [number]) }
  }

  @Test func `The end of a reactor is the end of its endpoints`() async throws {
    let reactor = Reactor()
    let (client, server, address, _) = try await DatagramTransport.full(on: reactor)
    let idle = try DatagramTransport.unix.bind(reactor: reactor)
    let sending = Task.immediate { try await client.send([1], to: address) }
    let errors = Task.immediate { for await _ in client.errors {} }
    let receiving = Task.immediate { try await client.receive() }
    reactor.shutdown()
    await expectError(.reactorShutDown) { try await sending.value }
    await expectError(.reactorShutDown) { _ = try await receiving.value }
    await errors.value
    await expectError(.reactorShutDown) { _ = try await idle.receive() }
    let late = try UDPEndpoint.bind(reactor: reactor)
    await expectError(.reactorShutDown) { _ = try await late.receive() }
    await server.close()
  }
}
