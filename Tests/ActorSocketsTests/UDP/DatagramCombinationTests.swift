import ActorSockets
import ActorSocketsTesting
import Dispatch
import SocketSystem
import TestSupport
import Testing

/// What comes together rarely: looks that find nothing, closures that call back, peers that change, reports at odd moments.
@Suite(.conformance, .endsInTime) struct DatagramCombinationTests {
  private static func slow(_ gate: Gate) -> ScriptedResolver {
    ScriptedResolver { _, _ in
      await gate.wait()
      return [.ipv4(.loopback, port: 0)]
    }
  }

  private static let ipv4 = DatagramTransport.ipv4

  // MARK: Looking

  @Test(.inRealTime) func `A look that finds nothing keeps its time`() async throws {
    let nobody = try await Self.ipv4.deadAddress()
    let time = ManualTime()
    let client = try Self.ipv4.bind(reactor: time.reactor)
    let looking = Task.immediate { try await client.withDatagrams(timeout: .seconds(1)) { _, _ in } }
    // The report of the refusal wakes the look, but no datagram has arrived.
    try await client.send([1], to: nobody)
    await time.advance(by: .seconds(1))
    await expectError(.timedOut) { _ = try await looking.value }

    let server = try Self.ipv4.bind()
    let first = Task.immediate { try await server.withDatagrams(upTo: 1) { _, _ in } }
    let second = Task.immediate { try await server.withDatagrams(upTo: 1, timeout: .zero) { _, _ in } }
    try await client.send([1], to: server.localAddresses[0])
    #expect(try await first.value == 1)
    await expectError(.timedOut) { _ = try await second.value }
  }

  @Test func `A look that has its turn when closing begins ends`() async throws {
    let gate = Gate()
    let server = try Self.ipv4.bind(on: Reactor()) { $0.resolver = Self.slow(gate) }
    let slow = Task.immediate { try await server.send([1], to: .host("slow.example", port: 9)) }
    let first = Task.immediate {
      try await server.withDatagrams(upTo: 1) { _, _ in
        Task.immediate { await server.closeAfterPendingSends() }
      }
    }
    let second = Task.immediate { try await server.withDatagrams(upTo: 1) { _, _ in } }
    try await server.hasPending(receives: 2)
    try await Self.ipv4.bind().send([1], to: server.localAddresses[0])
    #expect(try await first.value == 1)
    await expectError(.closed) { _ = try await second.value }
    gate.open()
    try await slow.value
  }

  @Test func `Sending while datagrams are looked at leaves them in place`() async throws {
    let server = try Self.ipv4.bind(reactor: Reactor())
    let client = try Self.ipv4.bind()
    for number in 10..<14 as Range<UInt8> { try await client.send([number], to: server.localAddresses[0]) }
    #expect(try await server.lookAndSendBatches(to: client.localAddresses[0]) == [10, 11, 12, 13])
    for number in [101, 102] as [UInt8] { #expect(try await client.receive().bytes == [number]) }
  }

  @Test(.inRealTime) func `A call gets no datagram behind that of a later call`() async throws {
    let reactor = Reactor()
    let server = try Self.ipv4.bind(reactor: reactor)
    let client = try Self.ipv4.bind()
    let two = Task(executorPreference: reactor) { try await server.receiveTwice() }
    try await server.hasPending(receives: 1)
    let many = Task { try await server.receive(upTo: 40).map { $0.bytes[0] } }
    try await server.hasPending(receives: 2)
    // More than a batch waits when the reactor looks.
    let (isBlocked, isSent) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    server.submit { _ in
      isBlocked.signal()
      isSent.wait()
    }
    try await onThread { isBlocked.wait() }
    try await client.send((0..<60).map { Datagram([$0], to: server.localAddresses[0]) })
    isSent.signal()
    let later = try await two.value
    let earlier = try await many.value
    #expect(later[0] == 0)
    #expect(earlier.allSatisfy { $0 < later[1] }, "\(earlier), \(later)")
  }

  // MARK: Sending

  @Test func `A failed send of a unix endpoint leaves what waits to be received`() async throws {
    let (client, server, address) = try DatagramTransport.unix.pair()
    for number in 0..<3 as Range<UInt8> { try await client.send([number], to: address) }
    await expectError(.connectionRefused) { try await server.send([9], to: .unix(path: "@nobody at all")) }
    for number in 0..<3 as Range<UInt8> { #expect(try await server.receive().bytes == [number]) }
  }

  @Test func `A datagram that no batch has room for fails, and those behind it leave`() async throws {
    let client = try Self.ipv4.bind { $0.maximumSendSize = 1 << 20 }
    let handle = client.enqueueSend(Datagram(pattern(600_000), to: client.localAddresses[0]))
    try await client.send([2], to: client.localAddresses[0])
    await expectError(.limitExceeded) { try await handle.value }
    #expect(try await client.receive().bytes == [2])
  }

  @Test func `Filters see what is sent to names, and may close the endpoint`() async throws {
    let gate = Gate()
    gate.open()
    let server = try Self.ipv4.bind()
    let client = try Self.ipv4.bind {
      $0.resolver = Self.slow(gate)
      $0.sendFilter = { datagram in
        datagram.annotation = nil
        return datagram.remoteAddress == nil || datagram.bytes == [1] ? .drop : .pass
      }
    }
    let port = try #require(server.localAddresses[0].port)
    for number in [1, 2] as [UInt8] { try await client.send([number], to: .host("a.example", port: port)) }
    #expect(try await server.receive().bytes == [2])

    let place = Notes<UDPEndpoint>()
    let closing = try Self.ipv4.bind {
      $0.sendFilter = { _ in
        place.all.first?.assumeIsolated { $0.close() }
        return .pass
      }
    }
    place.add(closing)
    let address = closing.localAddresses[0]
    do {
      try await closing.send([Datagram([1], to: address)])
      Issue.record("it was sent")
    } catch let error as DatagramBatchError {
      #expect(error.failures.first?.error.code == .closed)
    } catch let error as SocketError {
      #expect(error.code == .closed)
    }
  }

  @Test func `The failures of a batch are named by their places in the array`() async throws {
    let client = try Self.ipv4.bind { $0.sendFilter = { $0.bytes == [0] ? .drop : .pass } }
    let address = client.localAddresses[0]
    let bad = Datagram([2], to: address.with(port: 0))
    for (datagrams, failed) in [
      ([Datagram([0], to: address), Datagram([1], to: address), bad], 2), ([bad], 0),
    ] {
      do {
        try await client.send(datagrams)
        Issue.record("nothing was thrown")
      } catch let error as DatagramBatchError {
        #expect(error.failures.map(\.index) == [failed])
      }
    }
  }

  @Test func `Empty datagrams count in the budget`() async throws {
    let gate = Gate()
    let client = try Self.ipv4.bind {
      $0.resolver = Self.slow(gate)
      $0.sendBudget = 2560
    }
    let slow = Task.immediate { try await client.send([1], to: .host("slow.example", port: 9)) }
    for _ in 0..<1000 { client.enqueueSend(Datagram([], to: client.localAddresses[0])) }
    #expect(await client.metrics.pendingSends == 10)
    gate.open()
    try await slow.value
  }

  @Test func `A send without time is not hindered by what was reported`() async throws {
    let nobody = try await Self.ipv4.deadAddress()
    let reactor = Reactor()
    let task = Task(executorPreference: reactor) {
      let client = try Self.ipv4.bind(reactor: reactor)
      for _ in 0..<20 {
        try await client.send([1], to: nobody)
        try await client.send([Datagram([2], to: client.localAddresses[0])], timeout: .zero)
        _ = try await client.receive()
      }
    }
    try await task.value
  }

  // MARK: Peers

  @Test func `A peer is changed to another family, and back`() async throws {
    let servers = try [DatagramTransport.ipv4, .ipv6, .ipv4].map { try $0.bind() }
    let client = try UDPEndpoint.bind(to: .port(0))
    let port = client.localAddresses[0].port
    for (number, server) in zip(0 as UInt8..<3, servers) {
      try await client.connect(to: .address(server.localAddresses[0]))
      try await client.send([number])
      let datagram = try await server.receive()
      #expect(datagram.bytes == [number] && datagram.remoteAddress?.port == port)
      try await server.send(datagram.reply([number]))
      #expect(try await client.receive().bytes == [number])
    }
    let both = try UDPEndpoint.bind(to: .host("localhost", port: 0))
    try await both.connect(to: .address(servers[0].localAddresses[0]))
    await expectError(.familyNotSupported) { try await both.connect(to: .address(servers[1].localAddresses[0])) }
    try await both.send([9])
    #expect(try await servers[0].receive().bytes == [9])
  }

  @Test(.needsNamespaces, .inRealTime)
  func `A peer is changed to one that is reached from another address`() async throws {
    let (near, far) = try await Namespace.pair()
    try await near.ip("link set lo up")
    let client = try await near.run { try UDPEndpoint.bind(to: .address(.ipv4(.any, port: 0))) }
    let server = try await far.run { try UDPEndpoint.bind(to: .address(.ipv4(.any, port: 5000))) }
    try await client.connect(to: .host("127.0.0.1", port: 5000))
    try await client.connect(to: .host("192.0.2.2", port: 5000))
    // The cable takes its time.
    try await eventually("it arrives") {
      try? await client.send([1])
      return (try? await server.receive(timeout: .milliseconds(20)))?.bytes == [1]
    }
    #expect(
      client.localAddress == .ipv4(IPv4Address(192, 0, 2, 1), port: try #require(client.localAddresses[0].port)))
  }

  @Test func `A receive beside a loop hears of a refusal that waits`() async throws {
    let client = try await UDPEndpoint.connect(to: .address(try await Self.ipv4.deadAddress()))
    let looping = Task.immediate { for try await _ in client.datagrams {} }
    try await client.hasPending(receives: 1)
    // Not at the first try, perhaps: the kernel limits how much it reports.
    try await eventually("a receive hears of it") {
      try? await client.send([1])
      do {
        _ = try await client.receive(timeout: .within(.milliseconds(20)))
        return false
      } catch let error as SocketError {
        return error.code == .connectionRefused
      }
    }
    await client.close()
    try await looping.value
  }

  // MARK: The reactor

  @Test(.inRealTime) func `After all kinds of trouble the reactor sleeps`() async throws {
    let reactor = Reactor()
    let server = try Self.ipv4.bind(on: reactor) { $0.receiveFilter = { _ in .drop } }
    let client = try Self.ipv4.bind(reactor: reactor)
    let waiting = Task.immediate { _ = try? await server.receive() }
    for _ in 0..<1000 { try await client.send([1], to: server.localAddresses[0]) }
    try await reactor.sleeps()
    let nobody = try await Self.ipv4.deadAddress()
    for _ in 0..<500 { try await client.send([1], to: nobody) }
    try await reactor.sleeps()
    let connected = try await UDPEndpoint.connect(to: .address(nobody), reactor: reactor)
    for _ in 0..<500 { try? await connected.send([1]) }
    try await reactor.sleeps()
    let full = try DatagramTransport.unix.bind(reactor: reactor)
    let unix = try DatagramTransport.unix.bind(reactor: reactor)
    for _ in 0..<100 { try? await unix.send([1], to: full.localAddresses[0], timeout: .zero) }
    try await reactor.sleeps()
    let stuck = Task.immediate { try await unix.send([1], to: full.localAddresses[0]) }
    await full.close()
    await expectError(.connectionRefused) { try await stuck.value }
    try await reactor.sleeps()
    waiting.cancel()
    await waiting.value
  }

  @Test(.inRealTime) func `Failed, dropped and closed endpoints leave no descriptor`() async {
    await #expect(processExitsWith: .success) {
      try await expectNoDescriptors {
        struct No: Error {}
        let used = try UDPEndpoint.bind(to: .host("localhost", port: 0))
        let target = used.localAddresses[0]
        for round in 0..<1000 {
          switch round % 6 {
          case 0: #expect(throws: SocketError.self) { try UDPEndpoint.bind(to: .address(target)) }
          case 1:
            #expect(throws: SocketError.self) { try UDPEndpoint.bind(to: .host("localhost", port: target.port ?? 0)) }
          case 2: #expect(throws: SocketError.self) { try Self.ipv4.bind { $0.prepare = { _ in throw No() } } }
          case 3: #expect(throws: SocketError.self) { try UDPEndpoint.bind(to: .unix(path: "/nonexistent/x")) }
          case 4: try UDPEndpoint.bind(to: .host("localhost", port: 0)).enqueueSend(Datagram([1], to: target))
          default:
            let closed = try UDPEndpoint.bind(to: .unix(path: ""))
            let task = Task.immediate { try await closed.withDatagrams { _, _ in } }
            await closed.close()
            await expectError(.closed) { _ = try await task.value }
          }
        }
        await used.close()
      }
    }
  }
}

extension UDPEndpoint {
  fileprivate func lookAndSendBatches(to address: SocketAddress) async throws -> [UInt8] {
    var seen: [UInt8] = []
    try await withDatagrams { bytes, _ in
      seen.append(bytes[0])
      Task.immediate { try await self.send([Datagram([101], to: address), Datagram([102], to: address)]) }
    }
    return seen
  }

  /// Two receives in a row, without leaving the isolation.
  fileprivate func receiveTwice() async throws -> [UInt8] {
    let first = try await receive().bytes[0]
    return [first, try await receive().bytes[0]]
  }
}
