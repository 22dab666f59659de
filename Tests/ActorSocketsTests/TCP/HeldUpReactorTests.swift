import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets
@testable import EpollReactor

/// What a reactor does first after it was held up for longer than its deadlines.
///
/// The job that holds it up sends the bytes itself, and ends when the deadline has passed on the reactor's clock. So the bytes
/// always come before the deadline, and no test sleeps.
@Suite struct HeldUpReactorTests {
  @Test(arguments: 1...20)
  func `A read whose bytes came before its deadline gets them`(round: Int) async throws {
    try await within("the read is over") {
      let reactor = Reactor()
      let (connection, peer) = try RawSocket.peerOfConnection(on: reactor)
      #expect(await connection.state == .open)
      let outcome = PendingOutcome<[UInt8]>(connection.executor)
      // In one job, so that the deadline cannot pass between the read and the bytes, however busy the machine is.
      reactor.hold(for: .milliseconds(21)) {
        connection.assumeIsolated {
          $0.core.enqueue(.exactly(2), .after(.milliseconds(20)), reactor.now, outcome, owner: $0)
          #expect($0.status.queuedReads == 1)
        }
        try? peer.send([7, 8])
      }
      #expect(try await Pending(outcome: outcome).value == [7, 8])
      await connection.abort()
    }
  }

  @Test(arguments: [false, true])
  func `Reads whose bytes came before their deadlines get them, also those beyond a share`(byHand: Bool) async throws {
    try await within("the reads are over") {
      let time = ManualTime()
      let reactor = byHand ? time.reactor : Reactor()
      let (connection, peer) = try RawSocket.peerOfConnection(on: reactor)
      let reads = (0..<300).map { _ in connection.enqueueRead(.exactly(1), timeout: .within(.milliseconds(500))) }
      try await eventually("the reads wait") { await connection.status.queuedReads == reads.count }
      let bytes = [UInt8](repeating: 7, count: reads.count)
      if byHand {
        try peer.send(bytes)
        await time.advance(by: .seconds(1))
      } else {
        reactor.hold(for: .milliseconds(501)) { try? peer.send(bytes) }
      }
      for read in reads { #expect(try await read.value == [7]) }
      await connection.abort()
    }
  }

  /// A connection that ends when it has been idle for 500 ms, and its peer.
  private static func idleConnection(on reactor: Reactor) throws -> (connection: TCPConnection, peer: RawSocket) {
    var configuration = TCPConnection.Configuration()
    configuration.liveness.idleTimeout = .milliseconds(500)
    return try RawSocket.peerOfConnection(configuration: configuration, on: reactor)
  }

  @Test func `A connection whose next call waits in the queue is not ended by its idle timeout`() async throws {
    try await within("the byte arrives") {
      let reactor = Reactor()
      let (connection, peer) = try Self.idleConnection(on: reactor)
      #expect(await connection.state == .open)
      let write = Locked<Pending<Void>?>(nil)
      reactor.hold(for: .milliseconds(501)) { write.withLock { $0 = connection.enqueueWrite([7]) } }
      try await eventually("the call is made") { write.withLock { $0 } != nil }
      try await write.withLock { $0 }?.value
      #expect(try await peer.receive(exactly: 1) == [7])
      #expect(await connection.state == .open)
      await connection.abort()
    }
  }

  @Test func `A connection whose handler waits in the queue is not ended by its idle timeout`() async throws {
    try await within("the byte arrives") {
      let reactor = Reactor()
      let (connection, peer) = try Self.idleConnection(on: reactor)
      #expect(await connection.state == .open)
      let handler = Locked<Task<Void, any Error>?>(nil)
      reactor.hold(for: .milliseconds(501)) {
        handler.withLock { $0 = Task(executorPreference: reactor) { try await connection.write([7]) } }
      }
      try await eventually("the handler has begun") { handler.withLock { $0 } != nil }
      try await handler.withLock { $0 }?.value
      #expect(try await peer.receive(exactly: 1) == [7])
      #expect(await connection.state == .open)
      await connection.abort()
    }
  }

  @Test func `A live connection is not ended by its idle timeout`() async throws {
    try await within("the byte is read") {
      let reactor = Reactor()
      let (connection, peer) = try Self.idleConnection(on: reactor)
      let read = connection.enqueueRead(.exactly(1))
      try await eventually("the read waits") { await connection.status.queuedReads == 1 }
      reactor.hold(for: .milliseconds(501)) { try? peer.send([7]) }
      #expect(try await read.value == [7])
      #expect(await connection.state == .open)
      await connection.abort()
    }
  }

  @Test func `A datagram that came before the deadline of a receive is received`() async throws {
    try await within("the receive is over") {
      let reactor = Reactor()
      let endpoint = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0), reactor: reactor)
      let other = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
      let received = Task { try await endpoint.receive(timeout: .after(.milliseconds(500))) }
      try await eventually("the receive waits") { await endpoint.metrics.pendingReceives == 1 }
      let isSent = Gate()
      reactor.hold(for: .milliseconds(501)) { while !isSent.isOpen {} }
      try await other.send([7], to: #require(endpoint.localAddress))
      isSent.open()
      #expect(try await received.value.bytes == [7])
    }
  }

  @Test func `Bytes that came before manual time moved on win against the deadline`() async throws {
    try await within("the reads are over") {
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
  }

  @Test func `A connection is answered while 100,000 writes of another one are queued`() async throws {
    try await within("the other one is answered") {
      let reactor = Reactor()
      var configuration = TCPConnection.Configuration()
      configuration.writeBudget = 1 << 30
      let (near, sink) = try RawSocket.unixPair()
      let busy = try TCPConnection.adopt(
        fileDescriptor: near.release(), configuration: configuration, reactor: reactor)
      let (quiet, peer) = try RawSocket.peerOfConnection(on: reactor)
      // How many of the 100 groups of 1,000 writes were in their queue when the quiet connection's byte was found.
      let groupsBefore = Notes<Int>()
      let groups = Locked(0)
      let read = Task {
        try await quiet.read(exactly: 1) { _, _ in groupsBefore.add(groups.withLock { $0 }) }
      }
      try await eventually("the read waits") { await quiet.status.queuedReads == 1 }
      let isOver = Gate()
      reactor.submit { while !isOver.isOpen {} }
      for _ in 0..<100 {
        for _ in 0..<1000 { busy.enqueueWrite([1]) }
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
