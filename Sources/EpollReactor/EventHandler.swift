package import SocketSystem

/// An actor that a reactor serves. Every method is called on the reactor's thread, isolated to the actor, outside of any task.
package protocol EventHandler: ReactorActor {
  /// An empty set is the turn that `Registration.reschedule()` asked for, or the notice of `Registration.awaitClosedDescriptor()`.
  func handle(_ readiness: Readiness)
  /// The deadline is disarmed.
  func deadlineReached(_ tag: DeadlineTag)
  /// Must abort, and fail all operations with `.reactorShutDown`.
  func reactorShutDown()
  /// Text for people; `nil` if no operation waits, or if the handler does not say.
  var waitingOperations: String? { get }
}

extension EventHandler {
  package var waitingOperations: String? { nil }

  /// Enters the reactor's table without a socket. If the reactor has shut down, the handler is told so, as it would be later.
  package func enter(_ registration: Registration) {
    do throws(Registration.EnterError) {
      try registration.enter(self)
    } catch {
      reactorShutDown()
    }
  }
}
