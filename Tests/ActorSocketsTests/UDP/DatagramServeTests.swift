import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// Where the handlers of a served endpoint run.
enum DatagramHandlerKind: String, CaseIterable {
  case pool, reactor, isolated

  func serve(
    _ endpoint: UDPEndpoint, _ options: UDPEndpoint.ServeOptions,
    _ handler: @escaping @Sendable (UDPEndpoint, Datagram) async throws -> Void
  ) -> Task<UDPEndpoint.ServeReport, any Error> {
    Task.immediate {
      var options = options
      if self == .reactor { options.taskExecutor = endpoint.executor.reactor }
      if self == .isolated {
        return try await endpoint.serve(options) { (endpoint: isolated UDPEndpoint, datagram) in
          try await handler(endpoint, datagram)
        }
      }
      return try await endpoint.serve(options) { datagram in try await handler(endpoint, datagram) }
    }
  }
}

@Suite(.conformance, .endsInTime) struct DatagramServeTests {
  @Test(.inRealTime, arguments: DatagramTransport.allCases)
  func `During a notice datagrams are served as before`(transport: DatagramTransport) async throws {
    let time = ManualTime()
    let (client, server) = (try transport.bind(), try transport.bind(reactor: time.reactor))
    let address = try transport.address(of: server)
    let serving = Task {
      try await server.serve(.init(drain: .within(.seconds(100), notice: .seconds(10)))) { datagram in
        try await server.send(datagram.reply(datagram.bytes))
      }
    }
    try await client.send([1], to: address)
    #expect(try await client.receive(timeout: .seconds(20)).bytes == [1])
    serving.cancel()
    try await time.advance(by: .seconds(10) - .nanoseconds(1), whenWaiting: 1)
    try await client.send([2], to: address)
    #expect(try await client.receive(timeout: .seconds(20)).bytes == [2])
    await time.advance(by: .nanoseconds(1))
    let report = try await serving.value
    #expect(report.finished == 2)
    #expect(await server.isClosed)
  }

  private struct Refused: Error {}

  /// A handler that tells what it got, and then waits for its gate.
  private static func serve(
    _ server: UDPEndpoint, _ options: UDPEndpoint.ServeOptions, _ gate: Gate,
    _ seen: Notes<UInt8>, _ kind: DatagramHandlerKind = .pool
  ) -> Task<UDPEndpoint.ServeReport, any Error> {
    kind.serve(server, options) { endpoint, datagram in
      seen.add(datagram.bytes[0])
      await gate.wait()
      try await endpoint.send(datagram.reply(datagram.bytes))
    }
  }

  @Test(arguments: DatagramTransport.allCases, DatagramHandlerKind.allCases)
  func `Each datagram gets its handler, and a drain lets them end`(
    transport: DatagramTransport, kind: DatagramHandlerKind
  ) async throws {
    let (client, server, address) = try transport.pair()
    let serving = kind.serve(server, .init()) { endpoint, datagram in
      try await endpoint.send(datagram.reply(datagram.bytes + [9]))
    }
    for number in 0..<100 as Range<UInt8> {
      try await client.send([number], to: address)
      #expect(try await client.receive(timeout: .seconds(20)).bytes == [number, 9])
    }
    await server.drain(within: .seconds(20))
    let report = try await serving.value
    #expect(report.received == 100 && report.finished == 100)
    #expect(await server.isClosed)
    await expectError(.closed) { try await server.serve { _ in } }
  }

  @Test(arguments: DatagramTransport.allCases, DatagramHandlerKind.allCases)
  func `While all handlers are busy, nothing more is received`(
    transport: DatagramTransport, kind: DatagramHandlerKind
  ) async throws {
    let (client, server, address) = try transport.pair()
    let (gate, seen) = (Gate(), Notes<UInt8>())
    let serving = Self.serve(server, .init(handlers: 2), gate, seen, kind)
    for number in 0..<8 as Range<UInt8> { try await client.send([number], to: address) }
    try await eventually("two handlers run") { seen.all.count == 2 }
    let metrics = await server.metrics
    #expect(metrics.runningHandlers == 2 && metrics.waitingForHandler == 0)
    await server.drain(within: .seconds(20))
    // It comes when all that waited are received, or it is served, too.
    gate.open()
    #expect(try await client.firstBytes(8, upTo: 8).sorted() == Array(0..<8))
    let report = try await serving.value
    #expect(report.received == 8 && report.finished == 8 && report.unserved == 0)
    // The handlers of the pool may begin in another order than their tasks.
    #expect(kind == .pool ? seen.all.sorted() == Array(0..<8) : seen.all == Array(0..<8))
  }

  @Test(arguments: DatagramTransport.allCases, [UDPEndpoint.Overflow.dropOldest, .dropNewest])
  func `Beyond the queue, datagrams are dropped`(
    transport: DatagramTransport, overflow: UDPEndpoint.Overflow
  ) async throws {
    let (client, server, address) = try transport.pair()
    let (gate, seen) = (Gate(), Notes<UInt8>())
    let options = UDPEndpoint.ServeOptions(handlers: 1, overflow: overflow, queueBudget: 3 * 257)
    let serving = Self.serve(server, options, gate, seen)
    for number in 0..<10 as Range<UInt8> { try await client.send([number], to: address) }
    try await eventually("ten datagrams have come") { await server.metrics.datagramsReceived == 10 }
    try await eventually("six were dropped") { await server.metrics.datagramsUnserved == 6 }
    let metrics = await server.metrics
    #expect(metrics.runningHandlers == 1 && metrics.waitingForHandler == 3)
    gate.open()
    let answers = try await client.firstBytes(4, upTo: 1)
    #expect(answers == (overflow == .dropOldest ? [0, 7, 8, 9] : [0, 1, 2, 3]))
    serving.cancel()
    let report = try await serving.value
    #expect(report.received == 10 && report.finished == 4 && report.unserved == 6)
  }

  @Test(arguments: DatagramTransport.allCases)
  func `Datagrams that wait in the kernel when a drain begins are served`(transport: DatagramTransport) async throws {
    let (client, server, address) = try transport.pair()
    let (gate, seen) = (Gate(), Notes<UInt8>())
    let serving = Self.serve(server, .init(handlers: 1), gate, seen)
    try await client.send([0], to: address)
    try await eventually("a handler runs") { seen.all.count == 1 }
    for number in 1..<9 as Range<UInt8> { try await client.send([number], to: address) }
    serving.cancel()
    gate.open()
    #expect(try await client.firstBytes(9, upTo: 9) == Array(0..<9))
    #expect(try await serving.value.finished == 9)
  }

  @Test(.inRealTime, arguments: DatagramHandlerKind.allCases)
  func `When the drain is over, handlers are cancelled and the rest is dropped`(
    kind: DatagramHandlerKind
  ) async throws {
    let time = ManualTime()
    let (client, server, address) = try DatagramTransport.ipv4.pair(on: time.reactor)
    let failures = Notes<String>()
    let started = Notes<UInt8>()
    let options = UDPEndpoint.ServeOptions(
      handlers: 2, overflow: .dropNewest, onFailure: { failures.add("\($0)") })
    let serving = kind.serve(server, options) { endpoint, datagram in
      started.add(datagram.bytes[0])
      // No error comes, so this waits until the handler is cancelled.
      for await _ in endpoint.errors {}
      try Task.checkCancellation()
    }
    for number in 0..<3 as Range<UInt8> { try await client.send([number], to: address) }
    try await eventually("two handlers run") { started.all.count == 2 }
    try await eventually("one datagram waits") { await server.metrics.waitingForHandler == 1 }
    await server.drain(within: .seconds(5))
    await time.advance(by: .seconds(5) - .nanoseconds(1))
    #expect(await server.metrics.runningHandlers == 2)
    await time.advance(by: .nanoseconds(1))
    let report = try await serving.value
    #expect(report.received == 3 && report.aborted == 2 && report.unserved == 1)
    #expect(await server.isClosed && failures.all.isEmpty)
  }

  @Test(arguments: DatagramHandlerKind.allCases)
  func `An error of a handler is reported, and the others go on`(kind: DatagramHandlerKind) async throws {
    let (client, server, address) = try DatagramTransport.ipv4.pair()
    let failures = Notes<(UInt8, Bool)>()
    let serving = kind.serve(server, .init(onFailure: { failures.add(($0.datagram.bytes[0], $0.isCausedByPeer)) })) {
      endpoint, datagram in
      if datagram.bytes[0] == 1 { throw Refused() }
      if datagram.bytes[0] == 2 { throw SocketError(.connectionReset, operation: "test") }
      try await endpoint.send(datagram.reply(datagram.bytes))
    }
    for number in 1..<4 as Range<UInt8> { try await client.send([number], to: address) }
    #expect(try await client.receive(timeout: .seconds(20)).bytes == [3])
    try await eventually("both errors are reported") { failures.all.count == 2 }
    #expect(failures.all.sorted { $0.0 < $1.0 }.map(\.0) == [1, 2])
    #expect(failures.all.sorted { $0.0 < $1.0 }.map(\.1) == [false, true])
    serving.cancel()
    let report = try await serving.value
    #expect(report.received == 3 && report.failed == 1 && report.failedByPeer == 1 && report.finished == 1)
  }

  @Test func `Limits out of range are refused, and so is a second server`() async throws {
    let server = try DatagramTransport.ipv4.bind()
    await expectError(.invalidArgument) { try await server.serve(.init(handlers: 0)) { _ in } }
    await expectError(.invalidArgument) { try await server.serve(.init(queueBudget: -1)) { _ in } }
    let serving = Task.immediate { try await server.serve { _ in } }
    await expectError(.invalidArgument) { try await server.serve { _ in } }
    await server.drain(within: .zero)
    #expect(try await serving.value == UDPEndpoint.ServeReport())
  }

  @Test func `Drained before it is served, an endpoint is closed`() async throws {
    let server = try DatagramTransport.ipv4.bind()
    await server.drain(within: .seconds(5))
    #expect(await server.isClosed)
    #expect(try await server.serve { _ in } == UDPEndpoint.ServeReport())
  }

  @Test(arguments: DatagramTransport.allCases, DatagramHandlerKind.allCases)
  func `When the endpoint is closed, its handlers end, and then the server`(
    transport: DatagramTransport, kind: DatagramHandlerKind
  ) async throws {
    let (client, server, address) = try transport.pair()
    let (gate, seen) = (Gate(), Notes<UInt8>())
    let serving = kind.serve(server, .init()) { _, datagram in
      seen.add(datagram.bytes[0])
      await gate.wait()
    }
    try await client.send([1], to: address)
    try await eventually("a handler runs") { seen.all.count == 1 }
    await server.close()
    gate.open()
    await expectError(.closed) { _ = try await serving.value }
  }

  /// How an endpoint ends while it is served.
  enum End: CaseIterable {
    case close, closeAfterPendingSends, shutDown
  }

  @Test(.inRealTime, arguments: End.allCases, [false, true])
  func `An endpoint that ends while all handlers are busy lets them end, until the drain is over`(
    end: End, isDraining: Bool
  ) async throws {
    let time = ManualTime()
    let (client, server, address) = try DatagramTransport.ipv4.pair(on: time.reactor)
    let started = Notes<UInt8>()
    let cancelled = Notes<Bool>()
    let options = UDPEndpoint.ServeOptions(handlers: 1, drain: .within(.seconds(5)))
    let serving = DatagramHandlerKind.pool.serve(server, options) { _, datagram in
      started.add(datagram.bytes[0])
      // It ends only when it is cancelled.
      await AsyncStream<Void>.makeStream().stream.first { true }
      cancelled.add(Task.isCancelled)
    }
    try await client.send([1], to: address)
    try await eventually("a handler runs") { started.all.count == 1 }
    if isDraining { await server.drain(within: .seconds(5)) }
    switch end {
    case .close: await server.close()
    case .closeAfterPendingSends: await server.closeAfterPendingSends()
    case .shutDown: time.reactor.shutdown()
    }
    if end != .shutDown {
      try await eventually("the server drains") { await server.serving.server.isDraining }
      await time.advance(by: .seconds(5) - .nanoseconds(1))
      #expect(cancelled.all.isEmpty)
      await time.advance(by: .nanoseconds(1))
    }
    let result = await serving.result
    #expect(cancelled.all == [true])
    switch (end, isDraining) {
    case (.shutDown, _): await expectError(.reactorShutDown) { _ = try result.get() }
    case (_, false): await expectError(.closed) { _ = try result.get() }
    case (_, true): #expect(try result.get().aborted == 1)
    }
  }

  @Test(.inRealTime) func `A drain ends although another call waits for datagrams`() async throws {
    let time = ManualTime()
    let (client, server, address) = try DatagramTransport.ipv4.pair(on: time.reactor)
    let serving = Task.immediate { try await server.serve { _ in } }
    try await eventually("it waits") { await server.metrics.pendingReceives == 1 }
    let other = Task.immediate { try await server.receive() }
    try await eventually("the other call waits, too") { await server.metrics.pendingReceives == 2 }
    await server.drain(within: .seconds(100))
    #expect(try await serving.value.received == 0)
    await expectError(.closed) { _ = try await other.value }
    _ = (client, address)
  }

  @Test(.inRealTime) func `A drain that a filter begins is not missed`() async throws {
    let (client, server, address) = try DatagramTransport.ipv4.pair()
    await server.setReceiveFilter { [weak server] _ in
      server?.assumeIsolated { $0.drain(within: .seconds(3_600)) }
      return .drop
    }
    let serving = Task.immediate { try await server.serve { _ in } }
    try await client.send([1], to: address)
    #expect(try await serving.value.received == 0)
  }

  @Test(.inRealTime) func `The earliest end applies also after the handlers have ended`() async throws {
    let time = ManualTime()
    let (client, server, address, _) = try await DatagramTransport.full(on: time.reactor)
    let send = Task.immediate { try await client.send([1], to: address) }
    try await eventually("it waits") { await client.metrics.pendingSends == 1 }
    let serving = Task.immediate { try await client.serve { _ in } }
    try await eventually("it is served") { await client.metrics.pendingReceives == 1 }
    await client.drain(within: .seconds(100))
    try await eventually("no more calls are taken") {
      do { _ = try await client.receive(timeout: .zero) } catch let error as SocketError {
        return error.code == .closed
      }
      return false
    }
    await client.drain(within: .zero)
    #expect(try await serving.value == UDPEndpoint.ServeReport())
    await expectError(.closed) { _ = try await send.value }
    _ = server
  }

  @Test(.inRealTime) func `A flood keeps neither the reactor nor the drain busy`() async throws {
    let (client, server, address) = try DatagramTransport.ipv4.pair()
    let other = try DatagramTransport.ipv4.bind()
    let gate = Gate()
    let options = UDPEndpoint.ServeOptions(handlers: 1, overflow: .dropOldest, queueBudget: 1_000)
    let serving = Self.serve(server, options, gate, Notes<UInt8>())
    let flood = Task {
      while !Task.isCancelled { try await client.send((0..<32).map { _ in Datagram([1, 2, 3], to: address) }) }
    }
    try await eventually("much was dropped") { await server.metrics.datagramsUnserved > 1_000 }
    // Another socket of the reactor is served meanwhile.
    try await other.send([7], to: .ipv4(.loopback, port: try #require(other.port)))
    #expect(try await other.receive(timeout: .seconds(20)).bytes == [7])
    await server.drain(within: .seconds(3_600))
    gate.open()
    let report = try await serving.value
    #expect(report.received == report.finished + report.unserved)
    flood.cancel()
    _ = await flood.result
  }
}
