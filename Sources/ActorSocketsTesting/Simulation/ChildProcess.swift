internal import CVirtualTime
internal import SocketSystem

/// A copy of the process that runs a function, and sends bytes.
///
/// Invariants:
/// - What a copy sends ends with a mark. So a copy that ends before its function has returned, with whatever status, has failed.
/// - The copy is killed only before its end was waited for. So no other process with its number is.
final class ChildProcess: Sendable {
  struct Answer: Sendable {
    /// What the copy has sent; empty if another function has received it.
    var text = ""
    /// For example "was ended by the signal 11", with the end of its standard error; `nil` if the function has returned.
    let failure: String?
    /// Whether there was a copy.
    var hasBegun = true
  }

  private enum State {
    case idle, cancelled
    case running(cvirtualtime_child)
  }

  /// The control character "end of transmission".
  private static let mark: UInt8 = 4
  /// In bytes.
  private static let mostErrors = 2_000
  private let state = Locked(State.idle)

  typealias Send = @Sendable ([UInt8]) -> Void

  /// Runs `other` in a copy of this process, which is made when no simulation runs. The copy has only the thread that runs `other`. In this
  /// process, `own` runs before any other simulation does.
  ///
  /// `receive` gets the bytes that `other` sends, as they come, in pieces of any size. They end with the mark if the function has returned.
  ///
  /// *Cancellation* of the caller ends the copy.
  static func run(
    seconds: UInt32, own: @escaping @Sendable () -> Void, other: @escaping @Sendable (_ send: @escaping Send) -> Void,
    receive: Send? = nil
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
              continuation.resume(returning: process.answer(of: child, after: seconds, receive))
            }
          } catch {
            own()
            end()
            continuation.resume(returning: Answer(failure: "could not start: \(error)", hasBegun: false))
          }
        }
      }
    } onCancel: {
      process.cancel()
    }
  }

  /// In the copy: ends it after this time, from now on; 0 means never.
  static func limit(seconds: UInt32) { cvirtualtime_limit(seconds) }

  /// Whether a copy can have more than one thread.
  static var startsThreads: Bool { cvirtualtime_copies_start_threads() }

  private func cancel() {
    state.withLock { state in
      // SAFETY: the child is valid for the call.
      if case .running(var child) = state { unsafe cvirtualtime_kill(&child) }
      state = .cancelled
    }
  }

  private func begin(
    _ seconds: UInt32, _ own: () -> Void, _ other: (_ send: @escaping Send) -> Void
  ) -> Result<cvirtualtime_child, SystemError> {
    var child = cvirtualtime_child()
    // SAFETY: the child is valid for the call.
    let result = unsafe cvirtualtime_fork(&child, seconds)
    if result == 0 {
      let send: Send = { [child] bytes in
        // SAFETY: the child and the bytes are valid for the call.
        unsafe withUnsafePointer(to: child) { child in unsafe cvirtualtime_send(child, bytes, bytes.count) }
      }
      other(send)
      send([Self.mark])
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

  private func answer(
    of result: Result<cvirtualtime_child, SystemError>, after seconds: UInt32, _ receive: Send?
  ) -> Answer {
    var child: cvirtualtime_child
    do { child = try result.get() } catch {
      return Answer(failure: "could not start: \(error)", hasBegun: false)
    }
    var (text, errors) = ([UInt8](), [UInt8]())
    var last: UInt8?
    while let (bytes, isError) = Self.receive(&child) {
      if isError {
        errors = (errors + bytes).suffix(Self.mostErrors)
      } else {
        last = bytes.last
        if let receive { receive(bytes) } else { text += bytes }
      }
    }
    state.withLock { $0 = .idle }
    // SAFETY: the child is valid for the call.
    let status = unsafe cvirtualtime_wait_for_end(&child)
    if last == Self.mark { return Answer(text: String(decoding: text.dropLast(), as: UTF8.self), failure: nil) }
    let lines = errors.isEmpty ? "" : ": \(String(decoding: errors, as: UTF8.self))"
    return Answer(text: String(decoding: text, as: UTF8.self), failure: Self.end(status, after: seconds) + lines)
  }

  /// Waits for the next bytes. Returns `nil` when the copy has ended.
  private static func receive(_ child: inout cvirtualtime_child) -> (bytes: [UInt8], isError: Bool)? {
    var isError = false
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: 65_536) { buffer, count in
      // SAFETY: the child and the result are valid for the call, which writes at most the capacity.
      count = unsafe buffer.baseAddress.map { unsafe cvirtualtime_receive(&child, $0, buffer.count, &isError) } ?? 0
    }
    return bytes.isEmpty ? nil : (bytes, isError)
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
