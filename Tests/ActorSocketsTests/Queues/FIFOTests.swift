import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite struct FIFOTests {
  private struct Numbered: Identified, Equatable { var id: UInt64 }

  @Test(arguments: 1...30 as ClosedRange<UInt64>)
  func `It is what an array is, whatever is done to it`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var queue = FIFO<Int>()
    var model: [Int] = []
    for event in 0..<3000 {
      // Longer and shorter by turns, so that it grows beyond what it keeps and shrinks again.
      let grows = event / 300 % 2 == 0
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<(grows ? 7 : 3):
        queue.append(event)
        model.append(event)
      case 8 where !model.isEmpty:
        let index = Int.random(in: 0..<model.count, using: &random)
        if queue.remove(at: index) != model.remove(at: index) { Issue.record("seed \(seed), event \(event)") }
      default:
        if queue.popFirst() != (model.isEmpty ? nil : model.removeFirst()) {
          Issue.record("seed \(seed), event \(event)")
        }
      }
      let isEqual =
        queue.count == model.count && queue.isEmpty == model.isEmpty && queue.first == model.first
        && model.indices.last.map { queue[$0] } == model.last
      if !isEqual {
        Issue.record("seed \(seed), event \(event)")
        return
      }
    }
    #expect(model.indices.map { queue[$0] } == model, "seed \(seed)")
  }

  @Test(arguments: 1...10 as ClosedRange<UInt64>)
  func `An element is found by its number, wherever gaps are`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var queue = FIFO<Numbered>()
    for id in 1...300 as ClosedRange<UInt64> { queue.append(Numbered(id: id)) }
    for _ in 0..<200 { queue.remove(at: Int.random(in: 0..<queue.count, using: &random) / 2) }
    let left = (0..<queue.count).map { queue[$0].id }
    for id in 0...301 as ClosedRange<UInt64> {
      if queue.index(of: id) != left.firstIndex(of: id) { Issue.record("seed \(seed): \(id)") }
    }
    let empty = FIFO<Numbered>()
    #expect(empty.index(of: 1) == nil)
  }

  @Test func `An element that left is let go at once`() {
    final class Object {}
    weak var first: Object?
    weak var middle: Object?
    var queue = FIFO<Object>()
    do {
      let objects = [Object(), Object(), Object()]
      first = objects[0]
      middle = objects[1]
      for object in objects { queue.append(object) }
    }
    queue.remove(at: 1)
    #expect(middle == nil)
    #expect(first != nil)
    _ = queue.popFirst()
    #expect(first == nil)
    #expect(queue.count == 1)
  }

  @Test func `A hundred thousand elements go through a queue that is never empty`() {
    // Moved at each one that leaves, it would be 10 billion moves.
    var queue = FIFO<Int>()
    for element in 0..<100_000 { queue.append(element) }
    for element in 0..<200_000 {
      queue.append(100_000 + element)
      if queue.popFirst() != element { Issue.record("\(element) is out of order"); return }
    }
    #expect(queue.count == 100_000)
  }

  @Test func `An element is found without looking at many others`() {
    final class Counted: Identified {
      static let looks = Locked(0)
      private let number: UInt64
      init(_ number: UInt64) { self.number = number }
      var id: UInt64 {
        Self.looks.withLock { $0 += 1 }
        return number
      }
    }
    var queue = FIFO<Counted>()
    for id in 0..<100_000 as Range<UInt64> { queue.append(Counted(id)) }
    for id in [0, 1, 49_999, 50_000, 99_999, 100_000] as [UInt64] {
      let before = Counted.looks.withLock { $0 }
      #expect(queue.index(of: id) == (id < 100_000 ? Int(id) : nil))
      // Two to the seventeenth are more than there are.
      #expect(Counted.looks.withLock { $0 } - before <= 18)
    }
  }
}
