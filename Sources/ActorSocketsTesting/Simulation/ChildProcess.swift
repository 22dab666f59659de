internal import CVirtualTime
internal import SocketSystem

/// A copy of the process that runs a function and answers with a text.
///
/// Invariants:
/// - An answer ends with a mark. So a copy that ends before it has answered, with whatever status, has not answered.
/// - The copy is killed only before its end was waited for. So no other process with its number is.
final class ChildProcess: Sendable {
  enum Answer: Sendable {
    case text(String)
    /// For example "was ended by the signal 11".
    case failed(String)
  }

  private enum State {
    case idle, cancelled
    case running(cvirtualtime_child)
  }

  private static let mark = "."
  private let state = Locked(State.idle)

  /// Runs `other` in a copy of this process when no simulation runs, and returns its text. Meanwhile `own` runs in this process.
  ///
  /// `receive` gets the bytes that `other` sends before it returns, as they come, in pieces of any size. They end with the text and the mark.
  /// The bytes of a copy that fails have arrived, too.
  ///
  /// *Cancellation* of the caller ends the copy.
  static func run(
    seconds: UInt32, own: @escaping @Sendable () -> Void,
    other: @escaping @Sendable (_ send: @escaping @Sendable ([UInt8]) -> Void) -> String,
    receive: (@Sendable ([UInt8]) -> Void)? = nil
  ) async -> Answer {
    let process = ChildProcess()
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        SimulationTurns.shared.request { end in
          do {
            try startThread(name: "simulation") {
              let answer = process.run(seconds, own, other, receive)
              end()
              continuation.resume(returning: answer)
            }
          } catch {
            end()
            continuation.resume(returning: .failed("could not start: \(error)"))
          }
        }
      }
    } onCancel: {
      process.cancel()
    }
  }

  private func cancel() {
    state.withLock { state in
      // SAFETY: the child is valid for the call.
      if case .running(var child) = state { unsafe cvirtualtime_kill(&child) }
      state = .cancelled
    }
  }

  private func run(
    _ seconds: UInt32, _ own: () -> Void, _ other: (_ send: @escaping @Sendable ([UInt8]) -> Void) -> String,
    _ receive: (([UInt8]) -> Void)?
  ) -> Answer {
    var child = cvirtualtime_child()
    // SAFETY: the child is valid for the calls, and the answer is freed once.
    let result = unsafe cvirtualtime_fork(&child, seconds)
    if result < 0 { return .failed("could not start: \(SystemError(call: "fork", errno: -result))") }
    if result == 0 {
      let copy = child
      let text =
        other { bytes in
          var copy = copy
          unsafe cvirtualtime_send(&copy, bytes, bytes.count)
        } + Self.mark
      unsafe cvirtualtime_answer(&child, text, text.utf8.count)
    }
    let isCancelled = state.withLock { state in
      if case .cancelled = state { return true }
      state = .running(child)
      return false
    }
    if isCancelled { unsafe cvirtualtime_kill(&child) }
    own()
    let rest = Self.receive(from: &child, receive)
    state.withLock { $0 = .idle }
    let status = unsafe cvirtualtime_wait_for_end(&child)
    if rest.last == Self.mark.utf8.last {
      return .text(receive == nil ? String(decoding: rest.dropLast(), as: UTF8.self) : "")
    }
    return .failed(Self.end(status, after: seconds))
  }

  /// Passes on everything that the copy writes. Returns it, or only the last piece if `body` gets all of it.
  private static func receive(from child: inout cvirtualtime_child, _ body: (([UInt8]) -> Void)?) -> [UInt8] {
    var all: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 65_536)
    while true {
      // SAFETY: the child is valid for the call, which writes no more than the array has room for.
      let count = unsafe piece.withUnsafeMutableBytes { memory in
        unsafe cvirtualtime_receive(&child, memory.baseAddress, memory.count)
      }
      if count == 0 { return all }
      if body != nil { all.removeAll() }
      all += piece[..<count]
      body?(all)
    }
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
