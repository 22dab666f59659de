import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct HandshakeQueueTests {
  private struct Broken: Error {}

  private func connection(_ next: HandshakeQueue<UInt64>.Next) -> UInt64? {
    if case .connection(let connection) = next { connection } else { nil }
  }

  private func hasEnded(_ next: HandshakeQueue<UInt64>.Next) -> Bool {
    if case .ended = next { true } else { false }
  }

  /// A queue with the handshakes 1 to `count`.
  private func queue(limit: Int, handshakes count: UInt64) -> HandshakeQueue<UInt64> {
    var queue = HandshakeQueue<UInt64>(limit: limit)
    for id in 0..<count {
      let hasSlot = queue.beginAccepting()
      #expect(hasSlot)
      queue.accepted(id + 1, id + 1)
    }
    return queue
  }

  @Test func `Connections are delivered in the order in which their handshakes end`() {
    var queue = queue(limit: 3, handshakes: 3)
    let early = queue.next()
    #expect(connection(early) == nil)
    for id in [2, 3, 1] as [UInt64] { queue.succeeded(id) }
    var delivered: [UInt64?] = []
    for _ in 0..<4 { delivered.append(connection(queue.next())) }
    #expect(delivered == [2, 3, 1, nil])
    let last = queue.next()
    #expect(!hasEnded(last))
  }

  @Test func `At the limit nothing is accepted until a connection is delivered or has failed`() {
    var queue = queue(limit: 2, handshakes: 2)
    var slots = [queue.beginAccepting()]
    queue.succeeded(1)
    // It is done, but still takes a place.
    slots.append(queue.beginAccepting())
    let delivered = queue.next()
    #expect(connection(delivered) == 1)
    slots += [queue.beginAccepting(), queue.beginAccepting()]
    let wasThere = queue.failed(2)
    slots += [queue.beginAccepting(), queue.beginAccepting()]
    #expect(slots == [false, false, true, false, true, false] && wasThere)
    queue.acceptEnded()
    queue.acceptEnded()
    #expect(queue.slots == 0 && queue.handshakes == 0)
  }

  @Test func `A connection that was given up has no outcome`() {
    var queue = queue(limit: 2, handshakes: 2)
    let abandoned = queue.abandonHandshakes()
    #expect(abandoned.sorted() == [1, 2] && queue.undelivered.isEmpty)
    let wasThere = queue.failed(1)
    queue.succeeded(2)
    let next = queue.next()
    #expect(!wasThere && connection(next) == nil)
  }

  @Test func `The end comes after the connections whose handshakes have begun`() {
    var queue = queue(limit: 4, handshakes: 2)
    var slots = [queue.beginAccepting()]
    queue.listenerEnded(nil)
    queue.listenerEnded(Broken())
    slots.append(queue.beginAccepting())
    #expect(slots == [true, false])
    _ = queue.failed(1)
    var ends = [hasEnded(queue.next())]
    queue.succeeded(2)
    let delivered = queue.next()
    #expect(connection(delivered) == 2)
    ends.append(hasEnded(queue.next()))
    queue.acceptEnded()
    #expect(ends == [false, false])
    // The first end counts.
    for _ in 0..<2 { if case .ended(nil) = queue.next() {} else { Issue.record("it has not ended") } }
  }

  @Test(arguments: 0..<50 as Range<UInt64>)
  func `Each connection is delivered once or given up once`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let limit = Int.random(in: 1...5, using: &random)
    var queue = HandshakeQueue<UInt64>(limit: limit)
    var (nextID, running, outcomes) = (UInt64(0), Set<UInt64>(), [UInt64: Int]())
    for _ in 0..<400 {
      switch Int.random(in: 0..<8, using: &random) {
      case 0...2: _ = queue.beginAccepting()
      case 3 where queue.slots > 0:
        nextID += 1
        queue.accepted(nextID, nextID)
        running.insert(nextID)
      case 4 where queue.slots > 0: queue.acceptEnded()
      case 5: if let id = running.randomElement(using: &random) { queue.succeeded(id); running.remove(id) }
      case 6:
        if let id = running.randomElement(using: &random), queue.failed(id) {
          outcomes[id, default: 0] += 1; running.remove(id)
        }
      case 7:
        if Int.random(in: 0..<10, using: &random) == 0 {
          for id in queue.abandonHandshakes() { outcomes[id, default: 0] += 1 }
        } else if let id = connection(queue.next()) {
          outcomes[id, default: 0] += 1
        }
      default: break
      }
      #expect(queue.slots + queue.undelivered.count <= limit)
    }
    for id in queue.undelivered { outcomes[id, default: 0] += 1 }
    #expect(outcomes.count == Int(nextID) && outcomes.values.allSatisfy { $0 == 1 }, "seed \(seed)")
  }
}
