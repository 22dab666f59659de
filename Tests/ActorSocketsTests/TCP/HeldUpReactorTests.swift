import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets
@testable import EpollReactor

/// The first actions of a reactor after it was held up for longer than its deadlines.
///
/// The job that holds it up sends the bytes itself, and ends when the deadline has passed on the reactor's clock. So the bytes
/// always come before the deadline, and no test sleeps. No test looks at the connection again after its byte has moved: it may
/// have been idle for long enough since, if the machine is busy.
@Suite(.endsInTime) struct HeldUpReactorTests {
  @Test(arguments: 1...20)
  func `A read whose bytes came before its deadline gets them`(round: Int) async throws {
    let reactor = Reactor()
    let (connection, peer) = try RawSocket.peerOfConnection(on: reactor)
    #expect(await connection.state == .open)
    let outcome = PendingOutcome(connection.executor)
    // In one job, so that the deadline cannot pass between the read and the bytes, however busy the machine is.
    reactor.hold(for: .milliseconds(21)) {
      connection.assumeIsolated {
        $0.core.enqueue(ReadRequest.exactly(2).kind, .after(.milliseconds(20)), reactor.now, outcome, owner: $0)
        #expect($0.status.queuedReads == 1)
      }
      try? peer.send([7, 8])
    }
    #expect(try await Pending(outcome, of: .exactly(2)).value == [7, 8])
    await connection.abort()
  }

  @Test(arguments: [false, true])
  func `Reads whose bytes came before their deadlines get them, also those beyond a budget`(byHand: Bool) async throws {
    let time = ManualTime()
    let reactor = byHand ? time.reactor : Reactor()
    let (connection, peer) = try RawSocket.peerOfConnection(on: reactor)
    let outcomes = (0..<300).map { _ in PendingOutcome(connection.executor) }
    let bytes = [UInt8](repeating: 7, count: outcomes.count)
    let enqueue: @Sendable () -> Void = {
      connection.assumeIsolated {
        for outcome in outcomes {
          $0.core.enqueue(ReadRequest.exactly(1).kind, .within(.milliseconds(500)), reactor.now, outcome, owner: $0)
        }
      }
      try? peer.send(bytes)
    }
    #expect(await connection.state == .open)
    if byHand {
      reactor.submit(enqueue)
      await time.advance(by: .seconds(1))
    } else {
      // In one job, so that no deadline can pass between the reads and the bytes, however busy the machine is.
      reactor.hold(for: .milliseconds(501), enqueue)
    }
    let reads = outcomes.map { Pending($0, of: .exactly(1)) }
    for read in reads { #expect(try await read.value == [7]) }
    await connection.abort()
  }

  /// Makes a connection that ends when it has been idle for 500 ms, and runs a closure at the beginning of a job that holds its
  /// reactor up for longer. On a busy machine the connection may end before that job begins: then another one is made.
  private static func withIdleConnection(
    _ body: @escaping @Sendable (isolated TCPConnection, RawSocket) -> Void
  ) async throws -> (connection: TCPConnection, peer: RawSocket) {
    let configuration = TCPConnection.Configuration { $0.liveness.idleTimeout = .milliseconds(500) }
    let reactor = Reactor()
    while true {
      let (connection, peer) = try RawSocket.peerOfConnection(configuration: configuration, on: reactor)
      let isInTime = Locked<Bool?>(nil)
      reactor.hold(for: .milliseconds(501)) {
        connection.assumeIsolated {
          let isOpen = $0.core.state == .open
          if isOpen { body($0, peer) }
          isInTime.withLock { $0 = isOpen }
        }
      }
      try await eventually("the reactor is held up") { isInTime.withLock { $0 } != nil }
      if isInTime.withLock({ $0 }) == true { return (connection, peer) }
    }
  }

  @Test func `A connection whose next call waits in the queue is not ended by its idle timeout`() async throws {
    let write = Locked<Pending<Void>?>(nil)
    let (connection, peer) = try await Self.withIdleConnection { connection, _ in
      write.withLock { $0 = connection.enqueueWrite([7]) }
    }
    try await write.withLock { $0 }?.value
    #expect(try await peer.receive(exactly: 1) == [7])
    await connection.abort()
  }

  @Test func `A connection whose handler waits in the queue is not ended by its idle timeout`() async throws {
    let handler = Locked<Task<Void, any Error>?>(nil)
    let (connection, peer) = try await Self.withIdleConnection { connection, _ in
      let reactor = connection.executor.reactor
      handler.withLock { $0 = Task(executorPreference: reactor) { try await connection.write([7]) } }
    }
    try await handler.withLock { $0 }?.value
    #expect(try await peer.receive(exactly: 1) == [7])
    await connection.abort()
  }

  @Test func `A live connection is not ended by its idle timeout`() async throws {
    let read = Locked<Pending<[UInt8]>?>(nil)
    let (connection, _) = try await Self.withIdleConnection { connection, peer in
      let outcome = PendingOutcome(connection.executor)
      connection.core.enqueue(
        ReadRequest.exactly(1).kind, nil, connection.executor.reactor.now, outcome, owner: connection)
      read.withLock { $0 = Pending(outcome, of: .exactly(1)) }
      try? peer.send([7])
    }
    #expect(try await read.withLock { $0 }?.value == [7])
    await connection.abort()
  }

  @Test func `A datagram that came before the deadline of a receive is received`() async throws {
    let reactor = Reactor()
    let other = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
    var isInTime = false
    // On a busy machine the receive may time out before the reactor is held up: then another one is made.
    while !isInTime {
      let endpoint = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0), reactor: reactor)
      let hasBegun = Gate()
      let received = Task {
        hasBegun.open()
        return try await endpoint.receive(timeout: .after(.milliseconds(500)))
      }
      let isWaiting = Locked<Bool?>(nil)
      let isSent = Gate()
      await hasBegun.wait()
      reactor.hold(for: .milliseconds(501)) {
        isWaiting.withLock { $0 = endpoint.assumeIsolated { $0.metrics.pendingReceives == 1 } }
        while !isSent.isOpen {}
      }
      try await eventually("the reactor is held up") { isWaiting.withLock { $0 } != nil }
      try await other.send([7], to: #require(endpoint.localAddress))
      isSent.open()
      isInTime = isWaiting.withLock { $0 } == true
      if isInTime { #expect(try await received.value.bytes == [7]) } else { _ = try? await received.value }
    }
  }

  @Test func `Bytes that came before manual time moved on win against the deadline`() async throws {
    let time = ManualTime()
    for _ in 0..<100 {
      let (connection, peer) = try RawSocket.peerOfConnection(on: time.reactor)
      let read = connection.enqueueRead(.exactly(1), timeout: .after(.seconds(1)))
      try await eventually("the read waits") { await connection.status.queuedReads == 1 }
      // In one job: no look at epoll lies between the byte and the change of the time.
      time.reactor.submit {
        try? peer.send([7])
        time.reactor.loop.advance(by: 2_000_000_000)
      }
      #expect(try await read.value == [7])
      await connection.abort()
    }
  }

  @Test func `A connection is answered while 100,000 writes of another one are queued`() async throws {
    let reactor = Reactor()
    let configuration = TCPConnection.Configuration { $0.writeBudget = 1 << 30 }
    let (busy, sink) = try StreamSocket.unix.connection(configuration, on: reactor)
    let (quiet, peer) = try RawSocket.peerOfConnection(on: reactor)
    // How many of the 100 groups of 1,000 writes were in their queue when the quiet connection's byte was found.
    let groupsBefore = Notes<Int>()
    let groups = Locked(0)
    let read = Task { try await quiet.read(exactly: 1) { _, _ in groupsBefore.add(groups.withLock { $0 }) } }
    try await eventually("the read waits") { await quiet.status.queuedReads == 1 }
    let isOver = Gate()
    reactor.submit { while !isOver.isOpen {} }
    for _ in 0..<100 {
      for _ in 0..<1000 { _ = busy.enqueueWrite([1]) }
      reactor.submit { groups.withLock { $0 += 1 } }
    }
    try peer.send([7])
    isOver.open()
    #expect(try await read.value == [7])
    // A write takes a few microseconds, so a look after a millisecond comes after few groups.
    #expect(groupsBefore.all.count == 1 && groupsBefore.all[0] < 20, "\(groupsBefore.all)")
    await busy.abort()
    await quiet.abort()
    sink.close()
  }
}

extension Reactor {
  /// Runs a closure on the reactor's thread, and then blocks the thread until this time has passed on the reactor's clock.
  fileprivate func hold(for duration: Duration, _ body: @escaping @Sendable () -> Void) {
    submit {
      body()
      let end = self.now + Int64(duration / .nanoseconds(1))
      while self.now <= end {}
    }
  }
}
