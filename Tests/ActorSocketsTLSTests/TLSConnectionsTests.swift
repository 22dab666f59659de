import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets
@testable import ActorSocketsTLS

/// The sequence of accepted connections that are delivered after their handshakes.
@Suite(.endsInTime) struct TLSConnectionsTests {
  private func bind(_ reactor: Reactor = .shared) throws -> (TCPListener, SocketAddress) {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0), reactor: reactor)
    return (listener, listener.localAddresses[0])
  }

  private func connect(_ address: SocketAddress, _ context: TLSContext? = nil) async throws -> TLSConnection {
    try await TLSConnection.connect(
      to: .address(address), context: context ?? Contexts.client(), serverName: "server.test")
  }

  /// A peer that sends nothing, after its handshake was begun.
  private func silentPeer(_ address: SocketAddress, _ connections: TLSConnections) async throws -> RawSocket {
    let count = await connections.handshakes
    let peer = try RawSocket.connected(to: address)
    try await eventually("its handshake has begun") { await connections.handshakes == count + 1 }
    return peer
  }

  @Test(arguments: TLSVersion.both)
  func `Peers that say nothing hold up no other`(version: TLSVersion) async throws {
    let (listener, address) = try bind()
    let connections = listener.connections(tls: try Contexts.server(version))
    let accepting = Task { try await connections.next() }
    var silent: [RawSocket] = []
    for _ in 0..<3 { silent.append(try await silentPeer(address, connections)) }
    let client = try await connect(address)
    let server = try #require(try await accepting.value)
    try await client.write([1, 2, 3])
    #expect(try await server.read(exactly: 3) == [1, 2, 3])
    await client.close()
    await server.close()
    await listener.close()
  }

  @Test func `Many clients are delivered in one loop, each once`() async throws {
    let (listener, address) = try bind()
    let context = try Contexts.server()
    let clientContext = try Contexts.client()
    let served = Notes<UInt64>()
    let serving = Task {
      try await withThrowingTaskGroup(of: Void.self) { group in
        for try await connection in listener.connections(tls: context, handshakeLimit: 4) {
          served.add(connection.id)
          group.addTask {
            try await connection.echo()
            await connection.close()
          }
        }
        try await group.waitForAll()
      }
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<40 as Range<UInt8> {
        group.addTask {
          let client = try await connect(address, clientContext)
          try await client.write([number])
          #expect(try await client.read(exactly: 1) == [number])
          await client.close()
        }
      }
      try await group.waitForAll()
    }
    await listener.close()
    try await serving.value
    #expect(Set(served.all).count == 40 && served.all.count == 40)
  }

  @Test func `At the limit connections wait in the kernel until a handshake ends`() async throws {
    let (listener, address) = try bind()
    let connections = listener.connections(tls: try Contexts.server(), handshakeLimit: 2) { _ in }
    let accepting = Task { try await connections.next() }
    let silent = [try await silentPeer(address, connections), try await silentPeer(address, connections)]
    async let client = connect(address)
    try await eventually("the client waits") { await listener.waitingConnections().reduce(0, +) == 1 }
    #expect(await connections.handshakes == 2)
    silent[0].close()
    let server = try #require(try await accepting.value)
    await server.close()
    await (try client).close()
    await listener.close()
  }

  @Test func `While no call waits, connections wait in the kernel`() async throws {
    let reactor = Reactor()
    let (listener, address) = try bind(reactor)
    let connections = listener.connections(tls: try Contexts.server())
    for _ in 0..<3 {
      let accepting = Task { try await connections.next() }
      let client = try await connect(address)
      let server = try #require(try await accepting.value)
      // An accept that is still being cancelled would take the connection.
      try await eventually("no call accepts") { await !listener.isAccepting }
      let waiting = try RawSocket.connected(to: address)
      // The kernel has announced it.
      try await reactor.sleeps()
      #expect(await listener.waitingConnections() == [1])
      #expect(await connections.handshakes == 0)
      await server.close()
      await client.close()
      try await listener.accept().abort()
      waiting.close()
    }
    await listener.close()
  }

  @Test func `A handshake that fails is heard of, and the loop goes on`() async throws {
    let (listener, address) = try bind()
    let failures = Notes<(Bool, TLSError.Code?)>()
    let connections = listener.connections(tls: try Contexts.server()) { failure in
      failures.add((failure.connection.remoteAddress != nil, (failure.error as? TLSError)?.code))
    }
    let accepting = Task { try await connections.next() }
    let plain = try RawSocket.connected(to: address)
    try plain.send("GET / HTTP/1.0\r\n\r\n")
    _ = try? await plain.receiveToEnd()
    try await eventually("it has failed") { failures.all.count == 1 }
    #expect(failures.all[0] == (true, .notTLS))
    #expect(await connections.handshakes == 0)
    let client = try await connect(address)
    #expect(try await accepting.value != nil)
    #expect(failures.all.count == 1)
    await client.close()
    await listener.close()
  }

  @Test func `Cancelling the loop ends the running handshakes, and reports no failures`() async throws {
    let (listener, address) = try bind()
    let failures = Notes<any Error>()
    let connections = listener.connections(tls: try Contexts.server()) { failures.add($0.error) }
    let accepting = Task { try await connections.next() }
    let silent = [try await silentPeer(address, connections), try await silentPeer(address, connections)]
    accepting.cancel()
    await #expect(throws: CancellationError.self) { try await accepting.value }
    for peer in silent { await #expect(throws: SystemError.self) { try await peer.receive() } }
    #expect(failures.all.isEmpty)
    #expect(await connections.handshakes == 0)
    // Another loop begins anew.
    async let client = connect(address)
    #expect(try await connections.next() != nil)
    await (try client).close()
    await listener.close()
  }

  @Test func `A cancelled call leaves the handshakes to another one that waits`() async throws {
    let (listener, address) = try bind()
    let connections = listener.connections(tls: try Contexts.server())
    let cancelled = Task.immediate { try await connections.next() }
    let waiting = Task.immediate { try await connections.next() }
    let silent = try await silentPeer(address, connections)
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { try await cancelled.value }
    #expect(await connections.handshakes == 1)
    let client = try await connect(address)
    #expect(try await waiting.value != nil)
    silent.close()
    await client.close()
    await listener.close()
  }

  @Test func `Two calls get a connection each`() async throws {
    let (listener, address) = try bind()
    let connections = listener.connections(tls: try Contexts.server())
    async let one = connections.next()
    async let other = connections.next()
    let clients = [try await connect(address), try await connect(address)]
    let ids = [try await one?.id, try await other?.id]
    #expect(Set(ids).count == 2 && !ids.contains(nil))
    for client in clients { await client.close() }
    await listener.close()
  }

  @Test(arguments: [false, true])
  func `A call times out, and the handshake goes on for the next loop`(isDeadline: Bool) async throws {
    let time = ManualTime()
    let (listener, address) = try bind(time.reactor)
    let connections = listener.connections(
      tls: try Contexts.server(), timeout: isDeadline ? .until(time.now + .seconds(5)) : .seconds(5))
    let accepting = Task { try await connections.next() }
    let peer = try await silentPeer(address, connections)
    await time.advance(by: .seconds(5))
    await expectError(.timedOut) { _ = try await accepting.value }
    #expect(await connections.handshakes == 1)
    let client = try RawPeer(Contexts.client(), .client(serverName: "server.test"), on: peer)
    try await client.handshake()
    // The deadline has passed, but the connection is there.
    try await eventually("it is delivered") { try await deliversOrTimesOut(connections) }
    client.socket.close()
    await listener.close()
  }

  private func deliversOrTimesOut(_ connections: TLSConnections) async throws -> Bool {
    do {
      return try await connections.next() != nil
    } catch let error as SocketError where error.code == .timedOut {
      return false
    }
  }

  @Test func `Without time, handshakes begin, and connections that are ready are delivered`() async throws {
    let (listener, address) = try bind()
    let connections = listener.connections(tls: try Contexts.server(), timeout: .zero)
    await expectError(.timedOut) { _ = try await connections.next() }
    async let client = connect(address)
    try await eventually("it is delivered") { try await deliversOrTimesOut(connections) }
    await (try client).close()
    await listener.close()
    #expect(try await connections.next() == nil)
  }

  @Test func `When the listener is closed, handshakes that have begun are delivered, then the loop ends`() async throws
  {
    let (listener, address) = try bind()
    let connections = listener.connections(tls: try Contexts.server())
    let served = Notes<TLSConnection>()
    let serving = Task { for try await connection in connections { served.add(connection) } }
    let socket = try await silentPeer(address, connections)
    await listener.close()
    let client = try RawPeer(Contexts.client(), .client(serverName: "server.test"), on: socket)
    try await client.handshake()
    try await serving.value
    #expect(served.all.count == 1)
    #expect(try await connections.next() == nil)
    socket.close()
  }

  @Test func `When the listener is closed while the limit is reached, the loop ends after the last handshake`()
    async throws
  {
    let (listener, address) = try bind()
    let connections = listener.connections(tls: try Contexts.server(), handshakeLimit: 1) { _ in }
    let accepting = Task { try await connections.next() }
    let silent = try await silentPeer(address, connections)
    await listener.close()
    silent.close()
    #expect(try await accepting.value == nil)
  }

  @Test func `Dropping the sequence resets what was not delivered`() async throws {
    let (listener, address) = try bind()
    let (silent, done) = (try RawSocket.connected(to: address), try RawSocket.connected(to: address))
    let client = try RawPeer(Contexts.client(), .client(serverName: "server.test"), on: done)
    do {
      let connections = listener.connections(tls: try Contexts.server(), timeout: .zero) { _ in
        Issue.record("a handshake that was given up did not fail")
      }
      try await eventually("both handshakes have begun") {
        await expectError(.timedOut) { _ = try await connections.next() }
        return await connections.handshakes == 2
      }
      try await client.handshake()
      try await eventually("one is done") { await connections.handshakes == 1 }
    }
    await #expect(throws: SystemError.self) { try await silent.receive() }
    await #expect(throws: SystemError.self) { while try await !done.receive().isEmpty {} }
    await listener.close()
  }

  @Test func `A listener that breaks ends the loop with its error`() async throws {
    let reactor = Reactor()
    let (listener, _) = try bind(reactor)
    let connections = listener.connections(tls: try Contexts.server())
    let accepting = Task.immediate { try await connections.next() }
    reactor.shutdown()
    await expectError(.reactorShutDown) { _ = try await accepting.value }
    await expectError(.reactorShutDown) { _ = try await connections.next() }
  }

  @Test func `A limit below 1 is an error`() async throws {
    let (listener, _) = try bind()
    let connections = listener.connections(tls: try Contexts.server(), handshakeLimit: 0)
    await expectError(.invalidArgument) { _ = try await connections.next() }
    await listener.close()
  }
}

extension TCPListener {
  fileprivate var isAccepting: Bool { !waiters.isEmpty }
}
