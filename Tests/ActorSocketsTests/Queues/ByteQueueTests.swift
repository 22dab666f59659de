import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct ByteQueueTests {
  private func bytes(_ queue: ByteQueue) -> [UInt8] { queue.withBytes { [UInt8](copying: $0) } }

  @Test func `An empty queue has nothing, and nothing can be taken from it again and again`() {
    var queue = ByteQueue()
    for _ in 0..<3 {
      #expect(queue.isEmpty && queue.count == 0)
      #expect(queue.take(0) == [])
      queue.drop(0)
      #expect(bytes(queue) == [])
      #expect(Array(queue.prefix(9)) == [])
      #expect(queue.firstIndex(of: [1], from: 0, before: 9) == nil)
      let none: [UInt8] = []
      queue.append(none.span)
    }
  }

  @Test func `Room for much does not stay with little`() {
    for (count, fits) in [(0, true), (100, true), (30_000, true), (40_000, false), (65_536, false)] {
      var queue = ByteQueue()
      queue.append { storage in
        storage.reserveCapacity(65_536)
        storage += repeatElement(7, count: count)
      }
      queue.fit()
      let taken = queue.take(count)
      #expect(taken == Array(repeating: 7, count: count))
      #expect((taken.capacity < 65_536) == fits, "\(taken.capacity) for \(count)")
    }
  }

  @Test(arguments: 1...30 as ClosedRange<UInt64>)
  func `It is what an array is, whatever is done to it`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var queue = ByteQueue()
    var model: [UInt8] = []
    let most = seed % 2 == 0 ? 40 : 2000
    for event in 0..<600 {
      let count = Int.random(in: 0...most, using: &random)
      let some = Int.random(in: 0...model.count, using: &random)
      switch Int.random(in: 0..<6, using: &random) {
      case 0, 1:
        let more = (0..<count).map { _ in UInt8.random(in: 0...3, using: &random) }
        queue.append(more.span)
        model += more
      case 2:
        let result = queue.append { storage -> Int in
          storage += [1, 2, 3]
          return 7
        }
        #expect(result == 7)
        model += [1, 2, 3]
      case 3:
        queue.drop(some)
        model.removeFirst(some)
      case 4:
        // As a whole as often as in part: that is a way of its own.
        let length = event % 2 == 0 ? some : model.count
        if queue.take(length) != Array(model.prefix(length)) { Issue.record("seed \(seed), event \(event)") }
        model.removeFirst(length)
      default:
        let needle: [UInt8] = [[0], [1, 2], [0, 0, 1], [3, 3, 3, 3]][event % 4]
        let end = Int.random(in: 0...model.count + 5, using: &random)
        let start = some - 3
        let inside = Array(model.prefix(end))
        let expected = inside.indices.first {
          $0 >= start && $0 + needle.count <= inside.count && inside[$0..<$0 + needle.count].elementsEqual(needle)
        }
        if queue.firstIndex(of: needle, from: start, before: end) != expected {
          Issue.record("seed \(seed), event \(event): \(needle) from \(start) before \(end)")
        }
        if Array(queue.prefix(end)) != inside { Issue.record("seed \(seed), event \(event): the first \(end)") }
      }
      if bytes(queue) != model || queue.count != model.count || queue.isEmpty != model.isEmpty {
        Issue.record("seed \(seed), event \(event)")
        return
      }
      if let last = model.indices.last, queue[last] != model[last] || queue[0] != model[0] {
        Issue.record("seed \(seed), event \(event): a byte")
        return
      }
    }
  }

  @Test func `Nothing is found beyond the end that is given, nor by a needle longer than what there is`() {
    var queue = ByteQueue()
    let some: [UInt8] = [9, 1, 2, 3]
    queue.append(some.span)
    queue.drop(1)
    #expect(queue.firstIndex(of: [2, 3], from: 0, before: 3) == 1)
    #expect(queue.firstIndex(of: [2, 3], from: 0, before: 2) == nil)
    #expect(queue.firstIndex(of: [2, 3], from: -5, before: .max) == 1)
    #expect(queue.firstIndex(of: [2, 3], from: 2, before: .max) == nil)
    #expect(queue.firstIndex(of: [1, 2, 3, 4], from: 0, before: .max) == nil)
    #expect(queue.firstIndex(of: [9], from: 0, before: .max) == nil)
  }

  @Test func `Bytes that arrived at once and are taken as a whole are not copied again`() {
    var queue = ByteQueue()
    let large = [UInt8](repeating: 1, count: 100_000)
    queue.append(large.span)
    let before = address { queue.withBytes($0) }
    let taken = queue.take(100_000)
    #expect(address { $0(taken.span) } == before)
  }

  private func address(_ show: ((Span<UInt8>) -> UInt) -> UInt) -> UInt {
    // SAFETY: the address is compared and never used.
    show { span in unsafe span.withUnsafeBytes { memory in UInt(bitPattern: memory.baseAddress) } }
  }

  @Test func `An empty queue keeps no large array`() {
    var queue = ByteQueue()
    for size in [100, 1 << 20] {
      let bytes = [UInt8](repeating: 1, count: size)
      queue.append(bytes.span)
      queue.drop(size - 1)
      queue.drop(1)
      #expect(queue.append { $0.capacity } <= 512)
    }
  }

  @Test func `A few bytes that wait do not keep the large array in which they came`() {
    var queue = ByteQueue()
    let bytes = [UInt8](repeating: 1, count: 1 << 20)
    queue.append(bytes.span)
    _ = queue.take(bytes.count - 1)
    #expect(queue.append { $0.capacity } < 1 << 16)
    #expect(queue.count == 1)
  }

  @Test func `A megabyte taken byte by byte, and a stream that goes through byte by byte`() {
    var queue = ByteQueue()
    let megabyte = [UInt8](repeating: 1, count: 1 << 20)
    queue.append(megabyte.span)
    for _ in 0..<(1 << 19) { queue.drop(1) }
    // With half of it waiting, bytes go on coming and going; moved at each, it would be 100 GB.
    let one: [UInt8] = [2]
    for _ in 0..<200_000 {
      queue.append(one.span)
      queue.drop(1)
    }
    #expect(queue.count == 1 << 19)
    // Bytes that were taken do not pile up in front.
    #expect(queue.append { $0.count } <= 1 << 20)
  }
}
