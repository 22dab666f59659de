import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// What a server in production needs: a limit for each peer, places for handlers, several reactors, and an end that loses
/// nothing.
@Suite(.endsInTime) struct ServerTests {
  private func bind(_ reactor: Reactor = .shared) throws -> (TCPListener, SocketAddress) {
    let listener = try TCPListener.bind(to: .address(.ipv4(.any, port: 0)), reactor: reactor)
    let port = try #require(listener.localAddresses.first?.port)
    return (listener, .ipv4(.loopback, port: port))
  }

  private func from(_ host: String) -> TCPConnection.Configuration { .init { $0.source = .host(host, port: 0) } }

  @Test func `A peer has no more connections than its limit, and other peers are not affected`() async throws {
    let (listener, address) = try bind()
    let serving = Task {
      try await listener.serve(.init(limits: ServeLimits(connectionsPerPeer: 2))) { connection in
        for try await chunk in connection.chunks { try await connection.write(chunk) }
      }
    }
    func echoes(from host: String) async throws -> TCPConnection? {
      do {
        let connection = try await TCPConnection.connect(to: .address(address), configuration: from(host))
        try await connection.write([1])
        return try await connection.read(upTo: 1) == nil ? nil : connection
      } catch let error as SocketError where error.code == .connectionReset {
        return nil
      }
    }
    var kept: [TCPConnection] = []
    for host in ["127.0.0.2", "127.0.0.3"] {
      for _ in 0..<2 { kept.append(try #require(try await echoes(from: host))) }
      for _ in 0..<3 { #expect(try await echoes(from: host) == nil) }
    }
    // A place is free again when a connection has gone.
    await kept.removeFirst().close()
    try await eventually("there is a place again") {
      guard let connection = try await echoes(from: "127.0.0.2") else { return false }
      kept.append(connection)
      return true
    }
    for connection in kept { await connection.close() }
    let report = try await serving.stop()
    #expect(report.accepted == 5 && report.finished == 5 && report.refused >= 6)
  }

  @Test func `Limits that make no sense are refused`() async throws {
    let (listener, _) = try bind()
    await expectError(.invalidArgument) {
      try await listener.serve(.init(limits: .init(connectionsPerPeer: 0))) { _ in }
    }
    for count in [0, -1, 257] {
      await expectError(.invalidArgument) { try await listener.serve(.init(reactors: count)) { _ in } }
    }
  }

  @Test func `Where a handler runs may depend on its peer`() async throws {
    let (listener, address) = try bind()
    let serving = Task {
      try await listener.serve(
        .init(
          on: .chosen { connection in
            connection.remoteAddress?.description.hasPrefix("127.0.0.2:") == true ? connection.executor.reactor : nil
          })
      ) { connection in
        try await connection.write(utf8: connection.executor.reactor.loop.isCurrent ? "reactor" : "pool")
      }
    }
    for (host, expected) in [("127.0.0.2", "reactor"), ("127.0.0.3", "pool")] {
      for _ in 0..<20 {
        let connection = try await TCPConnection.connect(to: .address(address), configuration: from(host))
        #expect(try await connection.read(exactly: expected.utf8.count) == Array(expected.utf8))
        await connection.close()
      }
    }
    #expect(try await serving.stop().finished == 40)
  }

  @Test(arguments: [HandlerExecutor.pool, .reactor])
  func `Several reactors share the connections evenly`(place: HandlerExecutor) async throws {
    let (listener, address) = try bind()
    let seen = Locked<[ObjectIdentifier: Int]>([:])
    let serving = Task {
      try await listener.serve(.init(limits: .init(connections: 50), on: place, reactors: 3)) { connection in
        seen.withLock { $0[ObjectIdentifier(connection.executor.reactor), default: 0] += 1 }
        for try await chunk in connection.chunks { try await connection.write(chunk) }
      }
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<90 {
        group.addTask {
          let client = try await TCPConnection.connect(to: .address(address))
          let bytes = pattern(100_000, from: number)
          async let writing: Void = client.write(bytes)
          #expect(try await client.read(exactly: bytes.count) == bytes)
          try await writing
          await client.close()
        }
      }
      try await group.waitForAll()
    }
    let report = try await serving.stop()
    #expect(report.accepted == 90 && report.finished == 90)
    #expect(seen.withLock { $0.values.sorted() } == [30, 30, 30])
  }

  @Test func `Several listeners may share a port, if all of them say so`() async throws {
    let configuration = TCPListener.Configuration { $0.reusePort = true }
    let first = try TCPListener.onLoopback(configuration)
    let endpoint = first.endpoint
    let second = try TCPListener.bind(to: endpoint, configuration: configuration, reactor: Reactor())
    await expectError(.addressInUse) { _ = try TCPListener.bind(to: endpoint) }
    let servers = [first, second].map { listener in Task { try await listener.serve { _ in } } }
    for _ in 0..<100 { _ = try await RawSocket.connected(to: first.address).receiveToEnd() }
    for server in servers { server.cancel() }
    var accepted: [Int] = []
    for server in servers { accepted.append(try await server.value.accepted) }
    #expect(accepted.reduce(0, +) == 100 && !accepted.contains(0), "\(accepted)")
  }

  @Test func `The reactors of a server go with it`() async {
    await #expect(processExitsWith: .success) {
      try await expectNoDescriptors {
        let listener = try TCPListener.onLoopback()
        try await eventually("it listens") { (try? await listener.get(.reuseAddress)) != nil }
        let before = openDescriptors()
        let serving = Task { try await listener.serve(.init(reactors: 4)) { _ in } }
        for _ in 0..<8 { _ = try await RawSocket.connected(to: listener.address).receiveToEnd() }
        #expect(openDescriptors() >= before + 6)
        #expect(try await serving.stop().finished == 8)
      }
    }
  }

  @Test func `A drain serves the connections that wait in the kernel`() async throws {
    let reactor = Reactor()
    let (listener, address) = try bind(reactor)
    let first = Gate()
    let serving = Task {
      try await listener.serve(.init(limits: .init(connections: 9))) { connection in
        first.open()
        let line = try await connection.read(until: .lf)
        // A connection that was accepted just before the drain began hears of the drain a moment later.
        try await eventually("the connection is told of the drain") { connection.isDraining }
        try await connection.write(line)
      }
    }
    let busy = try RawSocket.connected(to: address)
    await first.wait()
    // The listener accepts these only after the drain has begun.
    let clients = try await reactor.whileBlocked {
      defer { serving.cancel() }
      let clients = try (0..<20).map { _ in try RawSocket.connected(to: address) }
      for client in clients { try client.send("hello\n") }
      return clients
    }
    try busy.send("bye\n")
    #expect(try await busy.receive(exactly: 4) == Array("bye\n".utf8))
    busy.close()
    for client in clients {
      #expect(try await client.receiveToEnd() == Array("hello\n".utf8))
      client.close()
    }
    let report = try await serving.value
    #expect(report.accepted == 21 && report.finished == 21)
  }

  @Test(.endsInTime(seconds: 120), arguments: [HandlerExecutor.pool, .reactor], [1, 2])
  func `A drain under load loses no request that was accepted`(place: HandlerExecutor, reactors: Int)
    async throws
  {
    for round in 0..<5 {
      let (listener, address) = try bind()
      let served = Locked(0)
      let serving = Task {
        try await listener.serve(.init(on: place, reactors: reactors)) { connection in
          while let line = try await lineOrEnd(of: connection) {
            try await connection.write(line)
            served.withLock { $0 += 1 }
            if connection.isDraining { return }
          }
        }
      }
      let answers = Locked(0)
      let isUnderLoad = Gate()
      let clients = (0..<8).map { number in
        Task {
          while true {
            guard let client = try? await TCPConnection.connect(to: .address(address)) else { return }
            for request in 0..<(1 + number) {
              do {
                try await client.write(utf8: "request \(request)\n")
                guard try await lineOrEnd(of: client) == Array("request \(request)\n".utf8) else { break }
              } catch is SocketError {
                break
              }
              let count = answers.withLock { answers in
                answers += 1
                return answers
              }
              if count == 200 + 20 * round { isUnderLoad.open() }
            }
            await client.close()
          }
        }
      }
      await isUnderLoad.wait()
      let report = try await serving.stop()
      for client in clients { try await client.value }
      #expect(report.accepted == report.finished && report.failed == 0 && report.aborted == 0, "\(report)")
      #expect(answers.withLock { $0 } == served.withLock { $0 })
    }
  }
}

/// The next line, or `nil` at the end.
private func lineOrEnd(of connection: TCPConnection) async throws -> [UInt8]? {
  do {
    return try await connection.read(until: .lf)
  } catch let error as SocketError where error.code == .endOfStream && error.bytesTransferred == 0 {
    return nil
  }
}
