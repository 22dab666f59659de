import SocketSystem
import TestSupport

@testable import EpollReactor

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

  /// One that has a socket, and its peer.
  static func attached(to reactor: Reactor) async throws -> (Probe, RawSocket) {
    let (near, far) = try RawSocket.unixPair()
    let probe = Probe(reactor)
    try await probe.enter()
    try await probe.attach(near)
    return (probe, far)
  }

  deinit { registration.reactor.submit { [registration] in registration.leave() } }

  func enter() throws { try registration.enter(self) }
  func react(_ reaction: @escaping @Sendable (isolated Probe, Readiness) -> Void) { self.reaction = reaction }
  func attach(_ socket: RawSocket) throws { try registration.attach(OwnedDescriptor(owning: socket.release())) }

  var number: Int32 { registration.socket?.number ?? -1 }

  /// Closes the descriptor, and says which number it had.
  func closeDescriptor() -> Int32 {
    defer { registration.closeDescriptor() }
    return number
  }

  /// Comes behind what was enqueued before. It does something, or an optimised build would not come here.
  func pass() { passes += 1 }
  func reschedule() { registration.reschedule() }

  func handle(_ readiness: Readiness) {
    assertIsolated()
    events.add(readiness.rawValue)
    reaction?(self, readiness)
  }

  func deadlineReached(_ tag: DeadlineTag) { deadlines.add(tag.id) }
  func reactorShutDown() { shutdowns.add(true) }
}

extension Probe {
  func arm(at time: Int64, tag: UInt64) { _ = registration.arm(at: time, tag: DeadlineTag(kind: 0, id: tag)) }
  func askThrice() { for _ in 0..<3 { reschedule() } }
  func leave() { registration.leave() }
  func hand(to other: Probe) { registration.hand(to: other) }

  func armAndDisarm(_ count: Int) {
    for tag in 0..<UInt64(count) {
      if let key = registration.arm(at: Int64(tag) + 1000, tag: DeadlineTag(kind: 0, id: tag)) {
        registration.disarm(key)
      }
    }
    let keys = (0..<UInt64(10_000)).compactMap {
      registration.arm(at: Int64($0 % 97) + 1000, tag: DeadlineTag(kind: 0, id: $0))
    }
    for key in keys.reversed() { registration.disarm(key) }
  }

  func armMany(_ count: Int) {
    // Pairs of one time: the one armed first comes first.
    for tag in 0..<UInt64(count) { _ = registration.arm(at: Int64(tag / 2) + 1000, tag: DeadlineTag(kind: 0, id: tag)) }
  }

  var armedDeadlines: (count: Int, capacity: Int) {
    let heap = executor.reactor.loop.deadlines
    return (heap.count, heap.capacity)
  }
}

/// Hears of every iteration of the loop.
final class Iterations: ReactorHook {
  let lagThreshold: Int64 = 0
  private let body: @Sendable (Int64) -> Void
  init(_ body: @escaping @Sendable (Int64) -> Void) { self.body = body }
  func lagged(_ nanoseconds: Int64) { body(nanoseconds) }
}
