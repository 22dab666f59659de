import ActorSockets
import TestSupport

extension Reactor {
  /// Waits until the reactor makes no system call any more.
  func sleeps() async throws {
    for _ in 0..<200 {
      let before = metrics
      try await letTimePass(milliseconds: 50)
      let after = metrics
      if before.polls == after.polls, before.jobs == after.jobs { return }
    }
    throw Overdue(description: "the reactor goes on working: \(metrics)")
  }
}
