internal import CLinux
import Glibc

/// An eventfd(2), which wakes the thread that waits in epoll_wait(2). Any thread can signal it.
package struct WakeEvent: ~Copyable, Sendable {
  private let descriptor: OwnedDescriptor

  /// Creates the eventfd: eventfd(2).
  package init() throws(SystemError) {
    let result = clinux_eventfd_create()
    if result < 0 { throw SystemError(call: "eventfd", errno: -result) }
    descriptor = try OwnedDescriptor(new: result)
  }

  /// The number of the descriptor, to be registered with epoll.
  package var number: Int32 { descriptor.number }

  /// Wakes the waiting thread: write(2). Each call makes epoll report an edge, although the counter is never read.
  ///
  /// An interrupted call is repeated. No other error can occur on an open eventfd whose counter grows by one. If one
  /// occurs, this function ends the program with a message, because otherwise the reactor would sleep for ever.
  package borrowing func signal() {
    while true {
      let result = clinux_eventfd_signal(descriptor.number)
      if result >= 0 { return }
      if result != -EINTR {
        fatalError("a sleeping reactor cannot be woken: \(SystemError(call: "write", errno: -result)) on its eventfd")
      }
    }
  }
}
