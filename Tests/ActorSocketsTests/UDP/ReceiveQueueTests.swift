import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct ReceiveQueueTests {
  private typealias Queue = ReceiveQueue<Int>

  /// Carries out what a queue of receives says; datagrams are taken from `kernel`, up to `batch` at a time.
  private static func run(
    _ queue: inout Queue, _ kernel: inout [UInt8], batch: Int = 4, _ got: inout [(tag: Int, bytes: [UInt8])]
  ) -> UInt64? {
    while true {
      switch queue.step(mayFetch: !kernel.isEmpty) {
      case .idle: return nil
      case .begin: break
      case .fetch:
        queue.arrived(kernel.prefix(batch).map { Datagram([$0]) })
        kernel.removeFirst(min(batch, kernel.count))
      case .finish(let tag, let datagrams): got.append((tag, datagrams.flatMap(\.bytes)))
      case .borrow(let id, _): return id
      }
    }
  }

  @Test func `Datagrams are fetched only when a call asks for them, and a batch serves later calls, too`() {
    var queue = Queue()
    var kernel: [UInt8] = [1, 2, 3, 4, 5, 6]
    var got: [(tag: Int, bytes: [UInt8])] = []
    _ = Self.run(&queue, &kernel, &got)
    #expect(kernel.count == 6)
    _ = queue.admit(upTo: 1, 0)
    _ = Self.run(&queue, &kernel, &got)
    #expect(got.last?.bytes == [1] && queue.fetchedCount == 3 && kernel.count == 2)
    _ = queue.admit(upTo: 10, 1)
    _ = queue.admit(upTo: 2, 2)
    _ = Self.run(&queue, &kernel, &got)
    #expect(got.map(\.tag) == [0, 1, 2])
    #expect(got.map(\.bytes) == [[1], [2, 3, 4], [5, 6]])
    #expect(queue.isFree)
  }

  @Test func `Who looks has the turn until it ends`() {
    var queue = Queue()
    var kernel: [UInt8] = []
    var got: [(tag: Int, bytes: [UInt8])] = []
    let first = queue.admit(upTo: 0, 0)
    _ = queue.admit(upTo: 1, 1)
    #expect(Self.run(&queue, &kernel, &got) == nil)
    kernel = [1, 2]
    #expect(Self.run(&queue, &kernel, &got) == first)
    #expect(Self.run(&queue, &kernel, &got) == nil && !queue.isFree)
    // It found nothing, for what was announced had gone: it stays the first.
    queue.endBorrow(first, isDone: false)
    #expect(Self.run(&queue, &kernel, &got) == first)
    queue.endBorrow(first, isDone: true)
    #expect(Self.run(&queue, &kernel, &got) == nil)
    #expect(got.map(\.tag) == [1] && got.map(\.bytes) == [[1]])
  }

  @Test(arguments: 0..<200)
  func `In any order of events datagrams are given out once, and in order`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var queue = Queue()
    var kernel: [UInt8] = []
    var next: UInt8 = 0
    var got: [(tag: Int, bytes: [UInt8])] = []
    var ids: [UInt64] = []
    var left: Set<Int> = []
    for tag in 0..<100 {
      switch Int.random(in: 0..<4, using: &random) {
      case 0, 1: ids.append(queue.admit(upTo: Int.random(in: 1...3, using: &random), tag))
      case 2:
        for _ in 0..<Int.random(in: 0...3, using: &random) where next < 250 {
          kernel.append(next)
          next += 1
        }
      default:
        if let id = ids.randomElement(using: &random), let tag = queue.remove(id) { left.insert(tag) }
      }
      _ = Self.run(&queue, &kernel, batch: Int.random(in: 1...32, using: &random), &got)
      #expect(queue.fetchedCount <= 32)
    }
    let all = got.flatMap(\.bytes)
    #expect(all == Array(0..<UInt8(all.count)))
    #expect(got.map(\.tag) == got.map(\.tag).sorted() && left.isDisjoint(with: got.map(\.tag)))
    #expect(got.allSatisfy { !$0.bytes.isEmpty })
  }
}
