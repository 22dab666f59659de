package import SocketSystem

/// An actor that the reactor tells about its descriptor, its deadlines and the reactor's end.
///
/// Every method is called on the reactor's thread, isolated to the actor, outside of any task.
package protocol EventHandler: ReactorActor {
  /// The tags that say what a deadline of this handler is for. Each kind of handler has one type of tags, so that no two kinds
  /// of its deadlines have the same number.
  associatedtype DeadlineTag: RawRepresentable<UInt64>
  /// The descriptor's readiness changed. An empty set is the share that `Registration.reschedule()` asked for, or the notice of
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

  /// A deadline that was armed with this number has come.
  func deadlineReached(number: UInt64) {
    guard let tag = DeadlineTag(rawValue: number) else {
      // Not a failed precondition: that says nothing in optimised programs.
      fatalError("\(Self.self) armed a deadline with a number that is not one of its tags: \(number)")
    }
    deadlineReached(tag)
  }
}

/// The tags of a handler that arms no deadline.
package enum NoDeadline: RawRepresentable {
  package init?(rawValue: UInt64) { nil }
  package var rawValue: UInt64 { switch self {} }
}
