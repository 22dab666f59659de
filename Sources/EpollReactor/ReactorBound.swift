/// A value that belongs to a reactor's thread, passed from one actor of that reactor to another.
///
/// To the compiler, each socket is a separate isolation domain, but all domains of a reactor share one thread. A layer above a
/// stream uses this to move the stream's bytes by plain calls. Only this type tells the compiler so.
package struct ReactorBound<Value>: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): the value is accessible only on the reactor's thread, which `value` checks.

  package let reactor: Reactor
  private let bound: Value

  /// Binds a value that no other thread uses. Safe to call from any thread.
  package init(_ value: Value, on reactor: Reactor) {
    self.reactor = reactor
    bound = value
  }

  /// The value. Stops the program if called on another thread than the reactor's.
  package var value: Value {
    precondition(reactor.loop.isCurrent, "what belongs to a reactor's thread was used on another one")
    return bound
  }
}
