import ActorSockets

/// Runs `body`, which is cancelled and fails with `message` when it takes longer than the limit, if there is one.
func within<Value: Sendable>(
  _ limit: Duration?, orFailWith message: String, _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
  guard let limit else { return try await body() }
  return try await race(body) {
    try await Task.sleep(for: limit)
    throw Failure(.timeout, message)
  }
}

/// Runs `body`, which is cancelled and fails when the connection has moved nothing for as long as the limit, if there is
/// one.
///
/// It looks at the connection's own counters, so it notices whatever moves, a part of a large write too. It looks eight
/// times within the limit, so that it may be late by an eighth.
func endingIdleness(
  of connection: TCPConnection, after limit: Duration?, _ body: @escaping @Sendable () async throws -> Void
) async throws {
  guard let limit else { return try await body() }
  try await race(body) {
    var moved = await connection.metrics
    var quietSince = ContinuousClock.now
    while quietSince.duration(to: .now) < limit {
      try await Task.sleep(for: limit / 8)
      let now = await connection.metrics
      if now != moved { quietSince = .now }
      moved = now
    }
    throw Failure(.timeout, "nothing was moved for \(limit.inSeconds)")
  }
}

/// What the first of two tasks returns or throws; the other one is cancelled.
private func race<Value: Sendable>(
  _ first: @escaping @Sendable () async throws -> Value, _ second: @escaping @Sendable () async throws -> Value
) async throws -> Value {
  try await withThrowingTaskGroup(of: Value.self) { group in
    group.addTask { try await first() }
    group.addTask { try await second() }
    defer { group.cancelAll() }
    guard let value = try await group.next() else { throw CancellationError() }
    return value
  }
}

extension Duration {
  /// For people, for example `0.5 s`.
  var inSeconds: String {
    let (seconds, attoseconds) = components
    return attoseconds == 0 ? "\(seconds) s" : "\(Double(seconds) + Double(attoseconds) / 1e18) s"
  }
}
