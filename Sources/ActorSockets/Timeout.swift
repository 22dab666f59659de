/// How long an operation may take.
///
/// ```swift
/// try await connection.read(exactly: 4, timeout: .seconds(5))
/// try await connection.write(reply, timeout: .within(.seconds(30)))
/// ```
///
/// The clock goes on while the machine sleeps (`ContinuousClock`). Deadlines are never early, and late by a millisecond
/// or by what the reactor is busy with. Negative durations are zero; the largest ones mean never.
public struct Timeout: Sendable {
  /// A closure that may give an operation more time.
  ///
  /// Called on the reactor's thread with the time since the operation began and the bytes done so far. It returns how
  /// much longer the operation may go on, or `nil` to let it time out.
  public typealias Extension = @Sendable (_ elapsed: Duration, _ bytesDone: Int) -> Duration?

  enum Start: Sendable { case operation, call }

  let nanoseconds: Int64
  let start: Start
  let extend: Extension?

  private init(_ duration: Duration, _ start: Start, _ extend: Extension? = nil) {
    nanoseconds = duration.clampedNanoseconds
    self.start = start
    self.extend = extend
  }

  /// A time that starts when the operation begins: when all earlier ones of its queue are done.
  ///
  /// - Parameter duration: The time.
  /// - Returns: The timeout.
  public static func after(_ duration: Duration) -> Timeout { Timeout(duration, .operation) }

  /// A time that starts when the operation begins, and which a closure may extend when it is over.
  ///
  /// - Parameters:
  ///   - duration: The time.
  ///   - extend: Asked each time that the time is over.
  /// - Returns: The timeout.
  public static func after(_ duration: Duration, extend: @escaping Extension) -> Timeout {
    Timeout(duration, .operation, extend)
  }

  /// A time that starts at the call: waiting in the queue and connecting count.
  ///
  /// - Parameter duration: The time.
  /// - Returns: The timeout.
  public static func within(_ duration: Duration) -> Timeout { Timeout(duration, .call) }

  /// The same as ``after(_:)``, in seconds.
  ///
  /// - Parameter seconds: The time.
  /// - Returns: The timeout.
  public static func seconds(_ seconds: some BinaryInteger) -> Timeout {
    .after(.seconds(Int64(clamping: seconds)))
  }

  /// The same as ``after(_:)``, in seconds.
  ///
  /// - Parameter seconds: The time; fractions are welcome.
  /// - Returns: The timeout.
  public static func seconds(_ seconds: Double) -> Timeout { .after(Duration(clampingSeconds: seconds)) }

  /// The same as ``after(_:)``, in milliseconds.
  ///
  /// - Parameter milliseconds: The time.
  /// - Returns: The timeout.
  public static func milliseconds(_ milliseconds: some BinaryInteger) -> Timeout {
    .after(.milliseconds(Int64(clamping: milliseconds)))
  }

  /// Waits for the operation's turn, and then takes what can be done at once.
  public static var zero: Timeout { .after(.zero) }
}

extension Duration {
  /// The duration in nanoseconds, rounded up: at least 0, at most `Int64.max`, which is 292 years.
  package var clampedNanoseconds: Int64 {
    // Compared first: `components` traps for durations beyond `Int64` seconds.
    if self <= .zero { return 0 }
    if self >= .nanoseconds(Int64.max) { return .max }
    let (seconds, attoseconds) = components
    // Rounded up: some time is never no time.
    let (sum, overflow) = (seconds * 1_000_000_000).addingReportingOverflow((attoseconds + 999_999_999) / 1_000_000_000)
    return overflow ? .max : sum
  }

  /// `.seconds(_: Double)` that knows no value it traps on.
  init(clampingSeconds seconds: Double) {
    let largest = 9_000_000_000.0
    self = seconds.isNaN ? .zero : .seconds(min(max(seconds, -largest), largest))
  }
}

/// The instant that lies `nanoseconds` after `start`, or the end of time.
package func instant(_ start: Int64, plus nanoseconds: Int64) -> Int64 {
  let (sum, overflow) = start.addingReportingOverflow(nanoseconds)
  return overflow ? .max : sum
}
