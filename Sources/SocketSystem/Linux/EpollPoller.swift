// The facts about epoll(7) that shape a reactor:
//
// - Edge-triggered, registered once. A descriptor is added for IN, OUT, RDHUP and PRI when it is attached: no epoll_ctl per operation. In
//   return an event comes only when something *changes*. So code that stops before EAGAIN must remember that there may be more.
// - A datagram socket reports OUT whenever a datagram has left its buffer, however much room there was before, and IN for each datagram that
//   arrives. Each wakes a thread that sleeps. So OUT is asked for only while a datagram waits for room, and IN no more when several
//   datagrams have arrived that no call waits for. A TCP socket reports OUT only after EAGAIN.
// - epoll knows open file descriptions, not numbers. close(2) removes a descriptor from epoll by itself unless it was duplicated. So an
//   adopted socket, of which another process may have a duplicate, is removed before.
// - EPOLLHUP and EPOLLERR are reported even if they were not asked for, but edge-triggered, so only once: they cause no busy loop.
// - epoll_wait counts milliseconds. Waits are rounded up: they are never short. A wait below a millisecond is one of epoll_pwait2, which
//   counts nanoseconds. A deadline of 100 us then fires after 160 us, not after 1.1 ms. Longer waits stay rounded, so that one wait
//   serves several deadlines that are close together.
// - Waking by eventfd(2) costs two system calls: the write, and the wait that it ends. The eventfd is edge-triggered, and each write is
//   an edge, so its counter need not be read.

internal import CLinux
import Glibc

final class EpollPoller: Poller {
  private let epoll: OwnedDescriptor
  let event: OwnedDescriptor

  init() throws(SystemError) {
    epoll = try OwnedDescriptor(new: try check(clinux_epoll_create(), "epoll_create1"))
    event = try OwnedDescriptor(new: try check(clinux_eventfd_create(), "eventfd"))
    try add(event.number, token: EventBuffer.wakeToken, interest: .readable)
  }

  func add(_ number: Int32, token: UInt64, interest: Readiness) throws(SystemError) {
    try check(clinux_epoll_add(epoll.number, number, interest.rawValue, token), "epoll_ctl")
  }

  func change(_ number: Int32, token: UInt64, interest: Readiness) throws(SystemError) {
    try check(clinux_epoll_change(epoll.number, number, interest.rawValue, token), "epoll_ctl")
  }

  func remove(_ number: Int32) { _ = clinux_epoll_remove(epoll.number, number) }

  /// epoll_wait(2), or epoll_pwait2(2) for less than a millisecond. Without that call (before Linux 5.11, or in a sandbox), it waits a
  /// whole millisecond.
  func wait(_ events: inout EventBuffer, atMost limit: Int, nanoseconds: Int64) -> Int {
    assert((1...EventBuffer.capacity).contains(limit))
    let epoll = self.epoll.number
    // SAFETY: the pointer is valid for the storage's count, which the capacity given does not exceed.
    let count = unsafe events.storage.withUnsafeMutableBufferPointer { buffer -> Int32 in
      guard let base = buffer.baseAddress else { return 0 }
      return unsafe clinux_epoll_wait(epoll, base, Int32(min(limit, buffer.count)), nanoseconds)
    }
    return Int(max(0, count))
  }

  /// Writes to the eventfd. Apart from EINTR, no error can occur on an open eventfd whose counter grows by one. If one occurs, this ends
  /// the program with a message, because otherwise the reactor would sleep for ever.
  func wake() {
    while true {
      let result = clinux_eventfd_signal(event.number)
      if result >= 0 { return }
      if result != -EINTR {
        fatalError("a sleeping reactor cannot be woken: \(SystemError(call: "write", errno: -result)) on its eventfd")
      }
    }
  }
}
