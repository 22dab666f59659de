import ActorSockets
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import EpollReactor

@Suite(.endsInTime) struct ConnectTests {
  @Test(arguments: [SocketAddress.ipv4(.loopback, port: 0), .ipv6(.loopback, port: 0)])
  func `Both ends know both addresses`(address: SocketAddress) async throws {
    let listener = try TCPListener.bind(to: .address(address))
    let client = try await TCPConnection.connect(to: listener.endpoint)
    let server = try await listener.accept()
    #expect(client.remoteAddress == listener.address && server.localAddress == listener.address)
    #expect(client.localAddress == server.remoteAddress && client.localAddress != nil)
    for end in [client, server] {
      #expect(end.isIPv4 == address.isIPv4 && end.isIPv6 == address.isIPv6)
      #expect(end.description.contains("\(listener.address)"))
      #expect(await end.state == .open)
      end.label = "probe"
      #expect(end.description.contains("\"probe\""))
    }
    #expect(client.id != server.id)
  }

  @Test func `Where no socket listens, connecting is refused, and the error says where`() async throws {
    let address = try unusedAddress()
    let error = await expectConnectError(.connectionRefused, to: .address(address))
    #expect(error.address == address && error.operation == "connect")
    #expect(error.description.contains("\(address)"))
  }

  @Test func `An endpoint that cannot be connected to is refused at once`() async throws {
    for endpoint in [
      Endpoint.host("localhost", port: 0), .address(.ipv4(.loopback, port: 0)), .host("a\0b", port: 80),
      .host(String(repeating: "a", count: 300), port: 80), .unix(path: ""),
      .unix(path: String(repeating: "x", count: 200)),
    ] {
      await expectConnectError(.invalidArgument, to: endpoint)
      await expectError(.invalidArgument) { _ = try await TCPConnection(to: endpoint).read() }
    }
    await expectConnectError(.pathNotFound, to: .unix(path: "/nowhere/at/all"))
  }

  @Test(arguments: ["localhost", "127.0.0.1", ""])
  func `A name's addresses are tried one after the other`(name: String) async throws {
    let listener = try TCPListener.onLoopback()
    let port = try #require(listener.localAddresses.first?.port)
    let client = try await TCPConnection.connect(to: .host(name, port: port))
    let server = try await listener.accept()
    try await client.write(utf8: "hello\n")
    #expect(try await server.read(until: .lf) == Array("hello\n".utf8))
  }

  @Test func `When no address answers, the error names each`() async throws {
    let port = try freePort()
    let error = await expectConnectError(.connectionRefused, to: .port(port))
    #expect(error.description.contains("127.0.0.1:\(port)") && error.description.contains("[::1]:\(port)"))
  }

  @Test(.endsInTime(seconds: 120)) func `A name without an address is not found`() async throws {
    await expectConnectError(.hostNotFound, saying: "nobody.invalid", to: .host("nobody.invalid", port: 80))
  }

  @Test func `A black hole times out, by default after 30 seconds`() async throws {
    let hole = try BlackHole()
    let time = ManualTime()
    let connecting = Task.immediate { _ = try await TCPConnection.connect(to: hole.endpoint, reactor: time.reactor) }
    let queued = TCPConnection(to: hole.endpoint, reactor: time.reactor)
    let reading = Task.immediate { _ = try await queued.read() }
    let pending = queued.enqueueWrite([1])
    await time.advance(by: .seconds(30) - .nanoseconds(1))
    #expect(await queued.state == .connecting)
    await time.advance(by: .nanoseconds(1))
    let error = await expectError(.timedOut) { try await connecting.value }
    #expect(error.address == hole.address)
    await expectError(.timedOut) { try await reading.value }
    await expectError(.timedOut) { try await pending.value }
    guard case .timedOut = try await queued.closed.reason else { Issue.record("not timed out"); return }
  }

  @Test func `The time to connect can be chosen and extended`() async throws {
    let hole = try BlackHole()
    let time = ManualTime()
    let asked = Notes<Duration>()
    let timeouts: [Timeout] = [
      .seconds(3), .within(.seconds(3)),
      .after(.seconds(1)) { elapsed, _ in
        asked.add(elapsed)
        return elapsed < .seconds(3) ? .seconds(1) : nil
      },
    ]
    for timeout in timeouts {
      let isOver = Gate()
      let connecting = Task.immediate {
        defer { isOver.open() }
        _ = try await TCPConnection.connect(to: hole.endpoint, timeout: timeout, reactor: time.reactor)
      }
      await time.advance(by: .seconds(3) - .nanoseconds(1))
      #expect(!isOver.isOpen)
      await time.advance(by: .nanoseconds(1))
      await expectError(.timedOut) { try await connecting.value }
    }
    #expect(asked.all == [.seconds(1), .seconds(2), .seconds(3)])
    let configuration = TCPConnection.Configuration { $0.connectTimeout = .seconds(7) }
    let connection = TCPConnection(to: hole.endpoint, configuration: configuration, reactor: time.reactor)
    await time.advance(by: .seconds(7))
    await expectError(.timedOut) { try await connection.write([1]) }
  }

  @Test func `A timeout of a read or a write that waits for the connection counts as it says`() async throws {
    let hole = try BlackHole()
    let time = ManualTime()
    let connection = TCPConnection(to: hole.endpoint, reactor: time.reactor)
    let within = Task.immediate { _ = try await connection.read(upTo: 1, timeout: .within(.seconds(1))) }
    let writing = Task.immediate { try await connection.write([1], timeout: .within(.seconds(1))) }
    let after = Task.immediate { _ = try await connection.read(upTo: 1, timeout: .after(.seconds(1))) }
    await time.advance(by: .seconds(1))
    await expectError(.timedOut) { try await within.value }
    await expectError(.timedOut) { try await writing.value }
    #expect(await connection.status.queuedReads == 1)
    await connection.abort()
    await expectError(.closed) { try await after.value }
  }

  @Test func `Connecting can be cancelled`() async throws {
    let hole = try BlackHole()
    let connecting = Task.immediate { _ = try await TCPConnection.connect(to: hole.endpoint) }
    connecting.cancel()
    await expectCancellation { try await connecting.value }
    let cancelled = Task {
      try await eventually("cancelled") { Task.isCancelled }
      _ = try await TCPConnection.connect(to: hole.endpoint)
    }
    cancelled.cancel()
    await expectCancellation { try await cancelled.value }
  }

  @Test(arguments: [true, false])
  func `Calls that wait for a connection that is given up fail`(closes: Bool) async throws {
    let hole = try BlackHole()
    let connection = TCPConnection(to: hole.endpoint)
    #expect(await connection.state == .connecting)
    let reading = Task.immediate { _ = try await connection.read() }
    let writing = Task.immediate { try await connection.write([1]) }
    let finishing = Task.immediate { try await connection.finishWriting() }
    let peer = Task.immediate { try await connection.peerFinishedWriting() }
    let pending = connection.enqueueRead(.line())
    if closes { await connection.close() } else { await connection.abort() }
    for task in [reading, writing, finishing, peer] { await expectError(.closed) { try await task.value } }
    await expectError(.closed) { _ = try await pending.value }
    #expect(await connection.state == .closed)
    let report = try await connection.closed
    guard case .local = report.reason else { Issue.record("closed \(report.reason)"); return }
    #expect(report.bytesUnsent == 1 && report.bytesSent == 0)
    await expectError(.closed) { try await connection.withFileDescriptor { _ in } }
  }

  @Test func `Operations that are queued before the connection is up are carried out in their order`() async throws {
    let listener = try RawSocket.listening()
    let connection = TCPConnection(to: .address(try listener.address))
    let handles = (0..<10).map { connection.enqueueWrite(pattern(1000, from: 1000 * $0)) }
    let finishing = Task.immediate { try await connection.finishWriting() }
    let first = connection.enqueueRead(.until(.lf))
    let second = Task.immediate { try await connection.read(exactly: 4) }
    let peer = try await listener.accept()
    #expect(try await peer.receiveToEnd() == pattern(10_000))
    try peer.send("line\nrest")
    #expect(try await first.value == Array("line\n".utf8))
    #expect(try await second.value == Array("rest".utf8))
    for handle in handles { try await handle.value }
    try await finishing.value
  }

  @Test func `Operations that are queued for a connection that is refused fail with the reason`() async throws {
    let connection = TCPConnection(to: .address(try unusedAddress()))
    let pending = connection.enqueueRead(.exactly(1))
    await expectError(.connectionRefused) { try await connection.write([1]) }
    await expectError(.connectionRefused) { _ = try await pending.value }
    await expectError(.connectionRefused) { _ = try await connection.read() }
    await expectError(.connectionRefused) { try await connection.peerFinishedWriting() }
    let report = try await connection.closed
    guard case .error(let error) = report.reason else { Issue.record("closed \(report.reason)"); return }
    #expect(error.code == .connectionRefused)
    await connection.close()
    await connection.abort()
  }

  @Test func `A connection may be closed after what waits for it`() async throws {
    let listener = try RawSocket.listening()
    let connection = TCPConnection(to: .address(try listener.address))
    _ = connection.enqueueWrite(Array("hello".utf8))
    let closing = Task.immediate { await connection.close(after: .pendingWrites) }
    let peer = try await listener.accept()
    #expect(try await peer.receiveToEnd() == Array("hello".utf8))
    peer.close()
    await closing.value
  }

  @Test func `However many operations wait for a connection that is refused, each hears why`() async throws {
    let connection = TCPConnection(to: .address(try unusedAddress()))
    let reads = (0..<200).map { _ in connection.enqueueRead(.exactly(1)) }
    let writes = (0..<200).map { _ in connection.enqueueWrite([1]) }
    for read in reads { await expectError(.connectionRefused) { _ = try await read.value } }
    for write in writes { await expectError(.connectionRefused) { try await write.value } }
  }

  @Test(arguments: [true, false])
  func `A peer that finishes before the reactor knows of the connection is noticed`(closes: Bool) async throws {
    let reactor = Reactor()
    let listener = try RawSocket.listening()
    let endpoint = Endpoint.address(try listener.address)
    let configuration = TCPConnection.Configuration { $0.closesOnEndOfStream = closes }
    let peers = Notes<RawSocket>()
    // All in one turn of the reactor, so that the connection and its end are one event.
    let connection = await Task(executorPreference: reactor) {
      let connection = TCPConnection(to: endpoint, configuration: configuration, reactor: reactor)
      reactor.submit {
        guard let peer = try? listener.acceptNow() else { return }
        peer.finishWriting()
        peers.add(peer)
      }
      return connection
    }.value
    try await connection.peerFinishedWriting()
    #expect(peers.all.count == 1)
    if closes {
      guard case .remote = try await connection.closed.reason else { Issue.record("not by the peer"); return }
    } else {
      #expect(await connection.state == .open)
    }
  }

  @Test func `Closing after the writes has its timeout though it began before the connection was up`() async throws {
    let time = ManualTime()
    let listener = try RawSocket.listening()
    let endpoint = Endpoint.address(try listener.address)
    let bytes = pattern(16 * tooMuch)
    // All in one turn of the reactor: the connection is up only after it.
    let (connection, writing, closing) = await Task(executorPreference: time.reactor) {
      let connection = TCPConnection(to: endpoint, reactor: time.reactor)
      let writing = connection.enqueueWrite(bytes)
      let closing = Task.immediate { await connection.close(after: .pendingWrites) }
      return (connection, writing, closing)
    }.value
    let peer = try await listener.accept()
    try await eventually("a part is sent") { await connection.metrics.bytesSent > 0 }
    #expect(await connection.state == .closing)
    await time.advance(by: .seconds(30) - .nanoseconds(1))
    #expect(await connection.state == .closing)
    await time.advance(by: .nanoseconds(1))
    await closing.value
    await expectError(.closed) { try await writing.value }
    guard case .timedOut = try await connection.closed.reason else { Issue.record("not timed out"); return }
    peer.close()
  }

  @Test func `Dropped while they connect, connections leave no deadline behind`() async throws {
    let hole = try BlackHole()
    let reactor = Reactor()
    let patient = TCPConnection.Configuration { $0.connectTimeout = .seconds(Int64.max) }
    func armed() async -> Int { await Task(executorPreference: reactor) { reactor.loop.deadlines.count }.value }
    do {
      let connections = (0..<100).map { number in
        TCPConnection(to: hole.endpoint, configuration: number % 2 == 0 ? patient : .init(), reactor: reactor)
      }
      for connection in connections { #expect(await connection.state == .connecting) }
      #expect(await armed() == 100)
      withExtendedLifetime((hole, connections)) {}
    }
    try await eventually("none is armed") { await armed() == 0 }
  }
}
