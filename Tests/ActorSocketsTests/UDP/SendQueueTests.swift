import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct SendQueueTests {
  private static let somewhere = SocketAddress.ipv4(.loopback, port: 9)

  @Test func `Entries leave in order, whole, and each once`() {
    for batch in [1, 2, 3, 100] {
      var driver = SendDriver()
      _ = driver.queue.admit(.datagrams(datagrams([1, 2, 3])), 0)
      _ = driver.queue.admit(.datagrams([]), 1)
      _ = driver.queue.admit(.datagrams(datagrams([4])), 2)
      driver.run(batch: batch)
      #expect(driver.sent == [1, 2, 3, 4])
      #expect(driver.outcomes == [0: "sent", 1: "sent", 2: "sent"])
      #expect(driver.queue.isEmpty && driver.queue.queuedBytes == 0)
    }
  }

  @Test func `A datagram that cannot be sent does not keep its neighbours`() {
    for batch in [1, 2, 100] {
      var driver = SendDriver()
      _ = driver.queue.admit(.datagrams(datagrams([1, 2, 3, 4, 5])), isBatch: true, 0)
      _ = driver.queue.admit(.datagrams(datagrams([6])), 1)
      _ = driver.queue.admit(.datagrams(datagrams([7])), 2)
      driver.run(batch: batch, bad: [1, 4, 6])
      #expect(driver.sent == [2, 3, 5, 7])
      #expect(driver.outcomes == [0: "3 sent, failed [0, 3]", 1: "unreachable", 2: "sent"])
      #expect(driver.queue.queuedBytes == 0)
    }
  }

  @Test func `A name holds up what is behind it, and not what is before`() {
    var driver = SendDriver()
    _ = driver.queue.admit(.datagrams(datagrams([1])), 0)
    let name = driver.queue.admit(.lookingUp(Datagram([2])), 1)
    let other = driver.queue.admit(.lookingUp(Datagram([3])), 2)
    _ = driver.queue.admit(.datagrams(datagrams([4])), 3)
    driver.run()
    #expect(driver.sent == [1])
    driver.found(Self.somewhere, for: other)
    driver.run()
    #expect(driver.sent == [1] && driver.queue.queuedBytes == 3)
    driver.found(Self.somewhere, for: name)
    driver.run()
    #expect(driver.sent == [1, 2, 3, 4])
  }

  @Test func `A name that is not found fails its own datagram`() {
    var driver = SendDriver()
    let name = driver.queue.admit(.lookingUp(Datagram([1])), 0)
    _ = driver.queue.admit(.datagrams(datagrams([2])), 1)
    driver.queue.resolve(name, .failure(SocketError(.hostNotFound, operation: "look up")))
    // A second answer changes nothing, nor does one for a call that has left.
    driver.found(Self.somewhere, for: name)
    driver.found(Self.somewhere, for: 99)
    driver.run()
    #expect(driver.sent == [2] && driver.outcomes == [0: "hostNotFound", 1: "sent"])
    #expect(driver.queue.queuedBytes == 0)
  }

  @Test func `A peer is changed in its turn`() {
    var driver = SendDriver()
    _ = driver.queue.admit(.datagrams(datagrams([1])), 0)
    let peer = driver.queue.admit(.lookingUpPeer, 1)
    _ = driver.queue.admit(.datagrams(datagrams([2])), 2)
    _ = driver.queue.admit(.peer([]), 3)
    driver.run()
    #expect(driver.sent == [1] && driver.connects.isEmpty)
    driver.found(Self.somewhere, for: peer)
    driver.run()
    #expect(driver.sent == [1, 2] && driver.connects == [[Self.somewhere], []])
    #expect(driver.outcomes == [0: "sent", 1: "sent", 2: "sent", 3: "unreachable"])
  }

  @Test func `A removed call takes only its unsent datagrams with it`() {
    var driver = SendDriver()
    let first = driver.queue.admit(.datagrams(datagrams([1, 2, 3])), 0)
    let second = driver.queue.admit(.datagrams(datagrams([4])), 1)
    _ = driver.queue.admit(.datagrams(datagrams([5])), 2)
    driver.run(limit: 2)
    #expect(driver.queue.remove(second)?.sentBytes == 0)
    let removed = driver.queue.remove(first)
    #expect(removed?.tag == 0 && removed?.sentBytes == 2)
    #expect(driver.queue.remove(first) == nil)
    driver.run()
    #expect(driver.sent == [1, 2, 5] && driver.outcomes == [2: "sent"])
    #expect(driver.queue.queuedBytes == 0)
  }

  @Test(arguments: 0..<200)
  func `In any order of events nothing is lost, doubled or out of order`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var driver = SendDriver()
    var next: UInt8 = 0
    var contents: [Int: [UInt8]] = [:]
    var ids: [Int: UInt64] = [:]
    var lookingUp: [Int] = []
    var removed: Set<Int> = []
    let bad = Set((0..<40).map { _ in UInt8.random(in: 0...255, using: &random) })
    for tag in 0..<60 where next < 240 {
      let count = Int.random(in: 0...4, using: &random)
      let numbers = (0..<count).map { next + UInt8($0) }
      next += UInt8(count)
      contents[tag] = numbers
      if count == 1, Bool.random(using: &random) {
        ids[tag] = driver.queue.admit(.lookingUp(Datagram(numbers)), tag)
        lookingUp.append(tag)
      } else {
        ids[tag] = driver.queue.admit(.datagrams(datagrams(numbers)), isBatch: true, tag)
      }
      switch Int.random(in: 0..<5, using: &random) {
      case 0:
        if let tag = lookingUp.randomElement(using: &random), let id = ids[tag] {
          driver.found(Self.somewhere, for: id)
        }
      case 1:
        if let id = ids[Int.random(in: 0...tag, using: &random)], let tag = driver.queue.remove(id)?.tag {
          removed.insert(tag)
        }
      case 2:
        driver.run(batch: Int.random(in: 1...5, using: &random), limit: Int.random(in: 1...6, using: &random), bad: bad)
      default: break
      }
    }
    for tag in lookingUp { ids[tag].map { driver.found(Self.somewhere, for: $0) } }
    driver.run(bad: bad)
    #expect(driver.sent == driver.sent.sorted() && Set(driver.sent).count == driver.sent.count)
    #expect(driver.queue.isEmpty && driver.queue.queuedBytes == 0)
    for (tag, numbers) in contents {
      #expect((driver.outcomes[tag] != nil) != removed.contains(tag))
      guard let outcome = driver.outcomes[tag] else { continue }
      let failed = numbers.filter { bad.contains($0) }
      #expect((outcome == "sent") == failed.isEmpty)
      #expect(Set(numbers).subtracting(failed).isSubset(of: driver.sent))
      #expect(Set(failed).isDisjoint(with: driver.sent))
    }
  }

  @Test func `An entry that may not be sent is not gathered, nor are those behind it`() {
    var queue = SendQueue<Int>()
    for tag in 1...4 { _ = queue.admit(.datagrams([Datagram([UInt8(tag)])]), tag) }
    guard case .send = queue.step() else {
      Issue.record("there is nothing to send")
      return
    }
    #expect(queue.unsent(atMost: 10) { if case .call(_, 3) = $0 { false } else { true } }.map(\.bytes) == [[1], [2]])
    // The first one is under way, whatever its time.
    #expect(queue.unsent(atMost: 10) { _ in false }.map(\.bytes) == [[1]])
  }
}
