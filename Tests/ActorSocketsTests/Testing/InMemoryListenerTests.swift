import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite struct InMemoryListenerTests {
  private func listener(backlog: Int = 4096, on reactor: Reactor = .shared) -> InMemoryListener {
    var configuration = InMemoryListener.Configuration()
    configuration.backlog = backlog
    return InMemoryListener(at: .ipv4(.loopback, port: 7), configuration: configuration, reactor: reactor)
  }

  private func address(_ number: UInt16) -> SocketAddress { .ipv4(.loopback, port: number) }

  @Test func `Connections are accepted in the order of the calls that made them, before and after`() async throws {
    try await within("all are accepted") {
      let listener = listener()
      for number in 1...40 as ClosedRange<UInt16> { _ = try await listener.connect(from: address(number)) }
      for number in 1...40 as ClosedRange<UInt16> {
        #expect(try await listener.accept().remoteAddress == address(number))
      }
      let calls = (0..<20).map { _ in Task.immediate { try await listener.accept() } }
      for (number, call) in zip(1...20 as ClosedRange<UInt16>, calls) {
        let client = try await listener.connect(from: address(number))
        let server = try await call.value
        #expect(server.remoteAddress == address(number) && server.localAddress == address(7))
        #expect(client.remoteAddress == address(7) && client.localAddress == address(number))
      }
    }
  }

  @Test func `A client's calls before it is accepted reach the server`() async throws {
    try await within("all is received") {
      let listener = listener()
      let writing = try await listener.connect()
      try await writing.write(utf8: "early\n")
      let finished = try await listener.connect()
      try await finished.write(utf8: "all")
      try await finished.finishWriting()
      let closed = try await listener.connect()
      try await closed.write(utf8: "bye")
      await closed.close()
      let aborted = try await listener.connect()
      try await aborted.write(utf8: "oh")
      await aborted.abort()

      let first = try await listener.accept()
      #expect(first.remoteAddress == nil)
      #expect(try await first.read(until: .lf) == Array("early\n".utf8))
      try await first.write(utf8: "answer")
      #expect(try await writing.read(exactly: 6) == Array("answer".utf8))
      let second = try await listener.accept()
      try await second.peerFinishedWriting()
      #expect(try await second.readToEnd() == Array("all".utf8))
      try await second.write(utf8: "late")
      #expect(try await finished.read(exactly: 4) == Array("late".utf8))
      let third = try await listener.accept()
      #expect(try await third.readToEnd() == Array("bye".utf8))
      await expectError(.connectionReset) { try await third.write([1]) }
      let fourth = try await listener.accept()
      #expect(try await fourth.read(exactly: 2) == Array("oh".utf8))
      await expectError(.connectionReset) { _ = try await fourth.read() }

      // Without any call, too, the servers' ends know what their clients have done.
      for aborts in [true, false] {
        let client = try await listener.connect()
        if aborts { await client.abort() } else { try await client.finishWriting() }
        let server = try await listener.accept()
        try await eventually("the server knows") { server.hasPeerFinished }
        #expect(await server.state == (aborts ? .closed : .open))
      }
    }
  }

  @Test func `A client in the backlog can send as much as the connection holds`() async throws {
    try await within("the write ends") {
      var configuration = InMemoryListener.Configuration()
      configuration.connection.capacity = 10
      let listener = InMemoryListener(configuration: configuration)
      #expect(listener.localAddresses == [])
      let client = try await listener.connect()
      try await client.write(pattern(10))
      await expectError(.timedOut) { try await client.write([10], timeout: .zero) }
      let server = try await listener.accept()
      #expect(try await server.read(exactly: 10) == pattern(10))
    }
  }

  // MARK: The limit of the backlog

  @Test func `Calls that connect wait while the backlog is full, and go on in their order`() async throws {
    try await within("all are accepted") {
      let time = ManualTime()
      let listener = listener(backlog: 2, on: time.reactor)
      for number in 1...2 as ClosedRange<UInt16> { _ = try await listener.connect(from: address(number)) }
      await expectError(.timedOut) { _ = try await listener.connect(timeout: .zero) }
      let notes = Notes<UInt16>()
      let calls = (3...6 as ClosedRange<UInt16>).map { number in
        Task.immediate {
          _ = try await listener.connect(from: address(number))
          notes.add(number)
        }
      }
      await time.advance(by: .seconds(29))
      #expect(notes.all == [])
      for number in 1...6 as ClosedRange<UInt16> {
        #expect(try await listener.accept().remoteAddress == address(number))
      }
      for call in calls { try await call.value }
      #expect(notes.all.sorted() == [3, 4, 5, 6])
      // The timers of calls that have returned do nothing.
      #expect(await listener.timerCount == 0)
      await time.advance(by: .seconds(100))
    }
  }

  @Test func `A call that waits for room times out, is cancelled, or is refused, and its place goes to the next`()
    async throws
  {
    try await within("all calls return") {
      let time = ManualTime()
      let listener = listener(backlog: 1, on: time.reactor)
      _ = try await listener.connect(from: address(1))
      let late = Task.immediate { _ = try await listener.connect(from: address(2)) }
      let cancelled = Task.immediate {
        _ = try await listener.connect(from: address(3), timeout: .within(.seconds(Int.max)))
      }
      let patient = Task.immediate { try await listener.connect(from: address(4), timeout: .within(.seconds(Int.max))) }
      let refused = Task.immediate {
        _ = try await listener.connect(from: address(5), timeout: .within(.seconds(Int.max)))
      }
      await time.advance(by: .seconds(30))
      let error = await expectError(.timedOut) { try await late.value }
      #expect("\(error)" == "connect 127.0.0.1:7: timed out after 30 s")
      cancelled.cancel()
      await expectCancellation { try await cancelled.value }
      #expect(try await listener.accept().remoteAddress == address(1))
      #expect(try await patient.value.localAddress == address(4))
      await listener.close()
      await expectError(.connectionRefused) { try await refused.value }
      let done = Task {
        try await eventually("cancelled") { Task.isCancelled }
        _ = try await listener.connect()
      }
      done.cancel()
      await expectCancellation { try await done.value }
    }
  }

  @Test(arguments: [1, 2, 3] as [UInt64])
  func `Calls cancelled at any moment have one outcome, and no connection is lost`(seed: UInt64) async throws {
    try await within("all are accepted; seed \(seed)") {
      var random = SeededRandom(seed: seed)
      let listener = listener(backlog: 3)
      let accepting = Task {
        var peers: [SocketAddress?] = []
        for try await connection in listener.connections { peers.append(connection.remoteAddress) }
        return peers
      }
      var connected: [SocketAddress?] = []
      for number in 1...300 as ClosedRange<UInt16> {
        let call = Task.immediate { try await listener.connect(from: address(number)) }
        if Bool.random(using: &random) {
          for _ in 0..<Int.random(in: 0..<4, using: &random) { await Task.yield() }
          call.cancel()
        }
        do { connected.append(try await call.value.localAddress) } catch is CancellationError {}
      }
      // This connection is accepted after all others.
      _ = try await listener.connect()
      try await eventually("all are accepted") { await listener.waitingConnections() == [0] }
      await listener.close()
      #expect(try await accepting.value == connected + [nil], "seed \(seed)")
    }
  }

  // MARK: The end

  @Test func `A listener that is closed refuses, and resets its backlog but no accepted connection`() async throws {
    try await within("all calls return") {
      let listener = listener()
      let client = try await listener.connect()
      let server = try await listener.accept()
      let waiting = try await listener.connect()
      try await waiting.write(utf8: "lost")
      await listener.close()
      await expectError(.connectionReset) { _ = try await waiting.read() }
      let error = await expectError(.connectionRefused) { _ = try await listener.connect() }
      #expect(error.address == address(7))
      await expectError(.closed) { _ = try await listener.accept() }
      try await client.write(utf8: "still")
      #expect(try await server.read(exactly: 5) == Array("still".utf8))
    }
  }

  @Test func `Dropping a listener resets its backlog`() async throws {
    try await within("the connection is reset") {
      func connected() async throws -> InMemoryConnection { try await listener().connect() }
      let client = try await connected()
      await expectError(.connectionReset) { _ = try await client.read() }
    }
  }

  @Test func `A reactor that is shut down ends its listeners`() async throws {
    try await within("the calls return") {
      let reactor = Reactor()
      let listener = listener(backlog: 1, on: reactor)
      let accepting = Task.immediate { _ = try await listener.accept() }
      try await eventually("the call waits") { await listener.hasWaiters }
      reactor.shutdown()
      await expectError(.reactorShutDown) { try await accepting.value }
      await expectError(.reactorShutDown) { _ = try await listener.connect() }
      await expectError(.reactorShutDown) { _ = try await InMemoryListener(reactor: reactor).accept() }
    }
  }

  // MARK: Serving

  @Test func `A peer, by the address that it was given, has no more connections than its limit`() async throws {
    try await within("all are answered") {
      let listener = listener()
      let serving = Task {
        try await listener.serve(.init(limits: .init(connectionsPerPeer: 2))) { connection in
          for try await chunk in connection.chunks { try await connection.write(chunk) }
        }
      }
      func echoes(from peer: SocketAddress?) async throws -> InMemoryConnection? {
        let connection = try await listener.connect(from: peer)
        do {
          try await connection.write([1])
          return try await connection.read(upTo: 1) == nil ? nil : connection
        } catch let error as SocketError where error.code == .connectionReset {
          return nil
        }
      }
      var kept: [InMemoryConnection] = []
      let peers = [try SocketAddress(parsing: "10.0.0.1:1"), try SocketAddress(parsing: "10.0.0.2:1")]
      for peer in peers {
        for _ in 0..<2 { kept.append(try #require(try await echoes(from: peer))) }
        for _ in 0..<3 { #expect(try await echoes(from: peer) == nil) }
      }
      // A peer without an address has no limit.
      for _ in 0..<3 { kept.append(try #require(try await echoes(from: nil))) }
      await kept.removeFirst().close()
      try await eventually("there is a place again") {
        guard let connection = try await echoes(from: peers[0]) else { return false }
        kept.append(connection)
        return true
      }
      for connection in kept { await connection.close() }
      serving.cancel()
      let report = try await serving.value
      #expect(report.accepted == 8 && report.finished == 8 && report.refused >= 6, "\(report)")
    }
  }

  private final class Observer: ReactorObserver {
    let events = Notes<String>()
    func connected(_ connection: ObservedConnection) { events.add("connected \(connection.id)") }
    func accepted(_ connection: ObservedConnection) { events.add("accepted \(connection.id)") }
    func connectFailed(_ connection: ObservedConnection, _ error: SocketError) { events.add("failed") }
    func closed(_ connection: ObservedConnection, _ report: CloseReport) { events.add("closed \(connection.id)") }
  }

  @Test func `The observer hears of both ends, and not of a connection that was not accepted`() async throws {
    try await within("the server ends") {
      let (reactor, observer) = (Reactor(), Observer())
      reactor.observer = observer
      let listener = listener(on: reactor)
      let client = try await listener.connect()
      let server = try await listener.accept()
      let reset = try await listener.connect()
      await listener.close()
      await expectError(.connectionReset) { _ = try await reset.read() }
      await client.close()
      #expect(try await server.readToEnd() == [])
      await server.close()
      let expected = [
        "connected \(client.id)", "accepted \(server.id)", "connected \(reset.id)", "closed \(reset.id)",
        "closed \(client.id)", "closed \(server.id)",
      ]
      #expect(observer.events.all == expected)
    }
  }

  @Test func `More connections than the budget of one iteration are all served`() async throws {
    try await within("all are served") {
      let listener = listener()
      var clients: [InMemoryConnection] = []
      for _ in 0..<100 { clients.append(try await listener.connect()) }
      let serving = Task { try await listener.serve { try await $0.write([1]) } }
      for client in clients { #expect(try await client.readToEnd() == [1]) }
      serving.cancel()
      #expect(try await serving.value.finished == 100)
    }
  }

  @Test func `Accepting times out at its time, and without time takes a connection that waits`() async throws {
    try await within("the calls return") {
      let time = ManualTime()
      let listener = listener(on: time.reactor)
      await expectError(.timedOut) { _ = try await listener.accept(timeout: .zero) }
      let accepting = Task.immediate { try await listener.accept(timeout: .seconds(5)) }
      await time.advance(by: .seconds(5))
      let error = await expectError(.timedOut) { _ = try await accepting.value }
      #expect("\(error)" == "accept on 127.0.0.1:7: timed out after 5 s")
      // 32 are the budget of an iteration.
      for _ in 0..<40 { _ = try await listener.connect() }
      let calls = await time.reactor.whileBlocked {
        (0..<40).map { _ in Task.immediate { try await listener.accept(timeout: .zero) } }
      }
      for call in calls { _ = try await call.value }
      await expectError(.timedOut) { _ = try await listener.accept(timeout: .zero) }
      #expect(await listener.timerCount == 0)
    }
  }

  @Test func `A drain serves the calls that connected before it, and resets those that connected later`() async throws {
    try await within("the drain ends") {
      let listener = listener(backlog: 2)
      let isServed = Gate()
      let serving = Task {
        try await listener.serve(.init(limits: .init(connections: 1))) { connection in
          isServed.open()
          try await connection.write(try await connection.read(until: .lf))
        }
      }
      var clients = [try await listener.connect()]
      await isServed.wait()
      for _ in 0..<2 { clients.append(try await listener.connect()) }
      let waiting = Task.immediate { try await listener.connect(timeout: .within(.seconds(Int.max))) }
      serving.cancel()
      await expectError(.closed) { _ = try await listener.accept() }
      for client in clients {
        try await client.write(utf8: "x\n")
        #expect(try await client.readToEnd() == Array("x\n".utf8))
        await client.close()
      }
      let report = try await serving.value
      #expect(report.accepted == 3 && report.finished == 3 && report.refused == 0)
      await expectError(.connectionReset) { _ = try await waiting.value.read() }
      await expectError(.connectionRefused) { _ = try await listener.connect() }
    }
  }
}

extension InMemoryListener {
  fileprivate var timerCount: Int { timers.count }
  fileprivate var hasWaiters: Bool { !waiters.isEmpty }
}
