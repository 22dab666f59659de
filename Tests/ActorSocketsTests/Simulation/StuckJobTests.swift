import ActorSockets
import ActorSocketsTesting
import Foundation
import TestSupport
import Testing

/// Programs that never give back the thread of their simulation.
@Suite(.tags(.backtraces, .foundation)) struct StuckJobTests {
  enum Block: Int, CaseIterable, Codable {
    case condition, lock, semaphore, loop

    func begin() {
      switch self {
      case .condition:
        let condition = NSCondition()
        condition.lock()
        _ = condition.wait(until: Date(timeIntervalSinceNow: 1))
      case .lock:
        let lock = NSLock()
        lock.lock()
        _ = lock.lock(before: Date(timeIntervalSinceNow: 1))
      case .semaphore: _ = DispatchSemaphore(value: 0).wait(timeout: .now() + 1)
      case .loop:
        // It is always odd. A call could be in code without frame pointers when the thread is interrupted.
        var number = 1
        while number != 0 { number = number &* 3 }
      }
    }
  }

  @Test(arguments: Block.allCases)
  func `A job that never ends ends the process, with its place and a backtrace`(block: Block) async throws {
    // The process that is started inherits them.
    let settings = "enable=yes,color=no,threads=crashed,images=none,registers=none,timeout=0s"
    // SAFETY: the texts are valid for the calls.
    unsafe setenv("SWIFT_BACKTRACE", settings, 1)
    unsafe setenv("ACTORSOCKETS_JOB_SECONDS", "1", 1)
    defer {
      unsafe unsetenv("SWIFT_BACKTRACE")
      unsafe unsetenv("ACTORSOCKETS_JOB_SECONDS")
    }
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) { [block] in
      let simulation = Simulation(seed: 9)
      try await simulation.run {
        try await Task.sleep(for: .seconds(1))
        try await simulation.host("server").run { block.begin() }
      }
    }
    let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    let place = "seed 9, at 1.000000000 s, on server: a job has not ended after 1 s of real time"
    #expect(text.contains(place), "\(text)")
    #expect(text.contains(/"simulation" crashed:\n/), "\(text)")
    // As far as the libraries tell how to unwind their frames, and with names as far as the frame pointers lead.
    #expect(text.contains(/\n +2  [^\n]*\+0x[0-9a-f]{4}/), "\(text)")
    if block == .loop { #expect(text.contains("Block.begin()"), "\(text)") }
  }
}
