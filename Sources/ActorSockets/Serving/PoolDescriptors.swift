// Swift's thread pool on Linux is libdispatch. It opens descriptors when it first needs them: an epoll instance and an eventfd
// for the first timer, and a timerfd for each clock. If it cannot open one, it ends the process. So a server makes libdispatch
// open them before it accepts its first connection. `DescriptorReserve` leaves room for the files that libdispatch opens
// briefly later.

internal import SocketSystem

enum PoolDescriptors {
  private static let opening = Task.detached {
    // libdispatch opens a clock's timerfd when it waits for a timer that is not due yet. A short sleep is not enough, because
    // on a busy machine it can be due before libdispatch waits for it. So a long sleep of each clock begins first.
    let long = [
      Task.immediate { try? await Task.sleep(for: .seconds(3600), clock: .continuous) },
      Task.immediate { try? await Task.sleep(for: .seconds(3600), clock: .suspending) },
    ]
    // One thread of libdispatch ends sleeps and then waits for the remaining timers. When the second short sleep of a clock
    // ends, that thread has already waited for the long one after the first.
    for _ in 0..<2 {
      try? await Task.sleep(for: .milliseconds(1), clock: .continuous)
      try? await Task.sleep(for: .milliseconds(1), clock: .suspending)
    }
    for sleep in long { sleep.cancel() }
  }

  /// Only the first call in a process has an effect.
  static func open() { if CurrentSystem.calls.mayWaitForThreads { _ = opening } }

  static func areOpen() async { if CurrentSystem.calls.mayWaitForThreads { await opening.value } }
}
