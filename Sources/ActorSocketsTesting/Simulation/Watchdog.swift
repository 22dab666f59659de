// Ends the process when a job of a simulation blocks its thread or never ends: no other job could run, and no time would pass.
//
// A thread of its own looks once a second, in real time. It exists from the first simulation of the process on, and waits without looking
// while no simulation runs. A copy of the process does not have that thread, so it makes a watchdog of its own.

internal import SocketSystem
internal import Synchronization

final class Watchdog: Sendable {
  static let shared = Watchdog()
  /// How many seconds a job may take in real time; 0 means no limit.
  static let limit = CurrentProcess.variable("ACTORSOCKETS_JOB_SECONDS").flatMap { Int($0) } ?? 60

  private let watched = Locked<VirtualThread?>(nil)
  private let begins = Condition()
  /// Of the jobs of all simulations, because at most one runs.
  private static let job = Atomic<UInt64>(0)
  private static let host = Atomic<Int>(0)

  init() {
    // Without the thread, simulations run unwatched.
    try? startThread(name: "watchdog") { [self] in while true { watch() } }
  }

  // MARK: The simulation's thread

  func begins(_ thread: VirtualThread) {
    Self.jobBegins(on: 0)
    watched.withLock { $0 = thread }
    begins.signal()
  }

  func ends() { watched.withLock { $0 = nil } }

  static func jobBegins(on host: Int) {
    // Only this thread writes.
    job.store(job.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
    self.host.store(host, ordering: .relaxed)
  }

  // MARK: The watching thread

  /// Until the simulation has ended.
  private func watch() {
    watched.wait(for: begins) { $0 == nil ? nil : () }
    var watch = JobWatch(limit: Self.limit)
    while let thread = watched.withLock({ $0 }) {
      if watch.tick(Self.job.load(ordering: .relaxed)) {
        thread.abort(
          "a job has not ended after \(watch.limit) s of real time: it blocks the thread, or it loops",
          on: Self.host.load(ordering: .relaxed))
      }
      VirtualClock.waitInRealTime(seconds: 1)
    }
  }
}
