internal import ActorSockets

extension Simulation {
  /// Runs a part of the simulated program while links and hosts fail, as the seed decides, and repairs everything that failed.
  ///
  /// A fault of links concerns those between some of the hosts and the others. Each fault is a line of the ``trace``. The links that
  /// ``link(from:to:)`` returns do not change: faults add to them.
  ///
  /// *Cancellation* cancels the body. The faults are repaired when it ends.
  ///
  /// *Ordering*: when this returns, everything is repaired, and no new fault begins.
  ///
  /// - Parameters:
  ///   - chaos: Which faults happen, and how often; all but crashes by default.
  ///   - hosts: The hosts that can fail. The links between them can fail, too. By default, these are all hosts that exist when a fault
  ///     begins. The host of the caller and the host `main` neither pause nor crash, but their links can fail.
  ///   - body: The part of the program.
  /// - Returns: The result of the body.
  /// - Throws: The error of the body.
  public func withChaos<Result>(
    _ chaos: Chaos = Chaos(), among hosts: [SimulatedHost]? = nil, _ body: () async throws -> Result
  ) async throws -> Result {
    let maker = ChaosMaker(chaos, hosts?.map(\.number))
    chaosMakers.withLock { $0.append(maker) }
    defer { chaosMakers.withLock { $0.removeAll { $0 === maker } } }
    return try await withThrowingTaskGroup { group in
      group.addTask { await maker.run() }
      let result: Swift.Result<Result, any Error>
      do { result = .success(try await body()) } catch { result = .failure(error) }
      group.cancelAll()
      while try await group.next() != nil {}
      return try result.get()
    }
  }

  /// Marks a point of the simulated program at which a fault is interesting, such as between a decision and its message. While
  /// ``withChaos(_:among:_:)`` runs, the host can crash, stand still or lose its links exactly here.
  ///
  /// ```swift
  /// term.vote = candidate
  /// await Simulation.current?.point("voted")
  /// try await disk.save(term)
  /// ```
  ///
  /// The trace has a line for it. Elsewhere than in the simulated program it does nothing.
  ///
  /// *Cancellation* has no effect. If the host crashes here, the call does not return.
  ///
  /// - Parameter name: The name of the point. It must not contain anything that differs from run to run.
  public func point(_ name: String) async {
    guard let thread = VirtualThread.current, thread.simulation === self else { return }
    let owner = thread.currentOwner
    thread.note("is at the point \"\(name)\"")
    for maker in chaosMakers.withLock({ $0 }) { await maker.reached(name, on: owner.host) }
    // If the host has stopped, its tasks stop when they are resumed.
    if !thread.isAlive(owner) || thread.hosts[owner.host].state == .paused { await Task.yield() }
  }
}
