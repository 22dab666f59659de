import Glibc

/// The processor time of this program.
public struct Stopwatch {
  private let start = Self.now

  /// Starts now.
  public init() {}

  /// The time since it was made, divided among so many operations, in nanoseconds.
  public func nanoseconds(per operations: Int) -> Double { Double(Self.now - start) / Double(operations) }

  private static var now: Int {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return time.tv_sec * 1_000_000_000 + time.tv_nsec
  }
}
