import EpollReactor
import SocketSystem
import TestSupport

/// An actor that notes what the reactor tells it.
actor Probe: EventHandler {
  nonisolated let executor: ReactorExecutor
  let registration: Registration
  nonisolated let events = Notes<UInt32>()
  nonisolated let deadlines = Notes<UInt64>()
  nonisolated let shutdowns = Notes<Bool>()
  private var passes = 0
  private var reaction: (@Sendable (isolated Probe, Readiness) -> Void)?

  init(_ reactor: Reactor) {
    executor = ReactorExecutor(reactor)
    registration = Registration(on: reactor)
  }

  deinit { registration.reactor.submit { [registration] in registration.leave() } }

  func enter() throws { try registration.enter(self) }
  func react(_ reaction: @escaping @Sendable (isolated Probe, Readiness) -> Void) { self.reaction = reaction }
  func attach(_ socket: RawSocket) throws { try registration.attach(OwnedDescriptor(owning: socket.release())) }

  /// Closes the descriptor, and says which number it had.
  func closeDescriptor() -> Int32 {
    defer { registration.closeDescriptor() }
    return registration.socket?.number ?? -1
  }

  /// Comes behind what was enqueued before. It does something, or an optimised build would not come here.
  func pass() { passes += 1 }
  func reschedule() { registration.reschedule() }

  func handle(_ readiness: Readiness) {
    assertIsolated()
    events.add(readiness.rawValue)
    reaction?(self, readiness)
  }

  /// Any number but the highest.
  struct DeadlineTag: RawRepresentable {
    let rawValue: UInt64
    init?(rawValue: UInt64) {
      if rawValue == .max { return nil }
      self.rawValue = rawValue
    }
  }

  func deadlineReached(_ tag: DeadlineTag) { deadlines.add(tag.rawValue) }
  func reactorShutDown() { shutdowns.add(true) }
}
