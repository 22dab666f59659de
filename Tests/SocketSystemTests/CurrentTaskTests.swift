import SocketSystem
import TestSupport
import Testing

/// Direct calls of the runtime return the same as the standard library.
@Suite struct CurrentTaskTests {
  /// In a synchronous function, so that no part of it runs in another job.
  private static func agrees() -> Bool {
    guard CurrentTask.isCancelled == Task.isCancelled else { return false }
    let handle = unsafe withUnsafeCurrentTask { unsafe $0.map { unsafe unsafeBitCast($0, to: UInt.self) } }
    #if ACTORSOCKETS_PLAIN
      return (CurrentTask.number == 0) == (handle == nil)
    #else
      return CurrentTask.number == handle ?? 0
    #endif
  }

  @Test func `A task has a number, and says whether it is cancelled`() async throws {
    try await within("the tasks end") {
      #expect(Self.agrees() && !CurrentTask.isCancelled)
      let mayGoOn = Gate()
      let task = Task {
        await mayGoOn.wait()
        #expect(Self.agrees() && CurrentTask.isCancelled)
        try CurrentTask.checkCancellation()
      }
      task.cancel()
      mayGoOn.open()
      await #expect(throws: CancellationError.self) { try await task.value }
    }
  }

  @Test func `Outside of tasks there is no number, and nothing is cancelled`() async throws {
    try await onThread {
      #expect(CurrentTask.number == 0)
      #expect(!CurrentTask.isCancelled)
      #expect(Self.agrees())
    }
  }
}
