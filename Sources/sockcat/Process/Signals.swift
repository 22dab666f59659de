import ActorSockets

struct StopSignals {
  private let signals: ProcessSignals

  /// When this returns, the signals no longer end the process.
  init() throws { signals = try ProcessSignals([.terminate, .interrupt]) }

  /// The first signal calls `drain`, and each further signal calls `abort`.
  func during<Value>(
    drain: @escaping @Sendable () async -> Void, abort: @escaping @Sendable () async -> Void,
    _ body: () async throws -> Value
  ) async throws -> Value {
    let watcher = Task { [signals] in
      var isDraining = false
      for await _ in signals {
        if isDraining { await abort() } else { await drain() }
        isDraining = true
      }
    }
    defer { watcher.cancel() }
    return try await body()
  }
}
