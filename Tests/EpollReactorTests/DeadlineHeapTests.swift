import TestSupport
import Testing

@testable import EpollReactor

@Suite(.tags(.pure)) struct DeadlineHeapTests {
  @Test func `Deadlines come in the order of their times, equal ones in the order of arming`() {
    var heap = DeadlineHeap<Int>()
    let times: [Int64] = [5, 1, 5, 3, .max, -4, 1, 5, .min, 1]
    for (payload, time) in times.enumerated() { _ = heap.insert(at: time, payload) }
    #expect(heap.earliest == .min)
    var order: [Int] = []
    while let payload = heap.popDue(at: .max) { order.append(payload) }
    #expect(order == [8, 5, 1, 6, 9, 3, 0, 2, 7, 4])
    #expect(heap.count == 0 && heap.earliest == nil)
  }

  @Test func `The earliest can be put off, and its key still finds it`() {
    var heap = DeadlineHeap<Int>()
    let keys = (0..<10).map { heap.insert(at: Int64($0), $0) }
    #expect(heap.firstDue(at: -1) == nil)
    #expect(heap.firstDue(at: 0) == 0)
    heap.moveFirst(to: 5, 100)
    #expect(heap.firstDue(at: 0) == nil)
    var order: [Int] = []
    while let payload = heap.popDue(at: 5) { order.append(payload) }
    #expect(order == [1, 2, 3, 4, 5, 100])
    heap.moveFirst(to: 20, 6)
    #expect(heap.remove(keys[6]) == 6)
    #expect(heap.remove(keys[0]) == nil)
    #expect(heap.count == 3)
  }

  @Test func `A key from before the storage was let go finds nothing`() {
    var heap = DeadlineHeap<Int>()
    let keys = (0..<5000).map { heap.insert(at: Int64($0), $0) }
    while heap.popDue(at: .max) != nil {}
    for key in keys.prefix(3) { #expect(heap.remove(key) == nil) }
    let again = (0..<3).map { heap.insert(at: 0, $0) }
    for key in keys { if heap.remove(key) != nil { Issue.record("a stale key removed another's deadline") } }
    #expect(again.map { heap.remove($0) } == [0, 1, 2])
  }

  @Test func `A payload is let go when its deadline is`() {
    final class Object {}
    weak var removed: Object?
    weak var popped: Object?
    var heap = DeadlineHeap<Object>()
    do {
      let objects = [Object(), Object()]
      removed = objects[0]
      popped = objects[1]
      let key = heap.insert(at: 5, objects[0])
      _ = heap.insert(at: 6, objects[1])
      _ = heap.insert(at: 7, Object())
      heap.remove(key)
      _ = heap.popDue(at: 6)
    }
    #expect(removed == nil && popped == nil)
    #expect(heap.count == 1)
  }

  @Test func `A million armed and cancelled one after the other leave nothing`() {
    var heap = DeadlineHeap<Int>()
    _ = heap.insert(at: .max, -1)
    for number in 0..<500_000 {
      let key = heap.insert(at: Int64(number), number)
      if heap.remove(key) != number { Issue.record("\(number) was not found"); return }
    }
    #expect(heap.count == 1)
    #expect(heap.capacity < 64)
  }

  @Test func `Half a million armed together and cancelled leave nothing`() {
    var heap = DeadlineHeap<Int>()
    let keys = (0..<500_000).map { heap.insert(at: Int64($0 ^ 0x2a5a5), $0) }
    #expect(heap.count == 500_000)
    for key in keys { heap.remove(key) }
    #expect(heap.count == 0 && heap.earliest == nil)
    #expect(heap.capacity <= 1024)
  }

  @Test(arguments: 1...30 as ClosedRange<UInt64>)
  func `It is what a sorted array is, whatever is done to it`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
    var heap = DeadlineHeap<Int>()
    var sorted: [(time: Int64, payload: Int)] = []
    var keys: [DeadlineHeap<Int>.Key] = []
    for event in 0..<1500 {
      switch pick(5) {
      case 0, 1:
        let time = Int64(pick(50))
        keys.append(heap.insert(at: time, keys.count))
        sorted.insert((time, keys.count - 1), at: sorted.firstIndex { $0.time > time } ?? sorted.count)
      case 3 where !keys.isEmpty:
        let payload = pick(keys.count)
        let index = sorted.firstIndex { $0.payload == payload }
        if heap.remove(keys[payload]) != index.map({ sorted.remove(at: $0).payload }) {
          Issue.record("seed \(seed), event \(event): \(payload) was removed wrongly")
          return
        }
      default:
        let now = Int64(pick(60) - 5)
        let expected = sorted.first.map { $0.time <= now } == true ? sorted.removeFirst().payload : nil
        let popped = heap.popDue(at: now)
        if popped != expected {
          Issue.record("seed \(seed), event \(event): \(popped ?? -1), not \(expected ?? -1)")
          return
        }
      }
      if heap.count != sorted.count || heap.earliest != sorted.first?.time {
        Issue.record("seed \(seed), event \(event): \(heap.count) of \(sorted.count)")
        return
      }
    }
  }
}
