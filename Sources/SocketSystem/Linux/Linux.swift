internal import CLinux
import Glibc
internal import Synchronization

/// The kernel, which is called directly. A structure without properties, so that a call of it can be compiled to nothing but the system
/// call.
package struct Linux: SystemCalls, Sendable {
  package init() {}

  package var mayWaitForThreads: Bool { true }
  package func owns(_ number: Int32) -> Bool { true }

  static func result(_ value: Int32) -> Int32 { value < 0 ? -errno : value }

  /// For calls that wait for a disk or a file server, and that a signal may interrupt.
  @inline(__always)
  static func retried(_ call: () -> Int32) -> Int32 {
    Int32(clamping: retryingInterrupts { Int(result(call())) })
  }

  // MARK: Descriptors

  package func socket(family: Int32, type: Int32) -> Int32 {
    let flags = Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    return Self.aboveStandardStreams(Self.result(Glibc.socket(family, type | flags, 0)))
  }

  package func interfaceSocket() -> Int32 { Self.aboveStandardStreams(clinux_interface_socket()) }

  /// Never retried, because Linux closes the descriptor whatever close(2) returns.
  package func close(_ number: Int32) { _ = Glibc.close(number) }

  package func duplicate(_ number: Int32) -> Int32 {
    Self.result(fcntl(number, F_DUPFD_CLOEXEC, Self.lowestNumber))
  }

  private static var lowestNumber: Int32 { STDERR_FILENO + 1 }

  /// Moves a new descriptor, closed on exec, that has the number of a standard stream. If a program has closed a standard stream, the
  /// kernel gives its number to the next descriptor. What the program, or a child process, then writes to its standard error would reach
  /// a peer. A negative error stays as it is. If fcntl(2) fails, the descriptor is closed.
  static func aboveStandardStreams(_ number: Int32) -> Int32 {
    (0...STDERR_FILENO).contains(number) ? move(number) : number
  }

  @inline(never)
  private static func move(_ number: Int32) -> Int32 {
    let moved = Linux().duplicate(number)
    _ = Glibc.close(number)
    return moved
  }

  package func prepare(_ number: Int32, nonblocking: Bool) -> Int32 {
    if nonblocking {
      let flags = fcntl(number, F_GETFL)
      if flags < 0 || fcntl(number, F_SETFL, flags | O_NONBLOCK) < 0 { return -errno }
    }
    return Self.result(fcntl(number, F_SETFD, FD_CLOEXEC))
  }

  package func forget(_ number: Int32) {}

  /// The value of `DescriptorReserve.first` when the limit was last read; 0 before the first read.
  private static let knownReserve = Atomic<Int>(0)

  package func readDescriptorLimit() -> Int {
    var limit = rlimit()
    // SAFETY: getrlimit writes one struct rlimit, which `limit` is.
    let result = unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    let known = result == 0 ? Int(clamping: limit.rlim_cur) : .max
    Self.knownReserve.store(DescriptorReserve(limit: known).first, ordering: .relaxed)
    return known
  }

  package func isReserved(_ number: Int32) -> Bool {
    if Int(number) < Self.knownReserve.load(ordering: .relaxed) { return false }
    return DescriptorReserve(limit: readDescriptorLimit()).contains(number)
  }

  package func leavesReserve(_ number: Int32) -> Bool {
    let next = duplicate(number)
    if next < 0 { return false }
    defer { close(next) }
    return !isReserved(next)
  }

  package func makePoller(_ wake: @escaping @Sendable () -> Void) throws(SystemError) -> any Poller {
    try EpollPoller()
  }
}
