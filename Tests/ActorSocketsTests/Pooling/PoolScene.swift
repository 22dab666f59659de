import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport

@testable import ActorSockets

/// A pool in manual time. Its connections are in memory, and the test says when an attempt to connect ends, and how.
struct PoolScene {
  /// The attempts to connect of a pool.
  final class Attempts: Sendable {
    private struct State {
      var ends: [CheckedContinuation<InMemoryConnection, any Error>?] = []
    }

    let reactor: Reactor
    private let state = Locked(State())
    let servers = Notes<InMemoryConnection>()

    init(_ reactor: Reactor) { self.reactor = reactor }

    var count: Int { state.withLock { $0.ends.count } }

    func connect() async throws -> InMemoryConnection {
      try await withCheckedThrowingContinuation { end in state.withLock { $0.ends.append(end) } }
    }

    func begun(_ number: Int) async throws {
      try await eventually("\(number) attempts have begun") { count == number }
    }

    private func take(_ number: Int) async throws -> CheckedContinuation<InMemoryConnection, any Error>? {
      try await eventually("attempt \(number) has begun") { count > number }
      return state.withLock { $0.ends[number].take() }
    }

    /// Returns the server's end.
    @discardableResult
    func succeed(_ number: Int) async throws -> InMemoryConnection {
      let (client, server) = InMemoryConnection.pair(reactor: reactor)
      servers.add(server)
      try await take(number)?.resume(returning: client)
      return server
    }

    func fail(_ number: Int, _ error: any Error = SocketError(.connectionRefused, operation: "connect")) async throws {
      try await take(number)?.resume(throwing: error)
    }
  }

  let time = ManualTime()
  let attempts: Attempts
  let pool: ConnectionPool<InMemoryConnection>

  init(
    _ options: ConnectionPoolOptions = .most(1),
    isHealthy: (@Sendable (InMemoryConnection) async throws -> Bool)? = nil
  ) {
    attempts = Attempts(time.reactor)
    pool = ConnectionPool(options, reactor: time.reactor, isHealthy: isHealthy) { [attempts] in
      try await attempts.connect()
    }
  }

  /// A call that has the connection until the gate is open.
  func use(_ timeout: Timeout? = nil, until gate: Gate) -> Task<UInt64, any Error> {
    Task.immediate {
      try await pool.withConnection(timeout: timeout) { connection in
        await gate.wait()
        return connection.id
      }
    }
  }

  func have(
    inUse: Int? = nil, waiting: Int? = nil, idle: Int? = nil, file: String = #fileID, line: Int = #line
  ) async throws {
    try await eventually("\(inUse ?? 0), \(waiting ?? 0), \(idle ?? 0) use, wait, are idle", file: file, line: line) {
      let metrics = await pool.metrics
      return metrics.inUse == inUse ?? metrics.inUse && metrics.waiting == waiting ?? metrics.waiting
        && metrics.idle == idle ?? metrics.idle
    }
  }

  /// Makes the first connection, and leaves it idle. Returns the server's end.
  func makeIdle() async throws -> InMemoryConnection {
    let call = Task.immediate { try await pool.withConnection { $0.id } }
    try await attempts.begun(1)
    let server = try await attempts.succeed(0)
    _ = try await call.value
    return server
  }
}
