internal import EpollReactor

package struct ServeTask {
  let options: ServeOptions
  /// Connections are handed to them in turn; empty to use the listener's own.
  private let reactors: [Reactor]
  private var nextReactor = 0
  var stop: ServeStop

  init(_ options: ServeOptions, _ reactors: [Reactor], _ stop: ServeStop) {
    self.options = options
    self.reactors = reactors
    self.stop = stop
  }

  /// Returns `nil` for the listener's own.
  mutating func takeReactor() -> Reactor? {
    if reactors.isEmpty { return nil }
    defer { nextReactor = (nextReactor + 1) % reactors.count }
    return reactors[nextReactor]
  }
}
