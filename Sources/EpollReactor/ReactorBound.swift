/// A value that belongs to a reactor's thread, on its way from one actor of that reactor to another.
///
/// The compiler knows each socket as an isolation domain of its own, but all domains of a reactor are one thread. A layer above a
/// stream uses that: it moves the stream's bytes by plain calls. This is the one place where it says so.
package struct ReactorBound<Value>: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): the value can be had on the reactor's thread alone, which `value` checks.

  package let reactor: Reactor
  private let bound: Value

  /// Binds a value that nobody uses on another thread. Any thread.
  package init(_ value: Value, on reactor: Reactor) {
    self.reactor = reactor
    bound = value
  }

  /// The value. The reactor's thread only.
  package var value: Value {
    precondition(reactor.loop.isCurrent, "what belongs to a reactor's thread was used on another one")
    return bound
  }
}
