import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct SendLineTests {
  private static let (a, b, c) = (address(1), address(2), address(3))

  private static func address(_ port: UInt16) -> SocketAddress { .ipv4(.loopback, port: port) }

  private static func reply(_ number: UInt8, to address: SocketAddress) -> Datagram {
    Datagram(received: [], from: address, isTruncated: false, nil).reply([number])
  }

  @Test(arguments: [1, 2, 100])
  func `A destination without room holds up what goes to it and nothing else`(batch: Int) {
    var driver = SendDriver()
    driver.full = [Self.a]
    for (tag, address) in [Self.a, Self.b, Self.a, Self.b].enumerated() {
      _ = driver.queue.admit(.datagrams([Datagram([UInt8(tag)], to: address)]), tag)
    }
    driver.run(batch: batch)
    #expect(driver.sent == [1, 3] && driver.outcomes == [1: "sent", 3: "sent"])
    #expect(driver.queue.count == 2 && driver.queue.queuedBytes == 2 && driver.refusals == 1)
    #expect(driver.queue.destination(of: 1) == Self.a)
    #expect(driver.queue.mayOvertake(to: Self.b) && !driver.queue.mayOvertake(to: Self.a))
    // Behind those that wait, also when there is room again.
    driver.full = []
    _ = driver.queue.admit(.datagrams([Datagram([4], to: Self.a)]), 4)
    driver.run(batch: batch)
    #expect(driver.sent == [1, 3])
    driver.queue.lines.retry(at: .max)
    driver.run(batch: batch)
    #expect(driver.sent == [1, 3, 0, 2, 4] && driver.queue.isEmpty && driver.queue.queuedBytes == 0)
    #expect(driver.outcomes.count == 5)
  }

  @Test(arguments: [1, 2, 100])
  func `A batch waits for its datagrams to a destination without room, and sends the others`(batch: Int) {
    var driver = SendDriver()
    driver.full = [Self.a, Self.c]
    let mixed = zip(0..<6 as Range<UInt8>, [Self.a, Self.b, Self.c, Self.a, Self.b, Self.c]).map {
      Datagram([$0], to: $1)
    }
    _ = driver.queue.admit(.datagrams(mixed), isBatch: true, 0)
    driver.run(batch: batch)
    #expect(driver.sent == [1, 4] && driver.outcomes.isEmpty)
    driver.full = [Self.c]
    driver.queue.lines.retry(at: .max)
    driver.run(batch: batch, bad: [3])
    #expect(driver.sent == [1, 4, 0] && driver.outcomes.isEmpty)
    driver.full = []
    driver.queue.lines.retry(at: .max)
    driver.run(batch: batch, bad: [2])
    #expect(driver.sent == [1, 4, 0, 5] && driver.outcomes == [0: "4 sent, failed [2, 3]"])
    #expect(driver.queue.isEmpty && driver.queue.queuedBytes == 0)
  }

  @Test func `A call that is taken back leaves all lines`() {
    var driver = SendDriver()
    driver.full = [Self.a, Self.b]
    let mixed = [Datagram([1, 1], to: Self.a), Datagram([2], to: Self.c), Datagram([3], to: Self.b)]
    let id = driver.queue.admit(.datagrams(mixed), isBatch: true, 0)
    _ = driver.queue.admit(.datagrams([Datagram([4], to: Self.a)]), 1)
    driver.run()
    let removed = driver.queue.remove(id)
    #expect(removed?.tag == 0 && removed?.sentBytes == 1 && driver.queue.remove(id) == nil)
    driver.full = []
    driver.queue.lines.retry(at: .max)
    driver.run()
    #expect(driver.sent == [2, 4] && driver.queue.isEmpty && driver.queue.queuedBytes == 0)
  }

  @Test func `The pause grows while there is no room, and only a success makes it short`() {
    var driver = SendDriver()
    driver.full = [Self.a]
    for tag in 0..<3 { _ = driver.queue.admit(.datagrams([Datagram([UInt8(tag)], to: Self.a)]), tag) }
    var pauses: [Int64] = []
    func wait() {
      guard let next = driver.queue.lines.nextRetry else { return }
      pauses.append(next - driver.now)
      driver.now = next
      driver.queue.lines.retry(at: next)
      driver.run(batch: 1, limit: 1)
    }
    driver.run()
    for _ in 0..<20 { wait() }
    #expect(driver.refusals == 21 && pauses.allSatisfy { $0 > 0 && $0 <= RetryPause.longest })
    #expect(pauses[0] <= RetryPause.firstUnannounced && pauses.suffix(5).allSatisfy { $0 * 2 >= RetryPause.longest })
    // An event that belongs to the failed call changes nothing.
    driver.queue.lines.roomMayBe()
    driver.run()
    #expect(driver.refusals == 21)
    driver.full = []
    wait()
    #expect(driver.sent == [0])
    driver.full = [Self.a]
    driver.run()
    pauses = []
    wait()
    #expect(pauses[0] <= RetryPause.firstUnannounced)
  }

  @Test(arguments: [true, false])
  func `A pause at the end of the clock ends there`(isAnnounced: Bool) {
    for before in [0, 1, RetryPause.longest, 2 * RetryPause.longest] {
      let now = Int64.max - before
      var pause = RetryPause(isAnnounced: isAnnounced)
      for _ in 0..<20 {
        let end = pause.begin(at: now)
        #expect(end > now || end == .max)
      }
    }
    var driver = SendDriver()
    (driver.full, driver.now, driver.isAnnounced) = ([Self.a], .max, isAnnounced)
    _ = driver.queue.admit(.datagrams([Datagram([1], to: Self.a)]), 1)
    driver.run()
    #expect(driver.queue.lines.nextRetry == .max && driver.refusals == 1)
  }

  @Test func `An event makes the lines ready that wait for it`() {
    var driver = SendDriver()
    (driver.full, driver.isAnnounced) = ([Self.a], true)
    _ = driver.queue.admit(.datagrams([Datagram([1], to: Self.a)]), 1)
    driver.run()
    driver.full = []
    driver.queue.lines.roomMayBe()
    driver.run()
    #expect(driver.sent == [1])
  }

  @Test func `Many destinations without room are tried at few times`() {
    var driver = SendDriver()
    driver.full = Set<SocketAddress?>((1...500).map { Optional(Self.address($0)) })
    var times: Set<Int64> = []
    for port in 1...500 as ClosedRange<UInt16> {
      driver.now += 1_234_567
      _ = driver.queue.admit(.datagrams([Datagram([1], to: Self.address(port))]), Int(port))
      driver.run()
    }
    let start = driver.now + 10_000_000_000
    while driver.now < start + 1_000_000_000, let next = driver.queue.lines.nextRetry {
      driver.now = max(next, driver.now)
      driver.queue.lines.retry(at: driver.now)
      driver.run()
      if driver.now > start { times.insert(driver.now) }
    }
    #expect(times.count <= 21, "\(times.count)")
  }

  @Test func `A reply to a destination without room waits without its call, within a limit`() {
    var driver = SendDriver()
    driver.full = [Self.a, Self.b, Self.c]
    driver.queue.replyLimit = 4 * SubmissionLimit.leastCharge
    for (tag, address) in [Self.a, Self.a, Self.a, Self.b, Self.b, Self.c].enumerated() {
      _ = driver.queue.admit(.datagrams([Self.reply(UInt8(tag), to: address)]), tag)
    }
    let strict = driver.queue.admit(.datagrams([Datagram([9], to: Self.a)]), 9)
    let hurried = driver.queue.admit(.datagrams([Self.reply(10, to: Self.a)]), expiry: 0, 10)
    driver.run()
    // No call waits but that of a datagram that is no reply.
    #expect(
      driver.outcomes.count == 7 && driver.outcomes[9] == nil && driver.outcomes.values.allSatisfy { $0 == "sent" })
    #expect(driver.dropped == [2, 5, 10] && driver.queue.replies == 4 && driver.queue.count == 5)
    #expect(driver.queue.tag(of: strict) == 9 && driver.queue.tag(of: hurried) == nil)
    driver.full = []
    driver.queue.lines.retry(at: .max)
    driver.run()
    #expect(driver.sent == [0, 1, 9, 3, 4] && driver.queue.isEmpty && driver.queue.queuedBytes == 0)
  }

  @Test func `A change of the peer waits for earlier calls, and not for replies without a call`() {
    var driver = SendDriver()
    driver.full = [Self.a]
    _ = driver.queue.admit(.datagrams([Self.reply(1, to: Self.a)]), 1)
    let call = driver.queue.admit(.datagrams([Datagram([2], to: Self.a)]), 2)
    _ = driver.queue.admit(.peer([Self.b]), 3)
    _ = driver.queue.admit(.datagrams([Datagram([4], to: Self.b)]), 4)
    driver.run()
    #expect(driver.connects.isEmpty && driver.sent.isEmpty)
    _ = driver.queue.remove(call)
    driver.run()
    #expect(driver.connects == [[Self.b]] && driver.sent == [4])
  }

  @Test func `A reply that waits when the endpoint connects to its destination keeps its line`() {
    var driver = SendDriver()
    driver.full = [Self.a]
    _ = driver.queue.admit(.datagrams([Self.reply(1, to: Self.a)]), 1)
    _ = driver.queue.admit(.peer([Self.a]), 2)
    driver.run()
    #expect(driver.connects == [[Self.a]] && driver.refusals == 1)
    driver.queue.lines.retry(at: .max)
    driver.run()
    #expect(driver.refusals == 2 && driver.queue.replies == 1)
    // What goes to the peer has no address.
    #expect(!driver.queue.mayOvertake(to: nil) && !driver.queue.mayOvertake(to: Self.a))
    _ = driver.queue.admit(.datagrams(datagrams([3])), 3)
    driver.full = []
    driver.queue.lines.retry(at: .max)
    driver.run()
    #expect(driver.sent == [1, 3] && driver.queue.isEmpty && driver.queue.lines.isEmpty)
  }

  @Test func `Replies to the peer that the endpoint had hold up nothing to the next one`() {
    var driver = SendDriver()
    _ = driver.queue.admit(.peer([Self.a]), 0)
    driver.full = [Self.a]
    _ = driver.queue.admit(.datagrams([Self.reply(1, to: Self.a)]), 1)
    _ = driver.queue.admit(.peer([Self.b]), 2)
    driver.run()
    #expect(driver.queue.mayOvertake(to: nil) && driver.queue.mayOvertake(to: Self.b))
    _ = driver.queue.admit(.datagrams(datagrams([3])), 3)
    driver.run()
    #expect(driver.connects == [[Self.a], [Self.b]] && driver.sent == [3] && driver.refusals == 1)
  }

  /// Where the elements of an array are. The elements of a copy are elsewhere.
  private static func location<Element>(of array: [Element]) -> UInt {
    // SAFETY: the pointer is not used, only compared.
    unsafe array.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
  }

  /// What becomes of the datagrams of a batch: they fail, they wait, or they fail after they have waited.
  private enum Fate: CaseIterable { case fail, wait, failLater }

  @Test(arguments: Fate.allCases)
  private func `A datagram of a large batch that fails or has to wait copies nothing of those before it`(fate: Fate) {
    var queue = SendQueue<Int>()
    _ = queue.admit(
      .datagrams(Array(repeating: Datagram([1], to: Self.a), count: 2000)), isBatch: true, 0)
    if fate != .fail { queue.full(Self.a, at: 0, isAnnounced: false) }
    if fate == .failLater, case .park = queue.step() {
      _ = queue.park(atMost: 1000)
      queue.lines.retry(at: .max)
    }
    var (moves, before): (Int, UInt) = (0, 0)
    for _ in 0..<1000 {
      switch queue.step() {
      case .send: queue.failed(SendDriver.error)
      case .park: _ = queue.park(atMost: 1)
      default: Issue.record("there is nothing to do")
      }
      let now = queue.entries.first.map { Self.location(of: $0.failures) &+ Self.location(of: $0.parked) } ?? 0
      if now != before { moves += 1 }
      before = now
    }
    // An array moves when it grows, each time to twice its size.
    #expect(moves < 20, "\(moves) times")
  }

  private struct Model {
    var pending: [(tag: Int, byte: UInt8, destination: SocketAddress)] = []
    var blocked: Set<SocketAddress> = []
    var sent: [SocketAddress: [UInt8]] = [:]

    mutating func run(full: Set<SocketAddress?>) {
      pending.removeAll { datagram in
        if blocked.contains(datagram.destination) { return false }
        if full.contains(datagram.destination) {
          blocked.insert(datagram.destination)
          return false
        }
        sent[datagram.destination, default: []].append(datagram.byte)
        return true
      }
    }
  }

  @Test(arguments: 0..<300)
  func `Whatever destinations have no room, each gets its datagrams in order, and waits for no other one`(seed: UInt64)
  {
    var random = SeededRandom(seed: seed)
    var (driver, model) = (SendDriver(), Model())
    var (ids, byte): ([Int: UInt64], UInt8) = ([:], 0)
    let destinations = [Self.a, Self.b, Self.c]
    for tag in 0..<80 {
      let count = Int.random(in: 1...3, using: &random)
      let batch = (0..<count).map { _ in
        byte &+= 1
        return Datagram([byte], to: destinations[Int.random(in: 0..<3, using: &random)])
      }
      ids[tag] = driver.queue.admit(.datagrams(batch), isBatch: true, tag)
      for datagram in batch {
        if let address = datagram.remoteAddress { model.pending.append((tag, datagram.bytes[0], address)) }
      }
      switch Int.random(in: 0..<6, using: &random) {
      case 0:
        driver.full = Set<SocketAddress?>(destinations.filter { _ in Bool.random(using: &random) }.map { Optional($0) })
      case 1:
        driver.now += 1_000_000_000
        driver.queue.lines.retry(at: driver.now)
        model.blocked = []
      case 2:
        let other = Int.random(in: 0...tag, using: &random)
        if let id = ids[other], driver.queue.remove(id) != nil { model.pending.removeAll { $0.tag == other } }
      default: break
      }
      if Bool.random(using: &random) { continue }
      driver.run(batch: Int.random(in: 1...5, using: &random))
      model.run(full: driver.full)
      let sent = model.sent.values.reduce(0) { $0 + $1.count }
      #expect(driver.sent.count == sent && driver.queue.queuedBytes == model.pending.count)
      #expect(Set(driver.sent) == Set(model.sent.values.joined()))
    }
    driver.full = []
    driver.queue.lines.retry(at: .max)
    driver.run()
    model.blocked = []
    model.run(full: [])
    #expect(driver.queue.isEmpty && driver.queue.queuedBytes == 0 && driver.queue.lines.isEmpty)
    for bytes in model.sent.values { #expect(driver.sent.filter { bytes.contains($0) } == bytes) }
  }
}
