import TestSupport

@testable import ActorSockets

extension LimitBoundaries {
  private static let pause = "longest pause of a pool after connecting has failed"

  static let pools: [LimitBoundary] = [
    .most("connections of a pool") { count in
      var state = pool()
      for call in 0..<count { _ = state.asked(UInt64(call), at: 0) }
      return state.metrics.connecting == count
    },
    .most("calls that wait for a connection of a pool") { count in
      var state = pool()
      for call in 0..<count { _ = state.asked(UInt64(call), at: 0) }
      return state.metrics.waiting == count
    },
    .time("time that a call waits for a connection of a pool, connecting included") {
      try await inSimulation { _ in
        let pool = ConnectionPool<TCPConnection> {
          await waitForCancellation()
          throw CancellationError()
        }
        let time = await elapsed { _ = try? await pool.withConnection { _ in } }
        await pool.close()
        return time
      }
    },
    .time("time that a connection of a pool may be idle") { .nanoseconds(poolWithIdleConnection().nextTime ?? 0) },
    .least("idle time after which a connection of a pool is checked, if the pool has a check") { nanoseconds in
      var state = poolWithIdleConnection()
      return state.asked(2, at: Int64(nanoseconds)).contains { if case .check = $0 { true } else { false } }
    },
    .time(pause) { longestPause(afterFailures: 1) },
    .time(pause, position: 1) { longestPause(afterFailures: 30) },
  ]

  private static func pool() -> PoolState<Int> {
    PoolState(ConnectionPoolOptions(), checks: true) { _ in false }
  }

  private static func poolWithIdleConnection() -> PoolState<Int> {
    var state = pool()
    _ = state.asked(1, at: 0)
    _ = state.connected(1, 1, at: 0)
    _ = state.returned(1, isClean: true, at: 0)
    return state
  }

  private static func longestPause(afterFailures failures: Int) -> Duration {
    var backoff = PoolBackoff(ConnectionPoolOptions())
    var random = LargestNumbers()
    for _ in 0..<failures {
      let error = SocketError(.connectionRefused, operation: "connect")
      backoff.failed(error, in: backoff.round, at: 0, &random)
    }
    return .nanoseconds(backoff.end ?? 0)
  }

  private struct LargestNumbers: RandomNumberGenerator {
    func next() -> UInt64 { .max }
  }
}
