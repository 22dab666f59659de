import EpollReactor
import Foundation
import SocketSystem

/// How many times longer than usual everything may take: `ACTORSOCKETS_PATIENCE` if that is more than this process is slower than usual.
/// So a slow machine, a sanitizer or other work moves the deadlines and not the results.
package let patience = max(
  slowness, ProcessInfo.processInfo.environment["ACTORSOCKETS_PATIENCE"].flatMap { Int($0) } ?? 1)

/// How many rounds races and random inputs have, if that is set: `ACTORSOCKETS_ROUNDS`.
package let wantedRounds = ProcessInfo.processInfo.environment["ACTORSOCKETS_ROUNDS"].flatMap { Int($0) }

private let wantedSeeds = ProcessInfo.processInfo.environment["ACTORSOCKETS_SEED_COUNT"].flatMap { Int($0) }

/// How many seeds a test with simulations, or with a simulated kernel, tries: `ACTORSOCKETS_SEED_COUNT`, but at most `most`.
package func seeds(_ usual: Int, atMost most: Int = 100_000) -> UInt64 {
  UInt64(min(wantedSeeds ?? usual, most))
}

/// The deadline, for `within`, of a test that tries `seeds` in simulations.
package let secondsForSeeds = 120 + (wantedSeeds ?? 0) / 2

/// A condition that did not come true, or a call that did not return, in the time a test gave it.
package struct Overdue: Error, CustomStringConvertible {
  package let description: String

  package init(description: String) { self.description = description }
}

/// Runs `body`, and fails with a sentence if it does not return in time.
///
/// At first the task is cancelled, which ends most waits. A call that does not heed that would hang for ever, so the whole
/// process then ends with the same sentence, and test.sh runs the suites that are left in another one. `what` is the end of the
/// sentence: what should have happened.
@discardableResult
package nonisolated(nonsending) func within<Value>(
  _ what: String, seconds: Int = 60, file: String = #fileID, line: Int = #line,
  _ body: nonisolated(nonsending) () async throws -> Value
) async throws -> Value {
  let seconds = seconds * patience
  let sentence = "\(file):\(line): after \(seconds) seconds still not: \(what)"
  let watch = Watchdog.shared.begin(seconds, sentence)
  defer { Watchdog.shared.end(watch) }
  do {
    let value = try await body()
    if Watchdog.shared.isOverdue(watch) { throw Overdue(description: sentence) }
    return value
  } catch {
    if Watchdog.shared.isOverdue(watch) { throw Overdue(description: "\(sentence) (\(error))") }
    throw error
  }
}

/// Waits until a condition holds, by asking again and again; `what` should come true.
package nonisolated(nonsending) func eventually(
  _ what: String, seconds: Int = 60, file: String = #fileID, line: Int = #line,
  _ condition: nonisolated(nonsending) () async throws -> Bool
) async throws {
  let seconds = seconds * patience
  let end = ContinuousClock.now + .seconds(seconds)
  var tries = 0
  while true {
    if try await condition() { return }
    if ContinuousClock.now > end {
      throw Overdue(description: "\(file):\(line): after \(seconds) seconds still not: \(what)")
    }
    tries += 1
    // Asking without a pause would keep the pool from those who make it true.
    if tries < 20 {
      await Task.yield()
    } else if !CurrentSystem.calls.mayWaitForThreads {
      // A simulation waits for no thread. This pause takes no real time.
      try await Task.sleep(for: .milliseconds(1))
    } else {
      try await onThread { _ = poll(nil, 0, 1) }
    }
  }
}

/// One thread that looks after all `within` that are under way.
private final class Watchdog: Sendable {
  static let shared = Watchdog()

  private struct Watch: Sendable {
    let sentence: String
    /// When it is overdue, on the clock of the watchdog's thread; `nil` before its first look. Other threads may be in a simulation.
    var end: ContinuousClock.Instant?
    let seconds: Int
    let canceller: Canceller
    var isOverdue = false
  }

  private struct State {
    var nextID = 0
    var watches: [Int: Watch] = [:]
    /// The cancellers that were not needed. The watchdog lets their tasks end.
    var over: [Canceller] = []
  }

  private let state = Locked(State())
  /// Between the cancellation and the end of the process.
  private static let grace = Duration.seconds(15)

  private init() {
    do {
      try startThread(name: "watchdog") { [state] in
        while true {
          _ = poll(nil, 0, 250)
          Self.look(state)
        }
      }
    } catch {
      fatalError("the watchdog cannot start: \(error)")
    }
  }

  func begin(_ seconds: Int, _ sentence: String) -> Int {
    let canceller = Canceller.ofCurrentTask()
    return state.withLock {
      $0.nextID += 1
      $0.watches[$0.nextID] = Watch(sentence: sentence, seconds: seconds, canceller: canceller)
      return $0.nextID
    }
  }

  func end(_ id: Int) {
    state.withLock { state in
      guard let watch = state.watches.removeValue(forKey: id), !watch.isOverdue else { return }
      state.over.append(watch.canceller)
    }
  }

  func isOverdue(_ id: Int) -> Bool { state.withLock { $0.watches[id]?.isOverdue ?? false } }

  private static func look(_ state: Locked<State>) {
    let now = ContinuousClock.now
    let over = state.withLock { state in
      defer { state.over = [] }
      return state.over
    }
    for canceller in over { canceller.run(cancels: false) }
    state.withLock { state in
      for (id, watch) in state.watches {
        let end = watch.end ?? now + .seconds(watch.seconds)
        state.watches[id]?.end = end
        if now <= end { continue }
        if !watch.isOverdue {
          state.watches[id]?.isOverdue = true
          watch.canceller.run(cancels: true)
        } else if now > end + grace {
          let last = Array("\n\(watch.sentence), nor after being cancelled: the process ends here\n".utf8)
          _ = unsafe last.withUnsafeBytes { unsafe write(2, $0.baseAddress, $0.count) }
          exit(70)
        }
      }
    }
  }
}

/// Cancels a task from another thread.
///
/// Swift Testing hears of the cancellation of a test's task. It records an issue, "an API was misused", if whoever cancels is no task
/// of that test. So this is one: a task whose only job waits here until the watchdog runs it.
private final class Canceller: TaskExecutor {
  private struct State: Sendable {
    var job: UnownedJob?
    var cancels = false
  }

  private let state = Locked(State())

  /// A canceller that must run, once, before the current task ends if it is to cancel.
  static func ofCurrentTask() -> Canceller {
    let canceller = Canceller()
    let cancel: @Sendable () -> Void = unsafe withUnsafeCurrentTask { task in
      // SAFETY: the handle is used only while the watch is registered, under the lock; it is taken out before the task
      // goes on.
      nonisolated(unsafe) let task = unsafe task
      return { unsafe task?.cancel() }
    }
    Task(executorPreference: canceller) { [state = canceller.state] in
      if state.withLock({ $0.cancels }) { cancel() }
    }
    return canceller
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    state.withLock { $0.job = job }
  }

  func run(cancels: Bool) {
    let job = state.withLock {
      $0.cancels = cancels
      return $0.job.take()
    }
    // SAFETY: the executor lives until the job is over, and no other thread has the job.
    unsafe job?.runSynchronously(on: asUnownedTaskExecutor())
  }
}
