import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets
@testable import EpollReactor

/// A flood of connections takes only a part of each iteration of the loop. The tests count accepts, and measure no time.
@Suite(.endsInTime) struct AcceptBudgetTests {
  private final class Accepts: Sendable {
    private let iterations = Notes<Int>()
    private let reactor: Reactor

    init(on reactor: Reactor) { self.reactor = reactor }

    func note() { iterations.add(reactor.loop.iteration.number) }

    var count: Int { iterations.all.count }
    /// The most connections that were accepted in one iteration.
    var mostAtOnce: Int { Dictionary(grouping: iterations.all, by: \.self).values.map(\.count).max() ?? 0 }
  }

  private static let flood = 1000

  /// A reactor with a listener, and with a connection whose handler answers one byte.
  private struct Scene {
    let reactor = Reactor()
    let accepts: Accepts
    let listener: TCPListener
    let peer: RawSocket
    let answering: Task<Int, any Error>

    init() async throws {
      let reactor = reactor
      let accepts = Accepts(on: reactor)
      self.accepts = accepts
      listener = try TCPListener.onLoopback(.init { $0.connection.prepare = { _ in accepts.note() } }, on: reactor)
      let (connection, peer) = try RawSocket.peerOfConnection(on: reactor)
      self.peer = peer
      answering = Task(executorPreference: reactor) {
        let acceptedBefore = Notes<Int>()
        // The closure is called when the byte is found, before any job.
        let byte = try await connection.read(exactly: 1) { _, _ in acceptedBefore.add(accepts.count) }
        try await connection.write(byte)
        return acceptedBefore.all[0]
      }
      try await eventually("the handler reads") { await connection.status.queuedReads == 1 }
    }

    /// Serves a first client.
    func serve(_ options: ServeOptions) async throws -> (Task<ServeReport, any Error>, RawSocket) {
      let isServed = Gate()
      let serving = Task {
        try await listener.serve(options) { connection in
          isServed.open()
          _ = try await connection.read()
        }
      }
      let first = try RawSocket.connected(to: listener.address)
      await isServed.wait()
      return (serving, first)
    }

    /// Fills the backlog and sends the byte, before the reactor sees either.
    func flood(_ then: () -> Void = {}) async throws -> [RawSocket] {
      try await reactor.whileBlocked {
        let clients = try (0..<AcceptBudgetTests.flood).map { _ in try RawSocket.connected(to: listener.address) }
        try peer.send([1])
        then()
        return clients
      }
    }

    func expectShares(of accepted: Int) async throws {
      // The first connection is accepted before the flood. One look finds the byte and the flood, and at most two other events: a
      // wake-up, and that the first connection is writable. On a slow machine each event takes an iteration, so the byte is found after
      // three budgets.
      let before = try await answering.value
      #expect(before <= 1 + 3 * AcceptPolicy.budget, "\(before) connections were accepted before the byte was found")
      try await eventually("all are accepted") { accepts.count == accepted }
      #expect(accepts.mostAtOnce <= AcceptPolicy.budget)
    }
  }

  @Test(arguments: [HandlerExecutor.pool, .reactor])
  func `A connection's byte is found before a flood in the backlog is accepted`(place: HandlerExecutor)
    async throws
  {
    let scene = try await Scene()
    let (serving, first) = try await scene.serve(.init(on: place))
    let clients = try await scene.flood()
    try await scene.expectShares(of: Self.flood + 1)
    for client in clients + [first] { client.close() }
    #expect(try await serving.stop().finished == Self.flood + 1)
  }

  @Test func `A flood of connections that are refused does not hold up other sockets`() async throws {
    let scene = try await Scene()
    let (serving, first) = try await scene.serve(.init(limits: ServeLimits(connectionsPerPeer: 1)))
    let before = scene.reactor.metrics.polls
    let clients = try await scene.flood()
    for client in clients { await #expect(throws: SystemError.self) { try await client.receive() } }
    #expect(scene.reactor.metrics.polls - before >= Self.flood / AcceptPolicy.budget)
    first.close()
    #expect(try await serving.stop().refused == Self.flood)
    _ = try await scene.answering.value
  }

  @Test func `A drain that finds a flood in the backlog does not hold up other sockets`() async throws {
    let scene = try await Scene()
    let (serving, first) = try await scene.serve(.init(on: .reactor))
    let clients = try await scene.flood { serving.cancel() }
    try await scene.expectShares(of: Self.flood + 1)
    for client in clients + [first] { client.close() }
    #expect(try await serving.value.finished == Self.flood + 1)
  }

  @Test func `A loop of accepts in the listener's own isolation does not hold up other sockets`() async throws {
    let scene = try await Scene()
    let first = try RawSocket.connected(to: scene.listener.address)
    let isWaiting = Gate()
    let accepting = Task { try await scene.listener.accept(Self.flood + 1) { isWaiting.open() } }
    await isWaiting.wait()
    let clients = try await scene.flood()
    try await scene.expectShares(of: Self.flood + 1)
    let accepted = try await accepting.value
    #expect(accepted.map(\.remoteAddress) == (try ([first] + clients).map { try $0.address }))
  }
}

extension TCPListener {
  fileprivate func accept(_ count: Int, _ firstIsThere: () -> Void) async throws -> [TCPConnection] {
    var connections = [try await accept()]
    firstIsThere()
    while connections.count < count { connections.append(try await accept()) }
    return connections
  }
}
