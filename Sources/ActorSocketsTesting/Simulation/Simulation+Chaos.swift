// Chaos runs as a task beside the program. It decides with random numbers of its own (`RandomStreams`).
//
// Invariants:
// - At most one fault of each kind exists at one time. So the end of a fault restores what was there before it.
// - Every fault that begins is in `faults`, with what ends it, until it has ended. The task ends them all before it ends, and
//   `withChaos` waits for the task.
// - The hosts of the caller and of the simulation's own program neither pause nor crash: the task runs on one of them.

internal import ActorSockets
internal import EpollReactor

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
    return try await withThrowingTaskGroup { group in
      group.addTask { await maker.run() }
      let result: Swift.Result<Result, any Error>
      do { result = .success(try await body()) } catch { result = .failure(error) }
      group.cancelAll()
      while try await group.next() != nil {}
      return try result.get()
    }
  }
}

private actor ChaosMaker {
  private struct Current {
    let fault: Chaos.Fault
    let end: Int64
    let repair: () -> Void
  }

  private let chaos: Chaos
  /// `nil` for all hosts.
  private let chosen: [Int]?
  private var faults: [Current] = []

  init(_ chaos: Chaos, _ hosts: [Int]?) {
    self.chaos = chaos
    chosen = hosts
  }

  func run() async {
    let thread = VirtualThread.required
    var next = thread.elapsed + draw(chaos.interval, on: thread)
    while !Task.isCancelled {
      let time = faults.reduce(next) { min($0, $1.end) }
      // Ends when the task is cancelled.
      let end = SimulationClock.Instant(elapsed: .nanoseconds(max(time, thread.elapsed)))
      try? await SimulationClock(thread: thread).sleep(until: end)
      if Task.isCancelled { break }
      repair(thread.elapsed, on: thread)
      if next <= thread.elapsed {
        begin(on: thread)
        next = thread.elapsed + max(1, draw(chaos.interval, on: thread))
      }
    }
    repair(.max, on: thread)
  }

  private func repair(_ now: Int64, on thread: VirtualThread) {
    for fault in faults where fault.end <= now {
      fault.repair()
      note("chaos: \(fault.fault) ends", of: fault.fault, on: thread)
    }
    faults.removeAll { $0.end <= now }
  }

  /// The record has the conditions of hosts anyway.
  private func note(_ text: String, of fault: Chaos.Fault, on thread: VirtualThread) {
    switch fault {
    case .crash, .pause: thread.noteInTrace(text)
    default: thread.note(text)
    }
  }

  private func draw(_ range: ClosedRange<Duration>, on thread: VirtualThread) -> Int64 {
    let (least, most) = (max(0, range.lowerBound.clampedNanoseconds), max(0, range.upperBound.clampedNanoseconds))
    return least + Int64(thread.streams.chaos.fraction() * Double(most - least))
  }

  /// Begins a fault of a kind that is not active, if there is one.
  private func begin(on thread: VirtualThread) {
    let possible = Chaos.Fault.allCases.filter { fault in
      !faults.contains { $0.fault == fault } && chaos.weights[fault] ?? 0 > 0
    }
    // The same number of draws each time, so that runs with other weights have most in common.
    var position = thread.streams.chaos.fraction() * possible.reduce(0) { $0 + (chaos.weights[$1] ?? 0) }
    let time = draw(chaos.duration, on: thread)
    var random = SplitMix(seed: thread.streams.chaos.next())
    let fault = possible.first { fault in
      position -= chaos.weights[fault] ?? 0
      return position < 0
    }
    guard let fault = fault ?? possible.last, let begun = begin(fault, on: thread, &random) else { return }
    note("chaos: \(fault) \(begun.text)", of: fault, on: thread)
    faults.append(Current(fault: fault, end: thread.elapsed + time, repair: begun.repair))
  }

  private func begin(
    _ fault: Chaos.Fault, on thread: VirtualThread, _ random: inout SplitMix
  ) -> (text: String, repair: () -> Void)? {
    switch fault {
    case .pause:
      guard let host = host(on: thread, &random) else { return nil }
      thread.pause(host)
      return ("of \(thread.hosts[host].name)", { thread.resume(host) })
    case .crash:
      guard let host = host(on: thread, &random) else { return nil }
      let keepsKernel = random.next(upTo: 2) == 0
      thread.crash(host, keepsKernel: keepsKernel)
      return ("of \(thread.hosts[host].name)", { thread.restart(host) })
    case .latency:
      let most = min(chaos.latency, .seconds(86_400))
      return disturb(on: thread, &random, { $0.latency = .uniform(most / 2, most) }, { $0.latency = nil })
    case .loss: return disturb(on: thread, &random, { $0.loss = self.chaos.fraction }, { $0.loss = 0 })
    case .duplication:
      return disturb(on: thread, &random, { $0.duplication = self.chaos.fraction }, { $0.duplication = 0 })
    case .reordering:
      return disturb(on: thread, &random, { $0.reordering = self.chaos.fraction }, { $0.reordering = 0 })
    case .partition: return disturb(on: thread, &random, { $0.isCut = true }, { $0.isCut = false })
    case .smallMTU: return disturb(on: thread, &random, { $0.mtu = 576 }, { $0.mtu = nil })
    }
  }

  /// A running host that may stop; `nil` if no host may.
  private func host(on thread: VirtualThread, _ random: inout SplitMix) -> Int? {
    let own = thread.currentOwner.host
    let running = (chosen ?? Array(thread.hosts.indices)).filter {
      $0 != 0 && $0 != own && thread.hosts[$0].state == .running
    }
    return running.isEmpty ? nil : running[Int(random.next(upTo: UInt64(running.count)))]
  }

  /// Changes the links between a random group of the hosts and the others.
  private func disturb(
    on thread: VirtualThread, _ random: inout SplitMix, _ change: (inout LinkDisturbance) -> Void,
    _ restore: @escaping (inout LinkDisturbance) -> Void
  ) -> (text: String, repair: () -> Void)? {
    let all = chosen ?? Array(thread.hosts.indices)
    if all.count < 2 { return nil }
    // One is in the group for certain, and another one is not.
    let first = Int(random.next(upTo: UInt64(all.count)))
    let last = (first + 1 + Int(random.next(upTo: UInt64(all.count - 1)))) % all.count
    let group = all.indices.filter { index in
      let isChosen = random.next(upTo: 2) == 0
      return index == first || (index != last && isChosen)
    }.map { all[$0] }
    let others = all.filter { !group.contains($0) }
    let ways = group.flatMap { one in others.flatMap { [(one, $0), ($0, one)] } }
    Self.disturb(ways, on: thread, change)
    let names = group.map { thread.hosts[$0].name }.joined(separator: ", ")
    return (
      "between \(names) and the others",
      { Self.disturb(ways, on: thread, restore) }
    )
  }

  private static func disturb(
    _ ways: [(Int, Int)], on thread: VirtualThread, _ change: (inout LinkDisturbance) -> Void
  ) {
    for (from, to) in ways {
      thread.network.links.disturb(from: from, to: to, change)
      thread.happenedLink(from: from, to: to)
    }
  }
}
