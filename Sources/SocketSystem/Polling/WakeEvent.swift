internal import CLinux
import Glibc

/// An eventfd(2): any thread can make it readable.
package struct WakeEvent: ~Copyable, Sendable {
  private let descriptor: Descriptor

  /// eventfd(2)
  package init() throws(SystemError) {
    let result = clinux_eventfd_create()
    if result < 0 { throw SystemError(call: "eventfd", errno: -result) }
    descriptor = Descriptor(owning: result)
  }

  /// The descriptor to register.
  package var number: Int32 { descriptor.number }

  /// write(2): an edge for epoll, each time, although the counter is never read.
  ///
  /// An interrupted call is repeated. No other error can happen to an open eventfd whose counter grows by one. If one does,
  /// the program ends here with a message, because the sleeping reactor would otherwise sleep for ever.
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
