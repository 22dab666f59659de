internal import CVirtualTime
internal import SocketSystem

/// A copy of the process that runs a function.
enum ChildProcess {
  enum Answer: Sendable {
    case text(String)
    /// For example "was ended by the signal 11".
    case failed(String)
  }

  /// Runs `body` in a copy of this process, when no simulation runs, and returns its text.
  static func run(seconds: UInt32, _ body: @escaping @Sendable () -> String) async -> Answer {
    await withCheckedContinuation { continuation in
      SimulationTurns.shared.request { end in
        do {
          try startThread(name: "simulation") {
            let answer = fork(seconds, body)
            end()
            continuation.resume(returning: answer)
          }
        } catch {
          end()
          continuation.resume(returning: .failed("could not start: \(error)"))
        }
      }
    }
  }

  private static func fork(_ seconds: UInt32, _ body: () -> String) -> Answer {
    var child = cvirtualtime_child()
    // SAFETY: the child is valid for the calls, and the answer is freed once.
    let result = unsafe cvirtualtime_fork(&child, seconds)
    if result < 0 { return .failed("could not start: \(SystemError(call: "fork", errno: -result))") }
    if result == 0 {
      let text = body()
      unsafe cvirtualtime_answer(&child, text, text.utf8.count)
    }
    var (count, status) = (0, Int32(0))
    let bytes = unsafe cvirtualtime_wait_for_child(&child, &count, &status)
    defer { unsafe cvirtualtime_free_answer(bytes) }
    let signal = status & 0x7f
    if signal != 0 { return .failed("was ended by the signal \(signal)") }
    if status != 0 { return .failed("ended with the status \(status >> 8)") }
    return .text(unsafe String(decoding: UnsafeRawBufferPointer(start: bytes, count: count), as: UTF8.self))
  }
}
