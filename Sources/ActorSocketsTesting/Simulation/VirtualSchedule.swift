internal import EpollReactor

// What a simulation runs next: a pure state machine.
//
// Invariants:
// - Virtual time moves only when nothing is ready, and then to the time of the earliest timer. It never moves back.
// - In the order `.fifo`, what is ready runs first in, first out. Timers of one time become ready in the order in which they were added.
// - In the order `.random`, each of the things that are ready is equally likely to be next. The seed decides, and nothing else.
// - The same calls in the same order give the same results.

/// The work of a simulation, with its time and its order.
struct VirtualSchedule<Work> {
  /// The virtual time, in nanoseconds.
  private(set) var now: Int64
  private let isRandom: Bool
  private var random: SplitMix
  /// In the order `.fifo`, the work from `head` on is ready; in the order `.random`, all of it.
  private var ready: [Work] = []
  private var head = 0
  private var timers = TimerQueue<Work>()

  /// Creates an empty schedule.
  ///
  /// - Parameters:
  ///   - now: The virtual time at which it begins, in nanoseconds.
  ///   - seed: Decides the order, if that is random.
  ///   - isRandom: Whether the order is random.
  init(now: Int64, seed: UInt64, isRandom: Bool) {
    self.now = now
    self.isRandom = isRandom
    random = SplitMix(seed: seed)
  }

  /// The number of things that are ready.
  var readyCount: Int { ready.count - head }
  /// The number of timers.
  var timerCount: Int { timers.count }
  /// Whether there is no work, and no timer.
  var isEmpty: Bool { readyCount == 0 && timers.count == 0 }

  /// Adds work that is ready.
  mutating func add(_ work: Work) { ready.append(work) }

  /// Adds work that becomes ready at `time`. A time that has passed is the current one.
  @discardableResult
  mutating func add(_ work: Work, at time: Int64) -> TimerQueue<Work>.Key { timers.insert(at: max(time, now), work) }

  /// Removes a timer. It does nothing if the timer has become ready.
  mutating func remove(_ timer: TimerQueue<Work>.Key) { timers.remove(timer) }

  /// Gives all timers their times anew. Those whose times become equal come in the order of their earlier times.
  ///
  /// - Parameters:
  ///   - newTime: The new time of the work of a timer, which is given with the earlier time.
  ///   - moved: Called for each timer, with its work and its new key. The earlier one is no longer valid.
  mutating func moveTimers(_ newTime: (Work, Int64) -> Int64, moved: (Work, TimerQueue<Work>.Key) -> Void) {
    var all: [(work: Work, time: Int64)] = []
    while let time = timers.earliest, let work = timers.popDue(at: time) { all.append((work, newTime(work, time))) }
    for (work, time) in all { moved(work, add(work, at: time)) }
  }

  /// Removes all timers.
  ///
  /// - Returns: Their work, in the order of their times.
  mutating func removeTimers() -> [Work] {
    var work: [Work] = []
    while let next = timers.popDue(at: .max) { work.append(next) }
    return work
  }

  /// Takes what runs next. If nothing is ready, moves time to the earliest timer.
  ///
  /// - Parameter limit: The time beyond which time does not move.
  /// - Returns: The work; `nil` if no work is due until then.
  mutating func next(until limit: Int64 = .max) -> Work? {
    if readyCount == 0 {
      guard let time = timers.earliest, max(now, time) <= limit else { return nil }
      now = max(now, time)
      while let work = timers.popDue(at: now) { ready.append(work) }
    }
    if isRandom {
      ready.swapAt(Int(random.next(upTo: UInt64(ready.count))), ready.count - 1)
      return ready.removeLast()
    }
    let work = ready[head]
    head += 1
    if head == ready.count {
      ready.removeAll(keepingCapacity: head <= 1024)
      head = 0
    } else if head >= 1024, head >= readyCount {
      ready.removeSubrange(..<head)
      head = 0
    }
    return work
  }
}

/// Random numbers that depend only on the seed: the generator SplitMix64 (Steele, Lea and Flood 2014).
struct SplitMix: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var value = state
    value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
    return value ^ (value >> 31)
  }

  /// A number from 0 to `limit - 1`; `limit` is at least 1.
  mutating func next(upTo limit: UInt64) -> UInt64 { next().multipliedFullWidth(by: limit).high }
}
