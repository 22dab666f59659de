// Finds the faults that a failure needs. The program runs in copies of the process, with the same seed and some of the faults: the others are
// drawn, but do not take place.

internal import SocketSystem

/// Faults of chaos, in the order in which they began.
struct FaultLog {
  struct Entry {
    let text: String
    let time: Int64
  }

  /// Those that take place; `nil` for all.
  let only: Set<Int>?
  private(set) var entries: [Entry] = []

  init(only: Set<Int>?) { self.only = only }

  /// Returns the number of the fault, from 1 on.
  mutating func add(_ text: String, at time: Int64) -> Int {
    entries.append(Entry(text: text, time: time))
    return entries.count
  }
}

extension Simulation {
  /// In runs.
  private static let mostReductions = 200
  /// In real time: 5 s and 20 times as long as the run that failed, but half a minute at most.
  private static func seconds(for failed: Int64) -> Int64 { min(30, 5 + 20 * failed) }

  /// A fault of chaos begins. Returns whether it takes place.
  func takesPlace(_ text: String, at time: Int64, among chosen: Set<Int>?) -> Bool {
    faults.withLock { log in
      let number = log.add(text, at: time)
      return (log.only ?? chosen)?.contains(number) ?? true
    }
  }

  /// The faults that the failure needs, by their numbers; `nil` if that cannot be found out, or if no fault took place. The run has failed with
  /// an error of this text, and took `seconds`.
  func neededFaults(
    _ settings: Settings, _ failure: String, after seconds: Int64,
    _ body: @escaping @Sendable (Simulation) async throws -> Void
  ) async -> [Int]? {
    let log = faults.withLock { $0 }
    if log.entries.isEmpty || log.only != nil { return nil }
    let kind = SimulationFailure.Kind.key(of: failure)
    let end = continuousNanoseconds() + Self.seconds(for: min(seconds, 100)) * 1_000_000_000
    var settings = settings
    settings.checksDeterminism = false
    var reduction = FaultReduction(Array(1...log.entries.count), limit: Self.mostReductions)
    while let faults = reduction.next(), continuousNanoseconds() < end, !Task.isCancelled {
      settings.faults = Set(faults)
      guard let record = await Self.record(of: seed, settings, body) else { return nil }
      if case .failed(let text) = record {
        reduction.tried(fails: SimulationFailure.Kind.key(of: text) == kind)
      } else {
        reduction.tried(fails: false)
      }
    }
    return reduction.needed
  }

  /// For people: the faults, and how to repeat the run with only them.
  func text(ofNeeded numbers: [Int]) -> String {
    let all = faults.withLock { $0.entries }
    let list = numbers.map { String($0) }.joined(separator: ",")
    if numbers.isEmpty { return "The failure needs no fault of chaos: set ACTORSOCKETS_FAULTS=0 to leave out all." }
    let lines = numbers.map { number in
      "\n  \(number): \(all[number - 1].text), at \(SimulationTrace.seconds(all[number - 1].time))"
    }
    return "The failure needs \(numbers.count) of \(all.count) faults of chaos:\(lines.joined())\n"
      + "Set ACTORSOCKETS_FAULTS=\(list), or onlyFaults of the chaos, to leave out the others."
  }
}
