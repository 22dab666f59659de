import TestSupport
import Testing

@testable import EpollReactor

@Suite(.tags(.pure)) struct DeadlineQueueTests {
  @Test func `Deadlines come in the order of their times, equal ones in the order of arming`() {
    var queue = DeadlineQueue<Int>()
    let times: [Int64] = [5, 1, 5, 3, .max, -4, 1, 5, .min, 1]
    for (payload, time) in times.enumerated() { _ = queue.insert(at: time, payload) }
    #expect(queue.earliest == .min)
    var order: [Int] = []
    while let payload = queue.popDue(at: .max) { order.append(payload) }
    #expect(order == [8, 5, 1, 6, 9, 3, 0, 2, 7, 4])
    #expect(queue.count == 0 && queue.earliest == nil)
  }

  @Test func `The earliest can be put off, and its key still finds it`() {
    var queue = DeadlineQueue<Int>()
    let keys = (0..<10).map { queue.insert(at: Int64($0), $0) }
    #expect(queue.firstDue(at: -1) == nil)
    #expect(queue.firstDue(at: 0) == 0)
    queue.moveFirst(to: 5, 100)
    #expect(queue.firstDue(at: 0) == nil)
    var order: [Int] = []
    while let payload = queue.popDue(at: 5) { order.append(payload) }
    #expect(order == [1, 2, 3, 4, 5, 100])
    queue.moveFirst(to: 20, 6)
    #expect(queue.remove(keys[6]) == 6)
    #expect(queue.remove(keys[0]) == nil)
    #expect(queue.count == 3)
  }

  @Test func `A key from before the storage was let go finds nothing`() {
    var queue = DeadlineQueue<Int>()
    let keys = (0..<5000).map { queue.insert(at: Int64($0), $0) }
    while queue.popDue(at: .max) != nil {}
    for key in keys.prefix(3) { #expect(queue.remove(key) == nil) }
    let again = (0..<3).map { queue.insert(at: 0, $0) }
    for key in keys { if queue.remove(key) != nil { Issue.record("a stale key removed another's deadline") } }
    #expect(again.map { queue.remove($0) } == [0, 1, 2])
  }

  @Test func `A payload is let go when its deadline is`() {
    final class Object {}
    weak var removed: Object?
    weak var popped: Object?
    var queue = DeadlineQueue<Object>()
    do {
      let objects = [Object(), Object()]
      removed = objects[0]
      popped = objects[1]
      let key = queue.insert(at: 5, objects[0])
      _ = queue.insert(at: 6, objects[1])
      _ = queue.insert(at: 7, Object())
      queue.remove(key)
      _ = queue.popDue(at: 6)
    }
    #expect(removed == nil && popped == nil)
    #expect(queue.count == 1)
  }

  @Test func `A million armed and cancelled one after the other leave nothing`() {
    var queue = DeadlineQueue<Int>()
    _ = queue.insert(at: .max, -1)
    for number in 0..<500_000 {
      let key = queue.insert(at: Int64(number), number)
      if queue.remove(key) != number { Issue.record("\(number) was not found"); return }
    }
    #expect(queue.count == 1)
    #expect(queue.capacity < 64)
  }

  @Test func `Half a million armed together and cancelled leave nothing`() {
    var queue = DeadlineQueue<Int>()
    let keys = (0..<500_000).map { queue.insert(at: Int64($0 ^ 0x2a5a5), $0) }
    #expect(queue.count == 500_000)
    for key in keys { queue.remove(key) }
    #expect(queue.count == 0 && queue.earliest == nil)
    #expect(queue.capacity <= 1024)
  }

  @Test func `Deadlines of few timeouts are never in the heap, whatever order they are armed and removed in`() {
    var random = SeededRandom(seed: 1)
    var queue = DeadlineQueue<Int>()
    var keys: [DeadlineQueue<Int>.Key] = []
    for now in 0..<20_000 {
      keys.append(queue.insert(at: Int64(now + [5, 30, 300, 7000].randomElement(using: &random)!), now))
      // Runs become empty now and then.
      for _ in 0..<(now / 100 % 3) where !keys.isEmpty {
        keys.swapAt(Int.random(in: 0..<keys.count, using: &random), keys.count - 1)
        queue.remove(keys.removeLast())
      }
      if !queue.heap.isEmpty { Issue.record("\(queue.heap.count) are in the heap after \(now)"); return }
    }
  }

  @Test func `A deadline that stays does not keep those that were removed after it`() {
    var queue = DeadlineQueue<Int>()
    _ = queue.insert(at: 0, -1)
    for number in 0..<100_000 {
      let key = queue.insert(at: Int64(number), number)
      if queue.remove(key) != number { Issue.record("\(number) was not found"); return }
    }
    #expect(queue.earliest == 0)
    #expect(queue.count == 1)
    #expect(queue.capacity <= 256)
  }

  @Test(arguments: [true, false])
  func `A queue that was large and is empty is like new`(isRemoved: Bool) {
    var queue = DeadlineQueue<Int>()
    for _ in 0..<3 {
      let keys = (0..<3000).map { queue.insert(at: Int64($0), $0) }
      for key in keys { if isRemoved { queue.remove(key) } else { _ = queue.popDue(at: .max) } }
      #expect(queue.count == 0 && queue.capacity <= 1024)
      let few = (0..<10).map { queue.insert(at: Int64($0), $0) }
      #expect(few.map { queue.remove($0) } == Array(0..<10))
    }
  }

  @Test func `Deadlines that leave in their order leave room for later ones`() {
    var queue = DeadlineQueue<Int>()
    for number in 0..<100_000 {
      _ = queue.insert(at: Int64(number), number)
      if number >= 100, queue.popDue(at: .max) != number - 100 { Issue.record("\(number - 100) was not first"); return }
    }
    #expect(queue.capacity <= 512)
  }

  @Test(arguments: 1...30 as ClosedRange<UInt64>)
  func `It is what a sorted array is, with times at random`(seed: UInt64) {
    compareWithSortedArray(seed: seed) { _, random in Int64.random(in: 0..<50, using: &random) }
  }

  @Test(arguments: 31...60 as ClosedRange<UInt64>)
  func `It is what a sorted array is, with few timeouts and some of their own`(seed: UInt64) {
    compareWithSortedArray(seed: seed) { now, random in
      let timeout = [5, 30, 31, 300, Int64.random(in: 0..<400, using: &random)].randomElement(using: &random)!
      return now + timeout
    }
  }

  /// `time` makes the time of a deadline from a clock that goes on by one with each event.
  private func compareWithSortedArray(seed: UInt64, time: (_ now: Int64, inout SeededRandom) -> Int64) {
    var random = SeededRandom(seed: seed)
    func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
    var queue = DeadlineQueue<Int>()
    var sorted: [(time: Int64, payload: Int)] = []
    var keys: [DeadlineQueue<Int>.Key] = []
    func insert(_ payload: Int, at time: Int64) {
      sorted.insert((time, payload), at: sorted.firstIndex { $0.time > time } ?? sorted.count)
    }
    // Mostly many are armed, and gaps are made and removed; or few.
    let limit = [3, 100, 1000][pick(3)]
    for event in 0..<3000 {
      let now = Int64(event)
      switch pick(8) {
      case 0..<4 where sorted.count < limit:
        let time = time(now, &random)
        keys.append(queue.insert(at: time, keys.count))
        insert(keys.count - 1, at: time)
      case 4...6 where !keys.isEmpty:
        // Of any age, removed or not, or one of those that fire next.
        let payload = sorted.isEmpty || pick(2) == 0 ? pick(keys.count) : sorted[pick(min(sorted.count, 3))].payload
        let index = sorted.firstIndex { $0.payload == payload }
        if queue.remove(keys[payload]) != index.map({ sorted.remove(at: $0).payload }) {
          Issue.record("seed \(seed), event \(event): \(payload) was removed wrongly")
          return
        }
      case 7 where !sorted.isEmpty:
        let moved = sorted.removeFirst()
        let later = moved.time + Int64(pick(20))
        queue.moveFirst(to: later, moved.payload)
        insert(moved.payload, at: later)
      default:
        let limit = time(now, &random) - 5
        let expected = sorted.first.map { $0.time <= limit } == true ? sorted.removeFirst().payload : nil
        let popped = queue.popDue(at: limit)
        if popped != expected {
          Issue.record("seed \(seed), event \(event): \(popped ?? -1), not \(expected ?? -1)")
          return
        }
      }
      if queue.count != sorted.count || queue.earliest != sorted.first?.time {
        Issue.record("seed \(seed), event \(event): \(queue.count) of \(sorted.count)")
        return
      }
    }
  }
}
