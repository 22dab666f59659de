/// What ends a simulation before its program does.
struct SimulationEnd {
  /// In nanoseconds, on the clock of the simulation.
  let timeLimit: Int64
  /// The error of a host's program.
  private(set) var failure: (any Error)?
  private(set) var hasBegun = false
  private var refusedSleeps = 0

  init(timeLimit: Int64) { self.timeLimit = timeLimit }

  /// An error that the end itself causes does not count.
  mutating func programFailed(_ error: any Error) {
    if !hasBegun, failure == nil { failure = error }
  }

  mutating func begin() { hasBegun = true }

  /// A program that sleeps in a loop would sleep for ever, because nothing else runs. Returns whether it has slept too often.
  mutating func refusesSleep() -> Bool {
    refusedSleeps += 1
    return refusedSleeps > 1_000
  }
}
