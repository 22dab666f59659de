package import EpollReactor

extension Reactor {
  /// Runs `body` while this reactor's thread is blocked, so that one look at epoll finds the events that `body` causes.
  package func whileBlocked<Value>(_ body: () throws -> Value) async rethrows -> Value {
    let isBlocked = Gate()
    let mayGoOn = Gate()
    submit {
      isBlocked.open()
      while !mayGoOn.isOpen {}
    }
    await isBlocked.wait()
    defer { mayGoOn.open() }
    return try body()
  }
}
