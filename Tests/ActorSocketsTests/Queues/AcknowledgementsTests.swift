import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct AcknowledgementsTests {
  @Test func `Those leave whose bytes are acknowledged, in order, and none for later bytes`() {
    var queue = Acknowledgements<String>()
    queue.add(1, position: 10, "a")
    queue.add(4, position: 10, "b")
    queue.add(7, position: 30, "c")
    #expect(queue.acknowledged(9) == [])
    #expect(queue.acknowledged(29) == ["a", "b"])
    #expect(queue.acknowledged(29) == [])
    #expect(queue.acknowledged(30) == ["c"])
    #expect(queue.isEmpty)
  }

  @Test func `One that is taken out is gone, and the others are still there`() {
    var queue = Acknowledgements<String>()
    for id in 1...5 as ClosedRange<UInt64> { queue.add(id, position: Int(id), "\(id)") }
    #expect(queue.tag(of: 3) == "3")
    #expect(queue.remove(3) == "3")
    #expect(queue.remove(3) == nil)
    #expect(queue.remove(6) == nil)
    #expect(queue.acknowledged(2) == ["1", "2"])
    #expect(queue.takeAll() == ["4", "5"])
    #expect(queue.isEmpty)
  }

  @Test func `The kernel is asked less and less often, but not too seldom, and often again for the next`() {
    var queue = Acknowledgements<Int>()
    queue.add(1, position: 1, 1)
    let pauses = (0..<200).map { _ in queue.nextPause() }
    #expect(pauses.prefix(9) == Array(repeating: 1_000_000, count: 9)[...] && pauses.last == 1_000_000_000)
    var waited: Int64 = 0
    for pause in pauses {
      #expect(pause <= max(1_000_000, waited / 8))
      waited += pause
    }
    queue.add(2, position: 1, 2)
    #expect(queue.nextPause() == 1_000_000)
  }
}
