/// Delivers the signals that the program has taken over. There is one, because the handling of a signal is a property of the process.
///
/// The signal's handler counts and writes to an eventfd. A thread, which the first subscription starts, waits for the eventfd and
/// delivers. It does not run code of the user, so it delivers however busy the program is.
package final class SignalHub: Sendable {
  package static let shared = SignalHub()

  /// Called for each arrival, on the hub's thread or the one that changes the subscriptions. It must be short.
  package typealias Receiver = @Sendable (ProcessSignal) -> Void

  private struct State {
    var subscriptions = SignalSubscriptions<Receiver>()
    var isRunning = false
  }

  private let state = Locked(State())
  /// Whether this process is the first one of its PID namespace, as in a container. The kernel ignores signals with the default handling
  /// there: pid_namespaces(7).
  private let isFirstProcess: Bool

  package init(isFirstProcess: Bool = CurrentProcess.id == 1) { self.isFirstProcess = isFirstProcess }

  /// Takes over signals. When this returns, they have no other effect. After `limit` arrivals, or when the subscription is cancelled or
  /// dropped, the previous handling is restored; `nil` is no limit. The arrival after the last has the previous effect. If that is to end
  /// the process, it does so in the first process of a container, too. Throws the error of eventfd(2) or pthread_create(3).
  package func subscribe(
    to signals: Set<ProcessSignal>, endingAfter limit: Int? = nil, _ receiver: @escaping Receiver
  ) throws(SystemError) -> SignalSubscription {
    let result = state.withLock { state in
      Result { () throws(SystemError) in
        if !state.isRunning {
          try run(SignalHandler.makeEvent())
          state.isRunning = true
        }
        let arrivals = deliver(&state)
        let (id, toTake) = state.subscriptions.add(signals, endingAfter: limit, receiver, count: Self.count)
        do throws(SystemError) {
          for signal in toTake { try SignalHandler.take(signal.rawValue) }
        } catch {
          Self.restore(state.subscriptions.remove(id))
          throw error
        }
        return (id, arrivals)
      }
    }
    let (id, arrivals) = try result.get()
    for arrival in arrivals { arrival() }
    return SignalSubscription(id, of: self)
  }

  /// Signals that arrived before are delivered.
  fileprivate func remove(_ id: UInt64) {
    let arrivals = state.withLock { state in
      let arrivals = deliver(&state)
      Self.restore(state.subscriptions.remove(id))
      return arrivals
    }
    for arrival in arrivals { arrival() }
  }

  private func run(_ event: consuming OwnedDescriptor) throws(SystemError) {
    let number = event.release()
    do {
      try startThread(name: "signals") { [self] in
        let event = OwnedDescriptor(owning: number)
        while true {
          SignalHandler.wait(for: event)
          let arrivals = state.withLock { deliver(&$0) }
          for arrival in arrivals { arrival() }
        }
      }
    } catch {
      _ = OwnedDescriptor(owning: number)
      throw error
    }
  }

  /// Returns the calls to make without the lock.
  private func deliver(_ state: inout State) -> [@Sendable () -> Void] {
    let (arrivals, toRestore) = state.subscriptions.deliver(count: Self.count)
    Self.restore(toRestore, makingFatal: isFirstProcess)
    return arrivals.flatMap { signal, receivers in
      receivers.map { receiver in { @Sendable in receiver(signal) } }
    }
  }

  private static func restore(
    _ restorations: [SignalSubscriptions<Receiver>.Restoration], makingFatal: Bool = false
  ) {
    for restoration in restorations {
      SignalHandler.restore(restoration.signal.rawValue)
      if makingFatal { SignalHandler.makeFatal(restoration.signal.rawValue) }
      // It arrived between the delivery and the restoration: the previous handling gets it.
      if count(restoration.signal) > restoration.delivered { SignalHandler.raise(restoration.signal.rawValue) }
    }
  }

  private static func count(_ signal: ProcessSignal) -> UInt64 { SignalHandler.count(of: signal.rawValue) }
}

/// Signals stay taken over until it is cancelled or dropped.
package final class SignalSubscription: Sendable {
  private let id: UInt64
  private let hub: SignalHub

  fileprivate init(_ id: UInt64, of hub: SignalHub) {
    self.id = id
    self.hub = hub
  }

  deinit { cancel() }

  /// Restores the previous handling, unless another subscription has taken over the signals too.
  package func cancel() { hub.remove(id) }
}
