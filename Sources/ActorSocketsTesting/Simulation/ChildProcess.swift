internal import CVirtualTime
internal import SocketSystem

/// A copy of the process that runs a function, and answers with text.
///
/// Invariants:
/// - A complete answer ends with a mark. So a copy that ends before its function has returned, with whatever status, has failed.
/// - The copy is killed only before its end was waited for. So no other process with its number is.
final class ChildProcess: Sendable {
  struct Answer: Sendable {
    let text: String
    /// For example "was ended by the signal 11", with the end of its standard error; `nil` if the function has returned.
    let failure: String?
  }

  private enum State {
    case idle, cancelled
    case running(cvirtualtime_child)
  }

  private static let mark = "."
  /// In bytes.
  private static let mostErrors = 2_000
  private let state = Locked(State.idle)

  /// Runs `other` in a copy of this process, which is made when no simulation runs. The copy has only the thread that runs `other`. What
  /// `other` passes to the function that it gets is the answer. In this process, `own` runs before any other simulation does.
  ///
  /// *Cancellation* of the caller ends the copy.
  static func run(
    seconds: UInt32, own: @escaping @Sendable () -> Void,
    other: @escaping @Sendable (_ answer: (String) -> Void) -> Void
  ) async -> Answer {
    let process = ChildProcess()
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        SimulationTurns.shared.request { end in
          do {
            // The copy ends with the thread that has made it.
            try startThread(name: "simulation") {
              let child = process.begin(seconds, own, other)
              end()
              continuation.resume(returning: process.answer(of: child, after: seconds))
            }
          } catch {
            end()
            continuation.resume(returning: Answer(text: "", failure: "could not start: \(error)"))
          }
        }
      }
    } onCancel: {
      process.cancel()
    }
  }

  /// In the copy: ends it after this time, from now on; 0 means never.
  static func limit(seconds: UInt32) { cvirtualtime_limit(seconds) }

  private func cancel() {
    state.withLock { state in
      // SAFETY: the child is valid for the call.
      if case .running(var child) = state { unsafe cvirtualtime_kill(&child) }
      state = .cancelled
    }
  }

  private func begin(
    _ seconds: UInt32, _ own: () -> Void, _ other: (_ answer: (String) -> Void) -> Void
  ) -> Result<cvirtualtime_child, SystemError> {
    var child = cvirtualtime_child()
    // SAFETY: the child is valid for the calls.
    let result = unsafe cvirtualtime_fork(&child, seconds)
    if result == 0 {
      let answer = { (text: String) in unsafe cvirtualtime_answer(&child, text, text.utf8.count) }
      other(answer)
      answer(Self.mark)
      cvirtualtime_exit()
    }
    defer { own() }
    if result < 0 { return .failure(SystemError(call: "fork", errno: -result)) }
    let isCancelled = state.withLock { state in
      if case .cancelled = state { return true }
      state = .running(child)
      return false
    }
    if isCancelled { unsafe cvirtualtime_kill(&child) }
    return .success(child)
  }

  private func answer(of child: Result<cvirtualtime_child, SystemError>, after seconds: UInt32) -> Answer {
    guard case .success(var child) = child else { return Answer(text: "", failure: "could not start: \(child)") }
    var (answer, errors) = unsafe (cvirtualtime_bytes(), cvirtualtime_bytes())
    // SAFETY: the child and the results are valid for the calls, and the results are freed once.
    unsafe cvirtualtime_read_answer(&child, &answer, &errors, Self.mostErrors)
    defer {
      unsafe cvirtualtime_free_bytes(answer)
      unsafe cvirtualtime_free_bytes(errors)
    }
    state.withLock { $0 = .idle }
    let status = unsafe cvirtualtime_wait_for_end(&child)
    let text = unsafe Self.text(answer)
    if text.utf8.last == Self.mark.utf8.last {
      return Answer(text: String(text.dropLast(Self.mark.count)), failure: nil)
    }
    let lines = unsafe Self.text(errors)
    return Answer(text: text, failure: Self.end(status, after: seconds) + (lines.isEmpty ? "" : ": \(lines)"))
  }

  private static func text(_ bytes: cvirtualtime_bytes) -> String {
    // SAFETY: the bytes are valid for the call.
    unsafe String(decoding: UnsafeRawBufferPointer(start: bytes.bytes, count: bytes.count), as: UTF8.self)
  }

  private static func end(_ status: Int32, after seconds: UInt32) -> String {
    switch status & 0x7f {
    case _ where status == -1: "ended without an answer"
    case 0: "ended with the status \(status >> 8)"
    case Signal.alarm:
      "has not ended after \(seconds) s: it blocks, or waits for a lock that another thread held when it began"
    case let signal: "was ended by the signal \(signal)"
    }
  }

  private enum Signal { static let alarm: Int32 = 14 }
}
