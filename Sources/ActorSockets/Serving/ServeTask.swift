internal import EpollReactor

package struct ServeTask {
  let options: ServeOptions
  /// Connections are handed to them in turn; empty to use the listener's own.
  private let reactors: [Reactor]
  private var nextReactor = 0
  /// `nil` if the listener is served by itself.
  let group: ReactorBound<ServeGroup>?
  /// The number of the last call of `accept` that the server has made and that had to wait.
  var accept: UInt64?
  var stop: ServeStop

  init(_ options: ServeOptions, _ reactors: [Reactor], _ group: ReactorBound<ServeGroup>?, _ stop: ServeStop) {
    self.options = options
    self.reactors = reactors
    self.group = group
    self.stop = stop
  }

  /// Returns `nil` for the listener's own.
  mutating func takeReactor() -> Reactor? {
    if reactors.isEmpty { return nil }
    defer { nextReactor = (nextReactor + 1) % reactors.count }
    return reactors[nextReactor]
  }
}
