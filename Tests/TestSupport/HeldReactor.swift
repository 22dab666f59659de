package import EpollReactor

extension Reactor {
  /// Runs `body` while this reactor's thread is blocked, so that one look at epoll finds the events that `body` causes.
  package nonisolated(nonsending) func whileBlocked<Value>(_ body: () async throws -> Value) async rethrows -> Value {
    let isBlocked = Gate()
    let mayGoOn = Gate()
    submit {
      isBlocked.open()
      while !mayGoOn.isOpen {}
    }
    await isBlocked.wait()
    defer { mayGoOn.open() }
    return try await body()
  }
}
