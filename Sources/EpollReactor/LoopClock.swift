internal import SocketSystem
internal import Synchronization

/// A clock that is moved by hand, from 0 on. Any thread reads it; the loop's thread moves it.
final class ManualClock {
  private let time = Atomic<Int64>(0)
  /// Called before the loop sleeps.
  var whenIdle: (() -> Void)?

  var now: Int64 { time.load(ordering: .relaxed) }

  func set(_ now: Int64) { time.store(now, ordering: .relaxed) }
}

enum LoopClock {
  case real
  case manual(ManualClock)
  case driver(any LoopDriver)

  /// In nanoseconds. Any thread.
  var now: Int64 {
    switch self {
    case .real: continuousNanoseconds()
    case .manual(let clock): clock.now
    case .driver(let driver): driver.now
    }
  }
}

/// What a loop runs on: a thread of its own, or a driver.
struct LoopHost {
  /// The system that the loop's thread runs in; `nil` for Linux, or if there is a driver, whose thread is in a system of its own.
  let system: SystemHolder?
  let clock: LoopClock
  var driver: (any LoopDriver)? { if case .driver(let driver) = clock { driver } else { nil } }

  /// Takes a descriptor that was made on the calling thread, perhaps in another system. A driver's sockets are made on its thread.
  func take(_ number: Int32) {
    if driver == nil { CurrentSystem.give(number, to: system) }
  }

  var isManual: Bool { if case .manual = clock { true } else { false } }

  static func thread(in system: SystemHolder?) -> LoopHost { LoopHost(system: system, clock: .real) }
  static var manualTime: LoopHost { LoopHost(system: nil, clock: .manual(ManualClock())) }
  static func driver(_ driver: any LoopDriver) -> LoopHost { LoopHost(system: nil, clock: .driver(driver)) }
}
