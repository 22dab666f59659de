internal import EpollReactor

// What a simulation runs next: a pure state machine.
//
// Invariants:
// - Virtual time moves only when nothing is ready, and then to the time of the earliest timer. It never moves back.
// - In the order `.fifo`, what is ready runs first in, first out. Timers of one time become ready in the order in which they were added.
// - In the order `.random`, each of the things that are ready is equally likely to be next. The seed decides, and nothing else.

struct VirtualSchedule<Work> {
  /// In nanoseconds.
  private(set) var now: Int64
  /// How much work was taken since time last moved.
  private(set) var takenWithoutTime = 0
  private let isRandom: Bool
  private var random: SplitMix
  /// In the order `.fifo`, the work from `head` on is ready; in the order `.random`, all of it.
  private var ready: [Work] = []
  private var head = 0
  private var timers = TimerQueue<Work>()

  init(now: Int64, seed: UInt64, isRandom: Bool) {
    self.now = now
    self.isRandom = isRandom
    random = SplitMix(seed: seed)
  }

  var readyCount: Int { ready.count - head }
  var timerCount: Int { timers.count }
  var isEmpty: Bool { readyCount == 0 && timers.count == 0 }

  mutating func add(_ work: Work) { ready.append(work) }

  /// A time that has passed counts as the current one.
  @discardableResult
  mutating func add(_ work: Work, at time: Int64) -> TimerQueue<Work>.Key { timers.insert(at: max(time, now), work) }

  /// Does nothing if the timer has become ready.
  mutating func remove(_ timer: TimerQueue<Work>.Key) { timers.remove(timer) }

  /// Gives all timers new times. `newTime` gets the earlier time; timers whose times become equal keep their order. `moved` gets the new
  /// key of each timer: the earlier one is no longer valid.
  mutating func moveTimers(_ newTime: (Work, Int64) -> Int64, moved: (Work, TimerQueue<Work>.Key) -> Void) {
    var all: [(work: Work, time: Int64)] = []
    while let time = timers.earliest, let work = timers.popDue(at: time) { all.append((work, newTime(work, time))) }
    for (work, time) in all { moved(work, add(work, at: time)) }
  }

  /// Returns the work in the order of its times.
  mutating func removeTimers() -> [Work] {
    var work: [Work] = []
    while let next = timers.popDue(at: .max) { work.append(next) }
    return work
  }

  /// If nothing is ready, moves time to the earliest timer. Returns `nil` if no work is due until `limit`.
  mutating func next(until limit: Int64 = .max) -> Work? {
    if readyCount == 0 {
      guard let time = timers.earliest, max(now, time) <= limit else { return nil }
      if time > now {
        now = time
        takenWithoutTime = 0
      }
      while let work = timers.popDue(at: now) { ready.append(work) }
    }
    takenWithoutTime += 1
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

  /// From 0 to `limit - 1`; `limit` is at least 1.
  mutating func next(upTo limit: UInt64) -> UInt64 { next().multipliedFullWidth(by: limit).high }
}
