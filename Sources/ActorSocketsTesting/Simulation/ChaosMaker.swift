// Chaos runs as a task beside the program. It decides with random numbers of its own (`RandomStreams`).
//
// Invariants:
// - At most as many faults of a kind exist at one time as `Chaos.mostAtOnce` says. The end of a fault takes away only that fault.
// - Every fault that begins is in `faults`, with what ends it, until it has ended. The task ends them all before it ends, and
//   `withChaos` waits for the task. After that, no fault begins at a point.
// - The hosts of the caller and of the simulation's own program neither pause nor crash: the task runs on one of them.

internal import ActorSockets

actor ChaosMaker {
  private struct Current {
    let fault: Chaos.Fault
    /// For example `crash of server`.
    let text: String
    let end: Int64
    /// `nil` if the fault is left out: `Chaos.onlyFaults`.
    let repair: (() -> Void)?
  }

  private let chaos: Chaos
  /// `nil` for all hosts.
  private let chosen: [Int]?
  private var faults: [Current] = []
  /// When the next fault begins that does not begin at a point; `nil` before the beginning and after the end.
  private var next: Int64?
  /// Ends when a fault begins or ends.
  private var sleep: Task<Void, Never>?
  /// Decides at which points faults begin.
  private var choice: UInt64 = 0
  /// The host of the task.
  private var own = HostLife(host: 0, life: 0)

  init(_ chaos: Chaos, _ hosts: [Int]?) {
    self.chaos = chaos
    chosen = hosts
  }

  func run() async {
    let thread = VirtualThread.required
    own = thread.currentOwner
    choice = thread.streams.chaos.next()
    var next = instant(thread.elapsed, plus: draw(chaos.interval, on: thread))
    while !Task.isCancelled {
      self.next = next
      await sleep(until: faults.reduce(next) { min($0, $1.end) }, on: thread)
      if Task.isCancelled { break }
      repair(thread.elapsed, on: thread)
      if next <= thread.elapsed {
        begin(on: thread)
        next = instant(thread.elapsed, plus: max(1, draw(chaos.interval, on: thread)))
      }
    }
    self.next = nil
    repair(.max, on: thread)
  }

  /// Also ends when the task is cancelled, and when a fault begins at a point.
  private func sleep(until time: Int64, on thread: VirtualThread) async {
    let end = SimulationClock.Instant(elapsed: .nanoseconds(max(time, thread.elapsed)))
    let sleep = Task { _ = try? await SimulationClock(thread: thread).sleep(until: end) }
    self.sleep = sleep
    await withTaskCancellationHandler {
      await sleep.value
    } onCancel: {
      sleep.cancel()
    }
  }

  private func repair(_ now: Int64, on thread: VirtualThread) {
    for fault in faults where fault.end <= now {
      guard let repair = fault.repair else { continue }
      repair()
      note("chaos: \(fault.text) ends", of: fault.fault, on: thread)
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
    draw(range, &thread.streams.chaos)
  }

  private func draw(_ range: ClosedRange<Duration>, _ random: inout SplitMix) -> Int64 {
    let (least, most) = (max(0, range.lowerBound.clampedNanoseconds), max(0, range.upperBound.clampedNanoseconds))
    return least + Int64(random.fraction() * Double(most - least))
  }

  // MARK: Which fault

  private func isPossible(_ fault: Chaos.Fault) -> Bool {
    chaos.weights[fault] ?? 0 > 0 && faults.count { $0.fault == fault } < max(1, chaos.mostAtOnce[fault] ?? 1)
  }

  /// Begins a fault of a kind that may have another one, if there is one.
  private func begin(on thread: VirtualThread) {
    // The same number of draws each time, so that runs with other weights have most in common.
    let position = thread.streams.chaos.fraction()
    let time = draw(chaos.duration, on: thread)
    var random = SplitMix(seed: thread.streams.chaos.next())
    guard let fault = fault(at: position, of: Chaos.Fault.allCases.filter(isPossible)) else { return }
    begin(fault, for: time, on: thread, &random)
  }

  /// A task of the host has come to a point of the program.
  func reached(_ name: String, on host: Int) {
    guard next != nil, let thread = VirtualThread.current, thread.isAlive(own), chosen?.contains(host) ?? true else {
      return
    }
    let (chance, position) = (thread.streams.chaos.fraction(), thread.streams.chaos.fraction())
    let time = draw(chaos.duration, on: thread)
    var hash = TraceHash()
    hash.mix(Array(name.utf8).span)
    var ofName = SplitMix(seed: choice ^ hash.value)
    if ofName.next(upTo: 2) == 0 || chance >= chaos.pointChance { return }
    let possible = (mayStop(host, on: thread) ? [Chaos.Fault.pause, .crash] : []) + [.partition]
    guard let fault = fault(at: position, of: possible.filter(isPossible)) else { return }
    switch fault {
    case .pause: pause(host, for: time, on: thread)
    case .crash: crash(host, for: time, on: thread, keepsKernel: ofName.next(upTo: 2) == 0)
    default:
      let others = (chosen ?? Array(thread.hosts.indices)).filter { $0 != host }
      disturb([host], others, .partition, LinkDisturbance(isCut: true), for: time, on: thread)
    }
    sleep?.cancel()
  }

  /// `position` is from 0 to 1.
  private func fault(at position: Double, of possible: [Chaos.Fault]) -> Chaos.Fault? {
    var position = position * possible.reduce(0) { $0 + (chaos.weights[$1] ?? 0) }
    let fault = possible.first { fault in
      position -= chaos.weights[fault] ?? 0
      return position < 0
    }
    return fault ?? possible.last
  }

  private func begin(_ fault: Chaos.Fault, for time: Int64, on thread: VirtualThread, _ random: inout SplitMix) {
    switch fault {
    case .pause:
      guard let host = host(on: thread, &random) else { return }
      pause(host, for: time, on: thread)
    case .crash:
      // Some at the same moment, each for a time of its own.
      let down = faults.count { $0.fault == .crash }
      let count = random.next(upTo: UInt64(max(1, (chaos.mostAtOnce[.crash] ?? 1) - down)))
      for number in 0...count {
        let keepsKernel = random.next(upTo: 2) == 0
        guard let host = host(on: thread, &random) else { return }
        crash(host, for: number == 0 ? time : draw(chaos.duration, &random), on: thread, keepsKernel: keepsKernel)
      }
    case .latency:
      let most = min(chaos.latency, .seconds(86_400))
      disturb(fault, LinkDisturbance(latency: .uniform(most / 2, most)), for: time, on: thread, &random)
    case .loss: disturb(fault, LinkDisturbance(loss: chaos.fraction), for: time, on: thread, &random)
    case .duplication: disturb(fault, LinkDisturbance(duplication: chaos.fraction), for: time, on: thread, &random)
    case .reordering: disturb(fault, LinkDisturbance(reordering: chaos.fraction), for: time, on: thread, &random)
    case .partition: disturb(fault, LinkDisturbance(isCut: true), for: time, on: thread, &random)
    case .smallMTU: disturb(fault, LinkDisturbance(mtu: 576), for: time, on: thread, &random)
    }
  }

  // MARK: Faults

  /// `begin` returns what ends the fault.
  private func add(
    _ fault: Chaos.Fault, _ text: String, for time: Int64, on thread: VirtualThread, _ begin: () -> () -> Void
  ) {
    let text = "\(fault) \(text)"
    let takesPlace = thread.simulation?.takesPlace(text, at: thread.elapsed, among: chaos.onlyFaults) ?? true
    if takesPlace { note("chaos: \(text)", of: fault, on: thread) }
    faults.append(
      Current(fault: fault, text: text, end: instant(thread.elapsed, plus: time), repair: takesPlace ? begin() : nil))
  }

  private func pause(_ host: Int, for time: Int64, on thread: VirtualThread) {
    add(.pause, "of \(thread.hosts[host].name)", for: time, on: thread) {
      thread.pause(host)
      return { thread.resume(host) }
    }
  }

  private func crash(_ host: Int, for time: Int64, on thread: VirtualThread, keepsKernel: Bool) {
    let way = keepsKernel ? "the program is killed" : "the power fails"
    add(.crash, "of \(thread.hosts[host].name), \(way)", for: time, on: thread) {
      thread.crash(host, keepsKernel: keepsKernel)
      return { thread.restart(host) }
    }
  }

  private func mayStop(_ host: Int, on thread: VirtualThread) -> Bool {
    host != 0 && host != own.host && thread.hosts[host].state == .running
  }

  /// A running host that may stop; `nil` if no host may.
  private func host(on thread: VirtualThread, _ random: inout SplitMix) -> Int? {
    let running = (chosen ?? Array(thread.hosts.indices)).filter { mayStop($0, on: thread) }
    return running.isEmpty ? nil : running[Int(random.next(upTo: UInt64(running.count)))]
  }

  /// Changes the links between a random group of the hosts and the others.
  private func disturb(
    _ fault: Chaos.Fault, _ disturbance: LinkDisturbance, for time: Int64, on thread: VirtualThread,
    _ random: inout SplitMix
  ) {
    let all = chosen ?? Array(thread.hosts.indices)
    if all.count < 2 { return }
    // One is in the group for certain, and another one is not.
    let first = Int(random.next(upTo: UInt64(all.count)))
    let last = (first + 1 + Int(random.next(upTo: UInt64(all.count - 1)))) % all.count
    let group = all.indices.filter { index in
      let isChosen = random.next(upTo: 2) == 0
      return index == first || (index != last && isChosen)
    }.map { all[$0] }
    disturb(group, all.filter { !group.contains($0) }, fault, disturbance, for: time, on: thread)
  }

  private func disturb(
    _ group: [Int], _ others: [Int], _ fault: Chaos.Fault, _ disturbance: LinkDisturbance, for time: Int64,
    on thread: VirtualThread
  ) {
    let ways = group.flatMap { one in others.flatMap { [(from: one, to: $0), (from: $0, to: one)] } }
    let names = group.map { thread.hosts[$0].name }.joined(separator: ", ")
    add(fault, "between \(names) and the others", for: time, on: thread) {
      let number = thread.network.links.disturb(ways, by: disturbance)
      for (from, to) in ways { thread.happenedLink(from: from, to: to) }
      return {
        thread.network.links.endDisturbance(number, of: ways)
        for (from, to) in ways { thread.happenedLink(from: from, to: to) }
      }
    }
  }
}
