internal import EpollReactor

package struct ServeTask {
  let options: ServeOptions
  /// Connections are handed to them in turn; empty to use the listener's own.
  private let reactors: [Reactor]
  private var nextReactor = 0
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

  /// Returns `nil` for the listener's own.
  mutating func takeReactor() -> Reactor? {
    if reactors.isEmpty { return nil }
    defer { nextReactor = (nextReactor + 1) % reactors.count }
    return reactors[nextReactor]
  }

  mutating func signalArrived() -> Drain {
    signalsSeen += 1
    return signalsSeen == 1 ? options.drain : .immediately
  }

  func end() { signals?.cancel() }
}
