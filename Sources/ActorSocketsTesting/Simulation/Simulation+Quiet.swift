internal import ActorSockets
internal import EpollReactor
internal import SocketSystem

extension Simulation {
  /// Checks that the programs have left nothing. Call it at the end of the simulated program, when everything is closed.
  ///
  /// ```swift
  /// await connection.close()
  /// await listener.close()
  /// try await simulation.assertQuiet()
  /// ```
  ///
  /// It takes time until the end of a connection has travelled to the peer, and the peer has answered. So this waits in virtual time until
  /// nothing is left, and fails if that takes too long. Tasks and sockets that end by themselves until then do not count.
  ///
  /// These count:
  ///
  /// - a socket that was not closed, a deadline, and a byte or a packet on its way
  /// - a task that waits, and a program that runs: end a server that you started with ``SimulatedHost/start(_:)`` first
  ///
  /// These do not count:
  ///
  /// - the program that calls it, an idle ``Reactor``, and a connection in TIME_WAIT
  /// - the tasks and sockets that a crash has stopped
  /// - a task of `Task.detached` that waits for something other than time or a socket
  ///
  /// *Cancellation* ends the wait with `CancellationError`. *Ordering*: the other tasks of the simulation run while it waits.
  ///
  /// - Parameter time: How long it waits in virtual time, from zero on; five seconds by default.
  /// - Throws: ``SimulationError`` with the code `.leftovers`, which lists what is left; `CancellationError`.
  public func assertQuiet(within time: Duration = .seconds(5)) async throws {
    let thread = VirtualThread.required
    let end = instant(thread.elapsed, plus: time.clampedNanoseconds)
    var step: Int64 = 1_000_000
    while true {
      // Tasks that are ready run first: one that was cancelled ends.
      for _ in 0..<Self.yields { await Task.yield() }
      let leftovers = thread.leftovers
      if leftovers.isEmpty { return }
      if thread.elapsed >= end {
        let count = leftovers.count == 1 ? "something is" : "\(leftovers.count) things are"
        let reason = "seed \(seed), at \(SimulationTrace.seconds(thread.elapsed)): \(count) left over"
        throw SimulationError(.leftovers, reason, at: thread.elapsed, waiting: leftovers)
      }
      let next = thread.elapsed + min(step, end - thread.elapsed)
      try await clock.sleep(until: SimulationClock.Instant(elapsed: .nanoseconds(next)))
      step = min(2 * step, 100_000_000)
    }
  }

  /// How often other work can run before anything counts as left over.
  private static let yields = 20
}

extension VirtualThread {
  func withMark<Result>(ofProgram kind: ProgramMark.Kind, _ make: (ProgramMark) -> Result) -> Result {
    let mark = ProgramMark(kind, of: currentOwner)
    remains.starts(mark)
    return ProgramMark.$current.withValue(mark) { make(mark) }
  }

  /// A line for each socket that waits when nothing is left to run, and for the unfinished tasks of each program.
  var waiting: [String] {
    drivers.filter { isAlive($0.owner) }.flatMap { driver in
      let name = driver.owner.host == 0 ? "" : "\(hosts[driver.owner.host].name): "
      return (driver.loop?.waiting ?? []).map { name + $0 }
    } + unfinished(besides: nil)
  }

  /// The programs that have not ended, apart from `caller` and the body of the simulation, and the unfinished tasks of all programs.
  private func unfinished(besides caller: ObjectIdentifier?) -> [String] {
    var lines: [String] = []
    for left in remains.left() where isAlive(left.mark.owner) {
      let host = hosts[left.mark.owner.host].name
      if left.isRunning, ObjectIdentifier(left.mark) != caller, left.mark.kind != .body {
        lines.append("\(host): \(left.mark.kind.program) still runs")
      }
      if left.tasks > 0 {
        let tasks = left.tasks == 1 ? "a task has" : "\(left.tasks) tasks have"
        lines.append("\(host): \(tasks) not ended that \(left.mark.kind.program) started")
      }
    }
    return lines
  }

  /// A line for each thing that is left, apart from the program that asks.
  var leftovers: [String] {
    var lines = unfinished(besides: ProgramMark.currentID)
    let sleeps = remains.sleeps.filter { isAlive($0.owner) }.map {
      (time(of: $0.end, on: $0.owner.host), $0.owner.host)
    }
    for (time, host) in sleeps.sorted(by: <) {
      lines.append("\(hosts[host].name): a task sleeps until \(SimulationTrace.seconds(time - Self.start))")
    }
    for driver in drivers where isAlive(driver.owner) {
      guard let loop = driver.loop else { continue }
      let host = hosts[driver.owner.host].name
      lines += loop.waiting.map { "\(host): \($0)" }
      if let deadline = loop.nextDeadline.map({ clocks[driver.owner.host].time(of: $0) }) {
        lines.append("\(host): a socket has a deadline at \(SimulationTrace.seconds(deadline - Self.start))")
      }
    }
    return lines + network.leftovers(hosts.map(\.name))
  }
}

extension ProgramMark.Kind {
  fileprivate var program: String {
    switch self {
    case .body: "the body of the simulation"
    case .run: "a program of `run`"
    case .start: "the program of `start`"
    }
  }
}
