import ActorSockets

/// If `body` takes longer than `limit`, it is cancelled, and this throws a failure with `message`.
func within<Value: Sendable>(
  _ limit: Duration?, orFailWith message: String, _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
  guard let limit else { return try await body() }
  return try await race(body) {
    try await Task.sleep(for: limit)
    throw Failure(.timeout, message)
  }
}

/// If the idle timeout ends the connection, `body` is cancelled, because it may wait for something else.
func endingWithIdleness(
  of connection: some ByteStream, after limit: Duration?, _ body: @escaping @Sendable () async throws -> Void
) async throws {
  guard let limit else { return try await body() }
  let failure = Failure(.timeout, "nothing was moved for \(limit.inSeconds)")
  do {
    try await withThrowingTaskGroup(of: Bool.self) { group in
      group.addTask {
        try await body()
        return true
      }
      group.addTask {
        if case .timedOut = try await connection.closed.reason { throw failure }
        return false
      }
      defer { group.cancelAll() }
      while let isDone = try await group.next(), !isDone {}
    }
  } catch {
    // A time-out of the kernel has an error number.
    let cause = ((error as? PipeError)?.underlyingError ?? error) as? SocketError
    throw cause?.code == .timedOut && cause?.errno == 0 ? failure : error
  }
}

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
