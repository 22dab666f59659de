import ActorSockets
import ActorSocketsTesting
import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite(.endsInTime) struct ListenerTests {
  @Test func `Calls get the connections in the order in which they were made`() async throws {
    let listener = try TCPListener.onLoopback()
    let calls = (0..<20).map { _ in Task.immediate { try await listener.accept() } }
    var clients: [RawSocket] = []
    for call in calls {
      let client = try RawSocket.connected(to: listener.address)
      clients.append(client)
      #expect(try await call.value.remoteAddress == client.address)
    }
  }

  @Test func `The backlog is accepted in the order of its arrival`() async throws {
    let listener = try TCPListener.onLoopback()
    let clients = try (0..<20).map { _ in try RawSocket.connected(to: listener.address) }
    for client in clients { #expect(try await listener.accept().remoteAddress == client.address) }
  }

  @Test func `A connection that would have been a cancelled call's goes to the next`() async throws {
    let listener = try TCPListener.onLoopback()
    let cancelled = Task.immediate { _ = try await listener.accept() }
    let next = Task.immediate { try await listener.accept() }
    cancelled.cancel()
    await expectCancellation { try await cancelled.value }
    let client = try RawSocket.connected(to: listener.address)
    #expect(try await next.value.remoteAddress == client.address)
    let late = Task {
      try await eventually("cancelled") { Task.isCancelled }
      _ = try await listener.accept()
    }
    late.cancel()
    await expectCancellation { try await late.value }
  }

  @Test(arguments: [1, 2, 3] as [UInt64])
  func `Calls cancelled at any moment lose no connection`(seed: UInt64) async throws {
    var random = SeededRandom(seed: seed)
    let listener = try TCPListener.onLoopback()
    let connecting = Task.detached { try (0..<300).map { _ in try RawSocket.connected(to: listener.address) } }
    var accepted: [TCPConnection] = []
    while accepted.count < 300 {
      let call = Task.immediate { try await listener.accept() }
      if Bool.random(using: &random) {
        for _ in 0..<Int.random(in: 0..<4, using: &random) { await Task.yield() }
        call.cancel()
      }
      do { accepted.append(try await call.value) } catch is CancellationError {}
    }
    let clients = try await connecting.value
    #expect(try accepted.map(\.remoteAddress) == clients.map { try $0.address }, "seed \(seed)")
  }

  @Test func `The sequence of connections ends when the listener is closed`() async throws {
    let listener = try TCPListener.onLoopback()
    let count = Notes<TCPConnection>()
    let iterating = Task.immediate { for try await connection in listener.connections { count.add(connection) } }
    let clients = try (0..<5).map { _ in try RawSocket.connected(to: listener.address) }
    try await eventually("five are there") { count.all.count == 5 }
    await listener.close()
    try await iterating.value
    try clients[0].send("still")
    #expect(try await count.all[0].read(exactly: 5) == Array("still".utf8))
  }

  @Test func `Closing fails the calls that wait and those to come, and resets the backlog`() async throws {
    let listener = try TCPListener.onLoopback()
    let calls = (0..<5).map { _ in Task.immediate { _ = try await listener.accept() } }
    await listener.close()
    for call in calls { await expectError(.closed) { try await call.value } }
    await expectError(.closed) { _ = try await listener.accept() }
    await listener.close()
    #expect(throws: SystemError.self) { try RawSocket.connected(to: listener.address) }
    let busy = try TCPListener.onLoopback()
    let client = try RawSocket.connected(to: busy.address)
    await busy.close()
    await #expect(throws: SystemError.self) { try await client.receive() }
  }

  @Test func `Dropping the last reference closes`() async throws {
    func used() async throws -> SocketAddress {
      let listener = try TCPListener.onLoopback()
      let client = try await TCPConnection.connect(to: listener.endpoint)
      let server = try await listener.accept()
      try await client.write([1])
      _ = try await server.read()
      return listener.address
    }
    let address = try await used()
    try await eventually("nobody listens") { (try? RawSocket.connected(to: address)) == nil }
  }

  @Test func `Every address of both families can be listened on at once`() async throws {
    let listener = try TCPListener.bind(to: .port(0))
    let port = try #require(listener.address.port)
    for target in [SocketAddress.ipv4(.loopback, port: port), .ipv6(.loopback, port: port)] {
      let client = try RawSocket.connected(to: target)
      let server = try await listener.accept()
      #expect(server.remoteAddress == (try client.address))
      #expect(server.isIPv4 == target.isIPv4 && server.isIPv6 == target.isIPv6)
    }
    let six = try TCPListener.bind(to: .port(0), configuration: .init { $0.ipv6Only = true })
    let sixPort = try #require(six.address.port)
    // Either no socket listens there, or that of another program.
    _ = try? RawSocket.connected(to: .ipv4(.loopback, port: sixPort))
    let client = try RawSocket.connected(to: .ipv6(.loopback, port: sixPort))
    #expect(try await six.accept().remoteAddress == client.address)
  }

  @Test(arguments: 1...20)
  func `Localhost is both families on one port`(round: Int) async throws {
    let listener = try TCPListener.bind(to: .host("localhost", port: 0))
    #expect(listener.localAddresses.count == 2)
    #expect(Set(listener.localAddresses.map(\.port)).count == 1)
    for address in listener.localAddresses {
      let waiting = Task.immediate { try await listener.accept() }
      let client = try RawSocket.connected(to: address)
      #expect(try await waiting.value.remoteAddress == client.address)
    }
  }

  @Test func `An address in use is refused by name`() async throws {
    let listener = try TCPListener.onLoopback()
    let error = await expectError(.addressInUse) { _ = try TCPListener.bind(to: listener.endpoint) }
    #expect(error.address == listener.address && error.description.contains("\(listener.address)"))
    await expectError(.addressNotAvailable) { _ = try TCPListener.bind(to: .host("192.0.2.1", port: 0)) }
    await expectError(.hostNotFound) { _ = try TCPListener.bind(to: .host("no-such-interface", port: 0)) }
    await expectError(.invalidArgument) { _ = try TCPListener.bind(to: .unix(path: "")) }
  }

  @Test func `A port is bound again while connections of before are in TIME_WAIT`() async throws {
    var listener = try TCPListener.onLoopback()
    let address = listener.address
    for _ in 0..<3 {
      let client = try RawSocket.connected(to: address)
      let server = try await listener.accept()
      // This side finishes first, so this side keeps the TIME_WAIT.
      let closing = Task.immediate { await server.close() }
      #expect(try await client.receiveToEnd() == [])
      client.close()
      await closing.value
      await listener.close()
      listener = try TCPListener.bind(to: .address(address))
    }
  }

  @Test func `A connection that was reset in the backlog does no harm`() async throws {
    let listener = try TCPListener.onLoopback()
    for _ in 0..<10 { try RawSocket.connected(to: listener.address).reset() }
    let client = try RawSocket.connected(to: listener.address)
    try client.send("alive")
    while true {
      let connection = try await listener.accept()
      if let bytes = try? await connection.read(exactly: 5) {
        #expect(bytes == Array("alive".utf8))
        break
      }
    }
  }

  @Test func `A connection that was reset in the backlog is accepted, and its first read says so`() async throws {
    let listener = try TCPListener.onLoopback()
    let addresses = try (0..<10).map { _ in
      let client = try RawSocket.connected(to: listener.address)
      defer { client.reset() }
      return try client.address
    }
    for address in addresses {
      let connection = try await listener.accept()
      #expect(connection.remoteAddress == address)
      await expectError(.connectionReset) { _ = try await connection.read() }
    }
  }

  @Test func `An unix socket is listened on, and its file removed`() async throws {
    let path = "/tmp/actorsockets-\(getpid())-\(UInt64.random(in: 0 ... .max)).socket"
    for endpoint in [Endpoint.unix(path: path), .unix(path: "@" + path)] {
      let listener = try TCPListener.bind(to: endpoint)
      await expectError(.addressInUse) { _ = try TCPListener.bind(to: endpoint) }
      let client = try await TCPConnection.connect(to: endpoint)
      let server = try await listener.accept()
      async let written: Void = client.write(pattern(300_000))
      #expect(try await server.read(exactly: 300_000) == pattern(300_000))
      try await written
      try await server.finishWriting()
      #expect(try await client.read() == nil)
      await client.close()
      #expect(try await server.read() == nil)
      await server.close()
      await listener.close()
    }
    // SAFETY: the path ends with a NUL for the call.
    #expect(unsafe access(path, F_OK) == -1)
  }

  @Test func `Without descriptors accepting backs off, and goes on when one is closed here or time has passed`() async {
    await #expect(processExitsWith: .success) {
      try await within("all are accepted") {
        let time = ManualTime()
        let listener = try TCPListener.onLoopback(on: time.reactor)
        let victim = try await TCPConnection.connect(to: listener.endpoint, reactor: time.reactor)
        let spare = try await listener.accept()
        let clients = try (0..<3).map { _ in try RawSocket.connected(to: listener.address) }
        setDescriptorLimit(100)
        var fillers: [Int32] = []
        while case let filler = dup(2), filler >= 0 { fillers.append(filler) }
        await expectConnectError(.tooManyOpenFiles, to: listener.endpoint, reactor: time.reactor)
        let first = Task.immediate { try await listener.accept() }
        let second = Task.immediate { try await listener.accept() }
        let third = Task.immediate { try await listener.accept() }
        await time.advance(by: .seconds(100))

        // A descriptor of the reactor is closed: no time passes.
        await victim.abort()
        #expect(try await first.value.remoteAddress == clients[0].address)
        // One of somebody else's: the next try finds it, a second later at most.
        close(fillers.removeFirst())
        await time.advance(by: .seconds(1))
        #expect(try await second.value.remoteAddress == clients[1].address)
        // The back-off itself makes no work.
        let before = time.reactor.metrics.polls
        await time.advance(by: .seconds(30))
        #expect(time.reactor.metrics.polls - before < 10)
        for filler in fillers { close(filler) }
        await time.advance(by: .seconds(1))
        #expect(try await third.value.remoteAddress == clients[2].address)
        await spare.abort()
      }
    }
  }

  @Test(arguments: [0, 1])
  func `A flood on one address does not shut out another`(flooded: Int) async throws {
    let listener = try TCPListener.bind(to: .host("localhost", port: 0))
    let addresses = listener.localAddresses
    try #require(addresses.count == 2)
    let flood = try (0..<20).map { _ in try RawSocket.connected(to: addresses[flooded]) }
    let lonely = try RawSocket.connected(to: addresses[1 - flooded])
    let first = [try await listener.accept().remoteAddress, try await listener.accept().remoteAddress]
    #expect(first.contains(try lonely.address))
    for client in flood { client.close() }
  }

  @Test func `Thousands of calls can be cancelled one after the other`() async throws {
    // The last first, so that the others would be looked at for each.
    let listener = try TCPListener.onLoopback()
    let calls = (0..<5000).map { _ in Task.immediate { _ = try await listener.accept() } }
    for call in calls.reversed() { call.cancel() }
    for call in calls { await expectCancellation { try await call.value } }
    let client = try RawSocket.connected(to: listener.address)
    #expect(try await listener.accept().remoteAddress == client.address)
  }
}
