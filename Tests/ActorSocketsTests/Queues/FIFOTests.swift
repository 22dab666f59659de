import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct FIFOTests {
  private struct Numbered: Identified, Equatable { var id: UInt64 }

  private static func walk<Element>(_ queue: FIFO<Element>) -> [Element] {
    var elements: [Element] = []
    var next = queue.firstIndex
    while let index = next {
      elements.append(queue[index])
      next = queue.index(after: index)
    }
    return elements
  }

  @Test(arguments: 1...30 as ClosedRange<UInt64>)
  func `It is what an array is, whatever is done to it`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var queue = FIFO<Numbered>()
    var model: [Numbered] = []
    for event in 0..<3000 as Range<UInt64> {
      // Longer and shorter by turns, so that it grows beyond what it keeps and shrinks again.
      let grows = event / 300 % 2 == 0
      var isAsExpected = true
      switch Int.random(in: 0..<100, using: &random) {
      case 0..<(grows ? 70 : 30):
        queue.append(Numbered(id: event))
        model.append(Numbered(id: event))
      case 70..<90 where !model.isEmpty:
        let removed = model.remove(at: Int.random(in: 0..<model.count, using: &random))
        isAsExpected = queue.index(of: removed.id).map { queue.remove(at: $0) } == removed
      case 90:
        queue.removeAll { $0.id % 7 == event % 7 }
        model.removeAll { $0.id % 7 == event % 7 }
      default:
        isAsExpected = queue.popFirst() == (model.isEmpty ? nil : model.removeFirst())
      }
      isAsExpected =
        isAsExpected && queue.count == model.count && queue.isEmpty == model.isEmpty && queue.first == model.first
        && queue.last == model.last
      if !isAsExpected || (event % 50 == 0 && (Self.walk(queue) != model || queue.all != model)) {
        Issue.record("seed \(seed), event \(event)")
        return
      }
    }
    #expect(Self.walk(queue) == model, "seed \(seed)")
  }

  @Test(arguments: 1...10 as ClosedRange<UInt64>)
  func `An element is found by its number, wherever gaps are`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var queue = FIFO<Numbered>()
    var left = Array(1...300 as ClosedRange<UInt64>)
    for id in left { queue.append(Numbered(id: id)) }
    for _ in 0..<200 {
      let id = left.remove(at: Int.random(in: 0..<left.count, using: &random) / 2)
      let removed = queue.index(of: id).map { queue.remove(at: $0).id }
      #expect(removed == id)
      for id in 0...301 as ClosedRange<UInt64> {
        if queue.index(of: id).map({ queue[$0].id }) != (left.contains(id) ? id : nil) {
          Issue.record("seed \(seed): \(id)")
        }
      }
    }
    let empty = FIFO<Numbered>()
    #expect(empty.index(of: 1) == nil && empty.firstIndex == nil)
  }

  @Test func `An element that left is let go at once`() {
    final class Object: Identified {
      let id: UInt64
      init(_ id: UInt64) { self.id = id }
    }
    weak var first: Object?
    weak var middle: Object?
    var queue = FIFO<Object>()
    do {
      let objects = [Object(1), Object(2), Object(3)]
      first = objects[0]
      middle = objects[1]
      for object in objects { queue.append(object) }
    }
    if let index = queue.index(of: 2) { queue.remove(at: index) }
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

  private final class Counter { var looks = 0 }

  /// An element that counts how often a queue looks at its number.
  private final class Counted: Identified {
    private let number: UInt64
    private let counter: Counter

    init(_ number: UInt64, _ counter: Counter) {
      self.number = number
      self.counter = counter
    }

    var id: UInt64 {
      counter.looks += 1
      return number
    }
  }

  @Test func `An element is found without looking at many others`() {
    let counter = Counter()
    var queue = FIFO<Counted>()
    for id in 0..<100_000 as Range<UInt64> { queue.append(Counted(id, counter)) }
    for id in [0, 1, 49_999, 50_000, 99_999, 100_000] as [UInt64] {
      let before = counter.looks
      #expect((queue.index(of: id) != nil) == (id < 100_000))
      // Two to the seventeenth are more than there are.
      #expect(counter.looks - before <= 18)
    }
  }

  @Test(arguments: RemovalOrder.allCases)
  func `A hundred thousand elements are removed in any order without a move of the others`(order: RemovalOrder) {
    // Moved at each one that leaves, it would be up to 2.5 billion moves.
    let counter = Counter()
    var queue = FIFO<Counted>()
    for id in order.ids.sorted() { queue.append(Counted(id, counter)) }
    for (number, id) in order.ids.enumerated() {
      guard let index = queue.index(of: id) else { Issue.record("\(id) is not there"); return }
      queue.remove(at: index)
      if number % 1000 == 0, let first = queue.firstIndex, let next = queue.index(after: first) {
        #expect(queue[first].id < queue[next].id)
      }
    }
    #expect(queue.isEmpty)
    // A binary search, and the numbers of those that left, which are looked up again after each halving.
    #expect(counter.looks <= 100_000 * 21)
  }

  @Test func `An element that leaves the middle moves no other`() {
    var queue = FIFO<Numbered>()
    for id in 0..<100 as Range<UInt64> { queue.append(Numbered(id: id)) }
    var places: [UInt64: FIFO<Numbered>.Index] = [:]
    for id in 0..<100 as Range<UInt64> { places[id] = queue.index(of: id) }
    // So few that the gaps stay.
    for id in [50, 10, 98, 51, 49, 11, 97, 1, 60, 2] as [UInt64] {
      if let index = queue.index(of: id) { queue.remove(at: index) }
      places[id] = nil
      let haveMoved = places.filter { queue.index(of: $0.key) != $0.value }.map(\.key)
      #expect(haveMoved == [], "after \(id) left")
    }
    #expect(queue.count == 90 && places.count == 90)
  }
}
