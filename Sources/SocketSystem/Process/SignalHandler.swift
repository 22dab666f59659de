internal import CLinux
import Glibc

/// The handler of the signals that the program takes over: sigaction(2). It counts how often each of them arrives, and wakes the thread
/// that waits for its eventfd.
///
/// Call these functions on one thread at a time. Other code may change the handling of a signal at any time.
enum SignalHandler {
  /// Creates the eventfd(2) that the handler writes to. Never close it after a signal was taken over, because a handler may still write
  /// to it.
  static func makeEvent() throws(SystemError) -> OwnedDescriptor {
    let result = clinux_eventfd_create()
    if result < 0 { throw SystemError(call: "eventfd", errno: -result) }
    let event = try OwnedDescriptor(new: result)
    clinux_signals_set_event(event.number)
    return event
  }

  static func wait(for event: borrowing OwnedDescriptor) {
    var poll = pollfd(fd: event.number, events: Int16(POLLIN), revents: 0)
    var count: UInt64 = 0
    // SAFETY: the structure and the number are valid for the calls.
    unsafe Glibc.poll(&poll, 1, -1)
    _ = unsafe read(event.number, &count, 8)
  }

  /// Takes a signal, 1 to 31, over from the code that has handled it, or from the kernel's default. It must not be taken over yet. Throws
  /// `EINVAL` for SIGKILL and SIGSTOP.
  static func take(_ signal: Int32) throws(SystemError) {
    let result = clinux_signal_take(signal)
    if result < 0 { throw SystemError(call: "sigaction", errno: -result) }
  }

  /// Restores the handling that the signal had before `take`. If other code has replaced it since, it stays as it is.
  static func restore(_ signal: Int32) { _ = clinux_signal_restore(signal) }

  /// Makes a signal end this process with the status 128 + `signal`, if it has the default handling and that ends processes.
  static func makeFatal(_ signal: Int32) { _ = clinux_signal_make_fatal(signal) }

  /// Counts the arrivals while the signal was taken over.
  static func count(of signal: Int32) -> UInt64 { clinux_signal_count(signal) }

  static func raise(_ signal: Int32) { kill(getpid(), signal) }
}
