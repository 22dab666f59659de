internal import EpollReactor

/// What a call of `serve` holds until it returns.
package struct ServeTask {
  let options: ServeOptions
  /// The reactors that connections are handed to in turn; empty to use the listener's own.
  private let reactors: [Reactor]
  private var nextReactor = 0
  /// The signals that stop the server, and how many of them have arrived.
  private let signals: SignalSubscription?
  private(set) var signalsSeen = 0
  /// The end of the drain.
  var deadline: DeadlineKey?
  /// The accepting loop, which waits for room or for the end of the drain.
  var waiter: Suspension?

  init(_ options: ServeOptions, _ reactors: [Reactor], _ signals: SignalSubscription?) {
    self.options = options
    self.reactors = reactors
    self.signals = signals
  }

  /// Returns the reactor for the next connection, in turn; `nil` for the listener's own.
  mutating func takeReactor() -> Reactor? {
    if reactors.isEmpty { return nil }
    defer { nextReactor = (nextReactor + 1) % reactors.count }
    return reactors[nextReactor]
  }

  /// A signal has arrived: returns the drain that it begins.
  mutating func signalArrived() -> Drain {
    signalsSeen += 1
    return signalsSeen == 1 ? options.drain : .immediately
  }

  /// Gives the signals back.
  func end() { signals?.cancel() }
}
