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

  /// What `nanoseconds` counts from.
  enum Start: Sendable {
    case operation
    case call
    /// The timeout is an instant.
    case clock
    /// The first byte of a read; of other operations, their beginning.
    case firstByte
  }

  let nanoseconds: Int64
  let start: Start
  package let extend: Extension?

  private init(_ duration: Duration, _ start: Start, _ extend: Extension? = nil) {
    nanoseconds = duration.clampedNanoseconds
    self.start = start
    self.extend = extend
  }

  /// Creates the timeout of ``after(_:)``.
  ///
  /// - Parameter duration: The time. Negative durations count as zero.
  public init(_ duration: Duration) { self.init(duration, .operation) }

  /// Returns a timeout that starts when the operation begins, after all earlier operations of its queue are done. A send of a datagram, and
  /// a connect of a ``UDPEndpoint``, begin at the call.
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

  /// Returns a timeout that starts when the first byte of what a read waits for has arrived.
  ///
  /// ```swift
  /// for try await line in connection.lines(timeout: .sinceFirstByte(.seconds(10))) { … }
  /// ```
  ///
  /// The peer may be silent between two lines or messages, but must send the rest of each in time. A byte that arrived before the read
  /// began counts from the beginning of the read; over TLS, a byte arrives when its record is complete. After the timeout all bytes stay.
  /// If ``ByteStream/takeBuffered()`` takes the bytes away, the time starts again with the next one.
  /// To limit the silence too, set ``TCPConnection/Liveness/idleTimeout``. Operations that are not reads of a stream treat it as
  /// ``after(_:)``.
  ///
  /// - Parameter duration: The time. Negative durations count as zero: then the rest must have arrived with the first byte.
  /// - Returns: The timeout.
  public static func sinceFirstByte(_ duration: Duration) -> Timeout { Timeout(duration, .firstByte) }

  /// Returns a timeout that expires at an instant, so that several operations can share one deadline.
  ///
  /// ```swift
  /// let deadline = Timeout.until(.now + .seconds(10))
  /// try await connection.write(request, timeout: deadline)
  /// let answer = try await connection.read(until: .crlf, timeout: deadline)
  /// ```
  ///
  /// If the instant has passed, a write sends nothing. A read succeeds only if everything that it needs has already arrived; otherwise
  /// it throws `.timedOut`, and the bytes stay. On a reactor with manual time, count from `ManualTime.now`.
  ///
  /// - Parameter instant: The instant.
  /// - Returns: The timeout.
  public static func until(_ instant: ContinuousClock.Instant) -> Timeout {
    // The reactor's clock has the same zero: CLOCK_BOOTTIME.
    Timeout(instant - ContinuousClock().systemEpoch, .clock)
  }

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

  /// A timeout that expires as soon as the operation would have to wait. It starts when the earlier operations of the queue are done.
  public static var zero: Timeout { .after(.zero) }
}

extension Timeout {
  /// The time for connecting if the caller says nothing.
  package static var toConnect: Timeout { .within(.seconds(30)) }

  package func end(startingAt time: Int64) -> Int64 { start == .clock ? nanoseconds : instant(time, plus: nanoseconds) }

  /// Returns the timeout of a second wait of a call that has waited for this number of nanoseconds. An instant stays.
  func left(after waited: Int64) -> Timeout {
    start == .clock ? self : Timeout(.nanoseconds(max(0, nanoseconds - waited)), start, extend)
  }

  func hasPassed(at time: @autoclosure () -> Int64) -> Bool { start == .clock && nanoseconds <= time() }

  /// The error of a call to connect that has no time; `nil` if it has some.
  package func refusal(toConnectAt time: Int64, _ address: SocketAddress?) -> SocketError? {
    guard hasPassed(at: time) || start == .call && nanoseconds == 0 else { return nil }
    return SocketError(.timedOut, operation: "connect", detail: "not connected \(limit)", address: address)
  }

  /// Whether it is a duration of zero. An instant at the zero of the clock is not.
  var hasNoTime: Bool { start != .clock && nanoseconds == 0 }

  /// Whether an operation must not wait, once it has begun.
  var isImmediate: Bool { nanoseconds == 0 && !startsAtCall }

  /// Whether its end is known at the call, before the operation begins.
  var startsAtCall: Bool {
    switch start {
    case .call, .clock: true
    case .operation, .firstByte: false
    }
  }

  /// The limit, for error messages: "within 30 s".
  package var limit: String {
    start == .clock ? "before the deadline" : "within \(Duration.nanoseconds(nanoseconds).brief)"
  }
}

extension Duration {
  /// A description for error messages: "30 s", "1.5 s", "250 ms".
  package var brief: String {
    let nanoseconds = clampedNanoseconds
    let (unit, name): (Int64, String) =
      switch nanoseconds {
      case 1_000_000_000..., 0: (1_000_000_000, "s")
      case 1_000_000...: (1_000_000, "ms")
      case 1_000...: (1_000, "µs")
      default: (1, "ns")
      }
    var thousandths = unit == 1 ? 0 : nanoseconds % unit / (unit / 1_000)
    if thousandths == 0 { return "\(nanoseconds / unit) \(name)" }
    var digits = 3
    while thousandths % 10 == 0 {
      thousandths /= 10
      digits -= 1
    }
    let text = "\(thousandths)"
    return "\(nanoseconds / unit).\(String(repeating: "0", count: digits - text.count))\(text) \(name)"
  }

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
