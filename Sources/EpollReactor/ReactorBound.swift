/// A value that belongs to a reactor's thread. To the compiler, each socket is a separate isolation domain, but all domains of a reactor
/// share one thread. A layer above a stream uses this to move the stream's bytes by plain calls.
package struct ReactorBound<Value>: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): the value is accessible only on the reactor's thread, which `value` checks.

  package let reactor: Reactor
  private let bound: Value

  /// No other thread may use the value. Any thread.
  package init(_ value: Value, on reactor: Reactor) {
    self.reactor = reactor
    bound = value
  }

  package var value: Value {
    precondition(reactor.loop.isCurrent, "what belongs to a reactor's thread was used on another one")
    return bound
  }
}
