// Swift's thread pool on Linux is libdispatch, which opens descriptors when it first needs them: an epoll instance and an eventfd
// for the first timer, and a timerfd for each clock. If it cannot, it ends the process. So they are opened before a server has
// accepted its first connection. What libdispatch opens later, for a moment, is what DescriptorReserve leaves room for.

/// The descriptors that Swift's thread pool keeps.
enum PoolDescriptors {
  private static let opening = Task.detached {
    // A shorter sleep could be over before a timer is made for it.
    try? await Task.sleep(for: .milliseconds(1), clock: .continuous)
    try? await Task.sleep(for: .milliseconds(1), clock: .suspending)
  }

  /// Begins to open them, once in the life of the process.
  static func open() { _ = opening }

  /// Waits until they are open.
  static func areOpen() async { await opening.value }
}
