import EpollReactor
import TestSupport

extension Reactor {
  /// Runs `body` while this reactor's thread is blocked, so that what `body` causes is found in one look at epoll.
  func whileBlocked<Value>(_ body: () throws -> Value) async rethrows -> Value {
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
