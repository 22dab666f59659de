/// Delivers the signals that the program has taken over. There is one, because the handling of a signal is a property of the process.
///
/// The signal's handler counts and writes to an eventfd. A thread waits for the eventfd and delivers. The first subscription
/// starts it. It does not run code of the user, so it delivers however busy the program is. `SignalSubscriptions` says who hears of which
/// signal.
package final class SignalHub: Sendable {
  package static let shared = SignalHub()

  /// Called for each arrival, on the hub's thread or the one that ends a subscription. It must be short.
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

  /// Takes over signals. When this returns, they have no other effect.
  ///
  /// - Parameters:
  ///   - signals: The signals.
  ///   - limit: The number of arrivals after which the subscription ends, and the previous handling is restored; `nil` for no limit.
  ///     The next arrival has the previous effect. If that is to end the process, it does so in the first process of a container, too.
  ///   - receiver: Called for each arrival.
  /// - Returns: The subscription. When it is cancelled or dropped, the previous handling is restored.
  /// - Throws: The error of eventfd(2) or pthread_create(3).
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

  /// Ends a subscription, once. Signals that arrived before are delivered.
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

  /// Finds out what has arrived, and restores the signals that no subscription names any more.
  ///
  /// - Returns: The calls to make without the lock.
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

/// A part of the program that has taken over signals, until it is cancelled or dropped.
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
