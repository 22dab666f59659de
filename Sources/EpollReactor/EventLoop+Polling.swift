// How the loop looks for events, and how long it waits for them.

internal import SocketSystem
internal import Synchronization

extension EventLoop {
  // MARK: Descriptors
  //
  // A loop with a driver has no epoll instance, because nothing waits for the system's descriptors there.

  /// Registers a descriptor: epoll_ctl(2).
  func watch(_ number: Int32, token: UInt64, readableOnly: Bool) throws(SystemError) {
    switch epoll {
    case .some(let epoll): try epoll.add(number, token: token, readableOnly: readableOnly)
    case .none: throw SystemError(call: "epoll_ctl", errno: Errno.notPermitted)
    }
  }

  /// Changes the token of a descriptor: epoll_ctl(2).
  func changeToken(of number: Int32, to token: UInt64) throws(SystemError) {
    switch epoll {
    case .some(let epoll): try epoll.setToken(token, of: number)
    case .none: throw SystemError(call: "epoll_ctl", errno: Errno.notPermitted)
    }
  }

  /// Removes a descriptor: epoll_ctl(2).
  func stopWatching(_ number: Int32) {
    switch epoll {
    case .some(let epoll): epoll.remove(number)
    case .none: break
    }
  }

  // MARK: Polling

  /// Looks for events: epoll_wait(2).
  func poll(at time: Int64, nanoseconds: Int64) {
    metrics.polled()
    let count =
      switch epoll {
      case .some(let epoll): epoll.wait(&events, atMost: eventLimit, nanoseconds: nanoseconds)
      case .none: 0
      }
    fetched = 0..<count
    horizon.polled(at: time, count: count, isFull: count == eventLimit, descriptors: registrations.count + 1)
  }

  /// Notes that there are no events, because a driver runs the loop.
  func nothingToPoll() {
    horizon.polled(at: now, count: 0, isFull: false, descriptors: 0)
    horizon.carriedOut()
  }

  static var millisecond: Int64 { 1_000_000 }

  /// How long to wait for the next deadline, in nanoseconds; -1 if there is none.
  func waitForNextDeadline() -> Int64 {
    guard manualTime.load(ordering: .relaxed) < 0, let next = deadlines.earliest else { return -1 }
    let left = next - now
    if left < Self.millisecond { return max(0, left) }
    let milliseconds = min((left - 1) / Self.millisecond + 1, Int64(Int32.max))
    return milliseconds * Self.millisecond
  }

  /// Carries out everything that the kernel has ready now.
  func carryOutWhatIsReady() {
    let now = continuousNanoseconds()
    carryOutEvents(until: .max)
    while horizon.time < now {
      poll(at: continuousNanoseconds(), nanoseconds: 0)
      carryOutEvents(until: .max)
    }
  }
}
