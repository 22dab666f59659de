// Swift's thread pool on Linux is libdispatch. It opens descriptors when it first needs them: an epoll instance and an eventfd
// for the first timer, and a timerfd for each clock. If it cannot open one, it ends the process. So a server has them opened
// before it accepts its first connection. For the files that libdispatch opens later for a moment, `DescriptorReserve` leaves
// room.

/// The descriptors that Swift's thread pool opens and keeps.
enum PoolDescriptors {
  private static let opening = Task.detached {
    // A shorter sleep could end before libdispatch makes a timer for it.
    try? await Task.sleep(for: .milliseconds(1), clock: .continuous)
    try? await Task.sleep(for: .milliseconds(1), clock: .suspending)
  }

  /// Begins to open them, once in the life of the process.
  static func open() { _ = opening }

  /// Waits until they are open.
  static func areOpen() async { await opening.value }
}
