/// How long an operation may take.
///
/// ```swift
/// try await connection.read(exactly: 4, timeout: .seconds(5))
/// try await connection.write(reply, timeout: .within(.seconds(30)))
/// ```
///
/// Timeouts use a clock that continues while the machine sleeps (`ContinuousClock`). They never fire early. They may fire late
/// by a millisecond, or by the time for which the reactor is busy. Negative durations count as zero; very long ones never
/// expire.
public struct Timeout: Sendable {
  /// A closure that may give an operation more time.
  ///
  /// It is called on the reactor's thread with the time since the operation began and the number of bytes done. It returns how
  /// much longer the operation may take; `nil` or zero lets it time out.
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

  /// Returns a timeout that starts when the operation begins, after all earlier operations of its queue are done.
  ///
  /// - Parameter duration: The time. Negative durations count as zero.
  /// - Returns: The timeout.
  public static func after(_ duration: Duration) -> Timeout { Timeout(duration, .operation) }

  /// Returns a timeout that starts when the operation begins, and that a closure may extend.
  ///
  /// - Parameters:
  ///   - duration: The time. Negative durations count as zero.
  ///   - extend: Called each time that the timeout expires.
  /// - Returns: The timeout.
  public static func after(_ duration: Duration, extend: @escaping Extension) -> Timeout {
    Timeout(duration, .operation, extend)
  }

  /// Returns a timeout that starts at the call, so that it includes waiting in the queue and connecting.
  ///
  /// - Parameter duration: The time. Negative durations count as zero.
  /// - Returns: The timeout.
  public static func within(_ duration: Duration) -> Timeout { Timeout(duration, .call) }

  /// Returns the timeout of ``after(_:)``, in seconds.
  ///
  /// - Parameter seconds: The time in seconds.
  /// - Returns: The timeout.
  public static func seconds(_ seconds: some BinaryInteger) -> Timeout {
    .after(.seconds(Int64(clamping: seconds)))
  }

  /// Returns the timeout of ``after(_:)``, in seconds.
  ///
  /// - Parameter seconds: The time in seconds, which may have a fraction.
  /// - Returns: The timeout.
  public static func seconds(_ seconds: Double) -> Timeout { .after(Duration(clampingSeconds: seconds)) }

  /// Returns the timeout of ``after(_:)``, in milliseconds.
  ///
  /// - Parameter milliseconds: The time in milliseconds.
  /// - Returns: The timeout.
  public static func milliseconds(_ milliseconds: some BinaryInteger) -> Timeout {
    .after(.milliseconds(Int64(clamping: milliseconds)))
  }

  /// A timeout that waits until the earlier operations of the queue are done, and then takes only what is available at once.
  public static var zero: Timeout { .after(.zero) }
}

extension Duration {
  /// The duration in nanoseconds, rounded up: at least 0, at most `Int64.max`, which is about 292 years.
  package var clampedNanoseconds: Int64 {
    // Compared first, because `components` traps for durations beyond `Int64` seconds.
    if self <= .zero { return 0 }
    if self >= .nanoseconds(Int64.max) { return .max }
    let (seconds, attoseconds) = components
    // Rounded up, so that a positive duration never becomes zero.
    let (sum, overflow) = (seconds * 1_000_000_000).addingReportingOverflow((attoseconds + 999_999_999) / 1_000_000_000)
    return overflow ? .max : sum
  }

  /// Creates a duration from seconds like `.seconds(_: Double)`, but never traps: the value is clamped, and NaN is zero.
  init(clampingSeconds seconds: Double) {
    let largest = 9_000_000_000.0
    self = seconds.isNaN ? .zero : .seconds(min(max(seconds, -largest), largest))
  }
}

/// Returns the instant `nanoseconds` after `start`; `Int64.max` if that overflows.
package func instant(_ start: Int64, plus nanoseconds: Int64) -> Int64 {
  let (sum, overflow) = start.addingReportingOverflow(nanoseconds)
  return overflow ? .max : sum
}
