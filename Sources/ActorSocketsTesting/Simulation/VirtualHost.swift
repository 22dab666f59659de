internal import EpollReactor

// A host of a simulation: what runs there, and what has stopped.
//
// Each task belongs to the host whose program created it, for as long as it lives. A host that crashes does not cancel its tasks, because
// a program whose power fails does not clean up: the tasks stop where they are. A default actor may have calls of other hosts, too, so it
// continues, and the tasks of the host that it would run are suspended (`VirtualThread.isStopped`).
//
//              ┌──────resume──────┐
//              ▼                  │
//           running ──pause──▶ paused
//            │   ▲                │
//          crash └──restart──┐  crash
//            ▼               │    ▼
//          crashed ──────────┴────┘

struct VirtualHost {
  enum State { case running, paused, crashed }

  let name: String
  var state = State.running
  /// How often the host has crashed. Work of an earlier life does not run.
  var life = 0
  /// Work that became ready while the host was paused.
  var held: [VirtualThread.Work] = []
  /// Tasks that would have run in a default actor while the host was paused.
  var parked: [UnownedJob] = []
  var reactor: Reactor?
  /// The program that runs again when the host restarts.
  var program: (@Sendable () async throws -> Void)?
  /// Each ends the wait for a program that runs.
  var crashHandlers: [Int: () -> Void] = [:]
  private var nextHandler = 0
  /// `nil` until it is used.
  var disk: HostDisk?
  /// What the test has given for each crash.
  var crashHooks: [@Sendable (SimulatedHost.Crash) -> Void] = []

  init(_ name: String) { self.name = name }

  /// Releases everything that the simulated program has given, because it may refer to the simulation.
  mutating func forgetProgram() {
    reactor = nil
    program = nil
    crashHandlers = [:]
    crashHooks = []
  }

  /// `body` is called once if the host crashes. Returns its key in `crashHandlers`.
  mutating func onCrash(_ body: @escaping () -> Void) -> Int {
    nextHandler += 1
    crashHandlers[nextHandler] = body
    return nextHandler
  }
}

struct HostLife: Hashable {
  let host: Int
  let life: Int
}
