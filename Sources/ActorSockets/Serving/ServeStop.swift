internal import EpollReactor
internal import SocketSystem

/// Holds what stops a running server: its drain, the signals, the deadline and the suspended loop. `ServePhase` decides what a stop means.
package struct ServeStop {
  /// How the server stops unless a call of `drain` says otherwise.
  let drain: Drain
  private let signals: SignalSubscription?
  private(set) var signalsSeen = 0
  private var deadline: DeadlineKey?
  /// When the drain is over, on the reactor's clock.
  private var end: Int64 = .min
  /// The server's loop, which waits for room or for the end of the drain.
  private var waiter: Suspension?

  init(_ drain: Drain, _ signals: SignalSubscription?) {
    self.drain = drain
    self.signals = signals
  }

  /// The first signal begins the drain, and the second one ends it.
  mutating func signalArrived() -> Drain {
    signalsSeen += 1
    return signalsSeen == 1 ? drain : .immediately
  }

  /// Arms the deadline of the drain in place of an earlier one. `end` is `nil` if the drain is over. Returns `false` if it is over, or if
  /// the reactor takes no deadline.
  mutating func arm(at end: Int64?, _ registration: Registration) -> Bool {
    disarm(registration)
    self.end = end ?? .min
    deadline = end.flatMap { registration.arm(at: $0, tag: DeadlineTag(.drain)) }
    return deadline != nil
  }

  mutating func deadlineReached() { deadline = nil }

  /// Zero if no drain is under way.
  func timeLeft(at now: Int64) -> Duration { end > now ? .nanoseconds(end - now) : .zero }

  private mutating func disarm(_ registration: Registration) {
    if let deadline = deadline.take() { registration.disarm(deadline) }
  }

  /// Check the condition just before this call, in the same job, because the runtime may suspend a task at any `await`.
  mutating func nextChange(_ place: Place) -> Suspension {
    let suspension = Suspension(place)
    waiter = suspension
    return suspension
  }

  mutating func wake() { waiter.take()?.resume() }

  mutating func end(_ registration: Registration) {
    signals?.cancel()
    disarm(registration)
  }
}

extension ReactorActor {
  /// Takes over the signals that stop a server. `arrived` is called for the first two of them. Returns `nil` if the set is empty.
  func takeOver(
    _ signals: Set<ProcessSignal>, _ arrived: @escaping @Sendable (isolated Self) -> Void
  ) throws(SocketError) -> SignalSubscription? {
    if signals.isEmpty { return nil }
    do {
      // It ends with the second signal, also if this reactor is blocked.
      return try SignalHub.shared.subscribe(to: signals, endingAfter: 2) { [weak self] _ in self?.submit(arrived) }
    } catch {
      throw SocketError(error, operation: "serve")
    }
  }
}
