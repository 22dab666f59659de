internal import CVirtualTime

/// The time of a thread that lives in virtual time. While a thread has entered, its `ContinuousClock` and `SuspendingClock` show this time,
/// and `Date` the time of day that belongs to it.
@safe final class VirtualClock: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): the pointer never changes, and what it points to is atomic.
  private let clock: UnsafeMutablePointer<cvirtualtime_clock>

  /// `zero` is the time of day when the time is zero, in nanoseconds since 1970.
  init(_ nanoseconds: Int64, timeOfDayAtZero zero: Int64) {
    // SAFETY: freed once, by `deinit`.
    unsafe clock = cvirtualtime_create(nanoseconds, zero)
  }

  deinit {
    // SAFETY: no thread has entered, because `enter` holds this object.
    unsafe cvirtualtime_free(clock)
  }

  /// Any thread may read the time; the thread that has entered sets it.
  var nanoseconds: Int64 {
    // SAFETY: the clock lives as long as this object.
    get { unsafe cvirtualtime_read(clock) }
    // SAFETY: as above.
    set { unsafe cvirtualtime_set(clock, newValue) }
  }

  /// From now on the thread that has entered sees the clocks of hosts (`VirtualThread.clocks`) instead of this time. Called on that thread.
  func asksHosts() {
    // SAFETY: as above.
    unsafe cvirtualtime_ask(clock)
  }

  /// The first midnight (UTC) after the first use in this process, in nanoseconds since 1970.
  static let nextMidnight: Int64 = {
    let day: Int64 = 86_400 * 1_000_000_000
    return (cvirtualtime_real_time_of_day() / day + 1) * day
  }()

  func enter<Result>(for owner: VirtualThread, _ body: () throws -> Result) rethrows -> Result {
    // SAFETY: the owner and this object live for the duration of this call, which ends by leaving.
    unsafe cvirtualtime_enter(clock, Unmanaged.passUnretained(owner).toOpaque())
    defer {
      cvirtualtime_enter(nil, nil)
      withExtendedLifetime((self, owner)) {}
    }
    return try body()
  }

  func leave(for owner: VirtualThread, _ body: () -> Void) {
    cvirtualtime_enter(nil, nil)
    // SAFETY: the thread goes back to the state in which `enter` has brought it.
    defer { unsafe cvirtualtime_enter(clock, Unmanaged.passUnretained(owner).toOpaque()) }
    body()
  }

  /// Prints the reason, and ends the process by a signal for the thread that has entered. Any thread.
  func abort(_ reason: String) -> Never {
    // SAFETY: the clock lives as long as this object.
    unsafe cvirtualtime_abort(clock, reason)
  }

  static func waitInRealTime(seconds: Int64) { cvirtualtime_wait(seconds) }

  static var owner: VirtualThread? {
    // SAFETY: `enter` holds the owner until the thread leaves.
    guard let owner = unsafe cvirtualtime_owner() else { return nil }
    return unsafe Unmanaged<VirtualThread>.fromOpaque(owner).takeUnretainedValue()
  }

  /// No other task of the process has the same number, and numbers grow.
  static func taskNumber(of job: UnownedJob) -> UInt64 {
    // SAFETY: a job is a reference to the runtime's object, which lives until the job has run.
    unsafe cvirtualtime_task_number(unsafeBitCast(job, to: UnsafeMutableRawPointer.self))
  }

  /// A task that has ended on this thread, each once; `nil` if there is no further one. Called while no task runs there.
  static func nextEnded() -> UInt64? {
    let task = cvirtualtime_next_ended()
    return task == 0 ? nil : task
  }

  /// This thread runs no more tasks of a simulation.
  static func forgetTasks() { cvirtualtime_forget_tasks() }

  /// Whether the functions of the runtime are replaced. Any task has run before.
  static var seesTasks: Bool { cvirtualtime_sees_tasks() }

  static var currentTask: UInt64? {
    let number = cvirtualtime_current_task_number()
    return number == 0 ? nil : number
  }
}
