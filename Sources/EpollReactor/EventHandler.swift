package import SocketSystem

/// An actor that the reactor tells about its descriptor, its deadlines and the reactor's end.
///
/// Every method is called on the reactor's thread, isolated to the actor, outside of any task.
package protocol EventHandler: ReactorActor {
  /// The descriptor's readiness changed. An empty set is the turn that `Registration.reschedule()` asked for, or the notice of
  /// `Registration.awaitClosedDescriptor()`.
  func handle(_ readiness: Readiness)
  /// A deadline armed with this tag has come; it is disarmed.
  func deadlineReached(_ tag: DeadlineTag)
  /// The reactor shuts down: abort, and fail all operations with `.reactorShutDown`.
  func reactorShutDown()
  /// The operations that wait, as text for people; `nil` if no operation waits, or if the handler does not say.
  var waitingOperations: String? { get }
}

extension EventHandler {
  package var waitingOperations: String? { nil }
}
