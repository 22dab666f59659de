// Which parts of the program have taken over which signals, as a pure state machine. It never calls the kernel. `SignalHub` takes signals
// over and restores them as it says.
//
//    not taken over ──first subscription──▶ taken over ──last subscription ends──▶ not taken over
//
// Invariants:
// - A signal is taken over while a subscription names it.
// - Every subscription that names a signal gets each arrival since the subscription began, once, until it ends. If more than 64 arrivals
//   of one signal are found together, the further ones are dropped.
// - An arrival that no subscription gets is not lost: the signal is raised again after its previous handling was restored.
// - A subscription gets the arrivals of one signal in order. Signals that are delivered together are in the order of their numbers,
//   because the kernel does not say which was first.

/// `Receiver` is what the owner of the machine keeps with each subscription.
struct SignalSubscriptions<Receiver> {
  typealias ID = UInt64

  /// A signal to restore, and how often it had arrived when that was delivered. If it has arrived more often when it is restored, raise
  /// it once again.
  struct Restoration: Hashable {
    let signal: ProcessSignal
    let delivered: UInt64
  }

  private struct Subscription {
    let id: ID
    let signals: Set<ProcessSignal>
    /// The number of arrivals that are left; `nil` for no limit.
    var limit: Int?
    let receiver: Receiver
  }

  private var subscriptions: [Subscription] = []
  /// For each signal that is taken over, how often it had arrived when that was delivered.
  private var delivered: [ProcessSignal: UInt64] = [:]
  private var nextID: ID = 0

  var taken: Set<ProcessSignal> { Set(delivered.keys) }

  /// Deliver what has arrived before you call this. `limit` is at least 1; `nil` is no limit. `count` returns how often a signal has
  /// arrived. `toTake` are the signals to take over now.
  mutating func add(
    _ signals: Set<ProcessSignal>, endingAfter limit: Int?, _ receiver: Receiver, count: (ProcessSignal) -> UInt64
  ) -> (id: ID, toTake: [ProcessSignal]) {
    nextID += 1
    subscriptions.append(Subscription(id: nextID, signals: signals, limit: limit, receiver: receiver))
    let toTake = signals.filter { delivered[$0] == nil }.sorted { $0.rawValue < $1.rawValue }
    for signal in toTake { delivered[signal] = count(signal) }
    return (nextID, toTake)
  }

  /// Returns the signals to restore now. It does nothing if the subscription has ended before.
  mutating func remove(_ id: ID) -> [Restoration] {
    subscriptions.removeAll { $0.id == id }
    return dropUnused()
  }

  /// Finds out what has arrived since the last call. Returns each signal that arrived, as often as it arrived, with all its receivers;
  /// and the signals to restore now.
  mutating func deliver(
    count: (ProcessSignal) -> UInt64
  ) -> (arrivals: [(signal: ProcessSignal, receivers: [Receiver])], toRestore: [Restoration]) {
    var arrivals: [(signal: ProcessSignal, receivers: [Receiver])] = []
    for (signal, before) in delivered.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
      let now = count(signal)
      assert(now >= before, "a count never becomes smaller")
      delivered[signal] = now
      for number in before..<min(now, before + Self.mostAtOnce) {
        let receivers = hear(signal)
        if receivers.isEmpty {
          delivered[signal] = number
          break
        }
        arrivals.append((signal, receivers))
      }
    }
    return (arrivals, dropUnused())
  }

  /// Returns the receivers of one arrival, and ends the subscriptions for which it was the last.
  private mutating func hear(_ signal: ProcessSignal) -> [Receiver] {
    var receivers: [Receiver] = []
    for index in subscriptions.indices where subscriptions[index].signals.contains(signal) {
      receivers.append(subscriptions[index].receiver)
      if let limit = subscriptions[index].limit { subscriptions[index].limit = limit - 1 }
    }
    subscriptions.removeAll { $0.limit == 0 }
    return receivers
  }

  private mutating func dropUnused() -> [Restoration] {
    let unused = taken.filter { signal in !subscriptions.contains { $0.signals.contains(signal) } }
    return unused.sorted { $0.rawValue < $1.rawValue }.map { signal in
      Restoration(signal: signal, delivered: delivered.removeValue(forKey: signal) ?? 0)
    }
  }

  /// No program needs more, and a flood of signals must not take memory.
  static var mostAtOnce: UInt64 { 64 }
}
