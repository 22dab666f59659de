// Whether a part of the hosts makes progress when only it works: the liveness that a system promises for its majority.

internal import ActorSockets

extension Simulation {
  /// Runs a part of the program while a core of hosts works and the others fail, as the seed decides, and demands that it ends in time.
  ///
  /// ```swift
  /// try await simulation.withChaos(chaos) { try await runClients() }
  /// // Any two of the three must elect a leader and answer, whatever has happened before.
  /// let core = Array(servers.shuffled(using: &simulation.random).prefix(2))
  /// try await simulation.requireProgress(of: core, within: .seconds(30)) { try await write("one more") }
  /// ```
  ///
  /// At first the core is repaired: its hosts restart and continue, and the links between them and the host of the caller are no longer cut.
  /// Of the other hosts, each one crashes, stands still, loses its links or stays as it is. Host `main` and the host of the caller always work. In the
  /// end, all hosts work again, and no link is cut. Do not call it while ``withChaos(_:among:_:)`` runs, which would break the core.
  ///
  /// *Cancellation* cancels the body. *Ordering*: the body begins when the faults are there.
  ///
  /// - Parameters:
  ///   - core: The hosts that work.
  ///   - time: The virtual time in which the body has to end, from zero on.
  ///   - body: The part of the program that needs the core.
  /// - Returns: The result of the body.
  /// - Throws: The error of the body; ``SimulationError`` with the code `.noProgress`, and what waits, if the body has not ended in time. It is
  ///   cancelled then.
  public func requireProgress<Result: Sendable>(
    of core: [SimulatedHost], within time: Duration, _ body: @escaping @Sendable () async throws -> Result
  ) async throws -> Result {
    let thread = VirtualThread.required
    thread.isolate(core.map(\.number))
    defer { thread.repairAll() }
    let end = clock.now.advanced(by: max(.zero, time))
    return try await withThrowingTaskGroup(of: Result?.self) { group in
      group.addTask { try await body() }
      group.addTask {
        try await self.clock.sleep(until: end)
        return nil
      }
      defer { group.cancelAll() }
      if let result = try await group.next() ?? nil { return result }
      throw SimulationError(
        .noProgress, "\(thread.place): the core has made no progress in \(time)", at: thread.elapsed,
        waiting: thread.waiting)
    }
  }
}

extension VirtualThread {
  /// Repairs the core, and lets the other hosts fail.
  fileprivate func isolate(_ core: [Int]) {
    let working = Set(core + [0, currentOwner.host])
    note("only \(core.map { hosts[$0].name }.joined(separator: ", ")) must work")
    repair(working.sorted())
    for host in hosts.indices where !working.contains(host) {
      switch streams.chaos.next(upTo: 4) {
      case 0: crash(host, keepsKernel: false)
      case 1: pause(host)
      case 2:
        note("\(hosts[host].name) loses its links")
        for other in hosts.indices where other != host {
          cut(true, from: host, to: other)
          cut(true, from: other, to: host)
        }
      default: continue
      }
    }
  }

  fileprivate func repairAll() {
    note("all hosts work again")
    repair(Array(hosts.indices))
  }

  private func repair(_ working: [Int]) {
    for host in working {
      resume(host)
      restart(host)
      for other in working where other != host && network.links.link(from: host, to: other).isCut {
        cut(false, from: host, to: other)
      }
    }
  }

  private func cut(_ isCut: Bool, from: Int, to: Int) {
    network.links.cut(isCut, from: from, to: to)
    happenedLink(from: from, to: to)
  }
}
