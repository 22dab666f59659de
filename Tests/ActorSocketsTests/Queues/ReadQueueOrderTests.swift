import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct ReadQueueOrderTests {
  @Test func `Reads finish in the order of their calls, each begun once and only when the stream is open`() {
    var driver = ReadDriver(isOpen: false)
    for tag in 1...3 { driver.admit(.exactly(1), tag) }
    driver.receive("abc")
    #expect(driver.begun == [] && driver.finished == [])
    driver.queue.open()
    driver.pump()
    #expect(driver.begun == [1, 2, 3])
    #expect(driver.finished == [.init(1, .text("a")), .init(2, .text("b")), .init(3, .text("c"))])
  }

  @Test(arguments: ReadKind.unmet)
  func `A read that is taken back leaves its bytes for the next one`(kind: ReadKind) {
    var driver = ReadDriver(kind, .exactly(3))
    driver.receive("ab")
    #expect(driver.remove(1) == true)
    #expect(driver.remove(1) == false)
    driver.receive("c")
    #expect(driver.finished == [.init(2, .text("abc"))])
  }

  @Test func `A delimiter whose beginning was searched by a read taken back is found by the next`() {
    var driver = ReadDriver(.until("\r\n\r\n", maximumLength: 100))
    driver.receive("a\nb\r\n\r")
    driver.admit(.until("\n", maximumLength: 100), 2)
    driver.remove(1)
    #expect(driver.results == [.text("a\n")])
    driver.admit(.until("\r\n\r\n", maximumLength: 100), 3)
    driver.receive("\n")
    #expect(driver.results == [.text("a\n"), .text("b\r\n\r\n")])
  }

  @Test func `A read that waits for a delimiter searches anew when the buffer was taken`() {
    for ending in [LineEnding.lf, .crlf, .any] {
      var driver = ReadDriver(.line(ending, maximumLength: 100))
      driver.receive("abcdef")
      #expect(driver.queue.takeBuffered() == Array("abcdef".utf8))
      driver.receive("x\r\n")
      #expect(driver.results == [.text("x")])
    }
  }

  static let failures: [(String, ReadKind, ReadResult)] = [
    ("limit", .until("x", maximumLength: 2), .failed(.limitExceeded)),
    ("length", .message(.uint8, maximumLength: 1), .failed(.limitExceeded)),
  ]

  @Test(arguments: failures)
  func `Enqueued reads behind one that failed fail too, consume nothing, and the others go on`(
    name: String, kind: ReadKind, result: ReadResult
  ) {
    var driver = ReadDriver(kind)
    driver.admit(.exactly(1), 2, isEnqueued: true)
    driver.admit(.exactly(2), 3)
    driver.admit(.any(upTo: 9), 4, isEnqueued: true)
    driver.admit(.any(upTo: 9), 5)
    driver.receive("abcd")
    let failedByPredecessor = ReadResult.failed(.precedingReadFailed)
    #expect(
      driver.finished == [
        .init(1, result), .init(2, failedByPredecessor), .init(4, failedByPredecessor), .init(3, .text("ab")),
        .init(5, .text("cd")),
      ])
    #expect(driver.begun == [1, 3, 5])
    driver.admit(.any(upTo: 9), 6, isEnqueued: true)
    driver.receive("e")
    #expect(driver.finished.last == .init(6, .text("e")))
  }

  @Test func `An end of stream in the middle dooms, a clean one does not`() {
    var driver = ReadDriver()
    driver.admit(.any(upTo: 9), 1, isEnqueued: true)
    driver.admit(.line(.lf, maximumLength: 9), 2, isEnqueued: true)
    driver.end()
    #expect(driver.results == [.end, .end])
    driver = ReadDriver()
    driver.receive("a")
    driver.admit(.exactly(2), 1, isEnqueued: true)
    driver.admit(.any(upTo: 9), 2, isEnqueued: true)
    driver.admit(.any(upTo: 9), 3)
    driver.end()
    #expect(driver.results == [.failed(.endOfStream), .failed(.precedingReadFailed), .text("a")])
  }

  @Test func `After a refusal every read fails with it, those to come too, and the bytes stay`() {
    for isOpen in [false, true] {
      var driver = ReadDriver(isOpen: isOpen, .exactly(9))
      driver.admit(.exactly(9), 2, isEnqueued: true)
      driver.receive("abc")
      driver.refuse(.closed)
      driver.refuse(.reactorShutDown)
      driver.admit(.any(upTo: 1), 3)
      driver.admit(.exactly(0), 4, isEnqueued: true)
      #expect(driver.finished == (1...4).map { .init($0, .failed(.closed)) })
      #expect(driver.queue.takeBuffered() == Array("abc".utf8))
    }
  }

  @Test func `A read that left and is admitted again is like a new one`() throws {
    var queue = ReadQueue<Int>()
    queue.open()
    let bytes: [UInt8] = Array("abcdef".utf8)
    let old = queue.admit(.until("x", maximumLength: 100), isEnqueued: true, 7)
    queue.received(bytes.span)
    while case .begin = queue.step() {}
    let removed = queue.remove(old)
    let entry = try #require(removed)
    queue.keep(entry)
    let spare = queue.admitSpare(.borrow(moreThan: 0))
    let again = try #require(spare).entry.id
    #expect(again > old)
    guard case .begin(again, 7) = queue.step() else { Issue.record("not begun again"); return }
    guard case .finish(_, .success(.borrow)) = queue.step() else { Issue.record("no turn"); return }
    #expect(queue.endBorrow(again, consumed: 0, waitingForMoreThan: nil) == 7)
    queue.keep(entry)
    let spareAgain = queue.admitSpare(.until("c", maximumLength: 100))
    let third = try #require(spareAgain).entry.id
    #expect(queue.remove(old) == nil && queue.remove(again) == nil)
    guard case .begin(third, _) = queue.step() else { Issue.record("not begun a third time"); return }
    guard case .finish(_, let result) = queue.step() else { Issue.record("not finished"); return }
    #expect(ReadResult(result) == .text("abc"))
  }

  /// The reason why a read that is admitted again does not wait for the first byte.
  enum Obstacle: CaseIterable {
    case none, isNotOpen, bytes, end, refusal, kind, readBefore, doomedRead, lineFeed
  }

  @Test(arguments: Obstacle.allCases)
  func `A read that can only wait has begun at its admission, and no other`(obstacle: Obstacle) throws {
    var queue = ReadQueue<Int>()
    let first = queue.admit(.any(upTo: 5), isEnqueued: false, 1)
    let removed = queue.remove(first)
    let entry = try #require(removed)
    if obstacle != .isNotOpen { queue.open() }
    let byte: [UInt8] = [13]
    switch obstacle {
    case .none, .isNotOpen, .kind: break
    case .bytes: queue.received(byte.span)
    case .end: queue.end(.endOfStream)
    case .refusal: queue.refuse(SocketError(.closed, operation: "read"))
    case .readBefore: _ = queue.admit(.exactly(1), isEnqueued: false, 2)
    case .doomedRead:
      let failing = queue.admit(.exactly(1), isEnqueued: false, 2)
      _ = queue.admit(.exactly(1), isEnqueued: true, 3)
      _ = queue.remove(failing)
    case .lineFeed:
      _ = queue.admit(.line(.any, maximumLength: 5), isEnqueued: false, 2)
      queue.received(byte.span)
      while case .begin = queue.step() {}
    }
    queue.keep(entry)
    let spare = queue.admitSpare(obstacle == .kind ? .exactly(2) : .any(upTo: 5))
    let (admitted, waits) = try #require(spare)
    let id = admitted.id
    #expect(waits == (obstacle == .none))
    #expect((queue.firstRead == .waiting) == waits)
    if waits {
      guard case .receiveAny(id) = queue.step() else { Issue.record("it did not wait"); return }
      #expect(queue.finishAny(6) == nil, "more than it may have")
      #expect(queue.finishAny(5) === entry)
      #expect(queue.count == 0)
    }
  }

  // MARK: Much of it

  @Test func `A megabyte that comes byte by byte is searched once`() {
    // Searched from its beginning at every byte, it would be 500 GB to look through.
    var driver = ReadDriver(.until("\r\n.\r\n", maximumLength: 1 << 21))
    let byte: [UInt8] = [13]
    for _ in 0..<(1 << 20) {
      driver.queue.received(byte.span)
      guard case .receive = driver.queue.step() else { Issue.record("found early"); return }
    }
    driver.receive("\n.\r\n")
    #expect(driver.queue.buffer.isEmpty)
    guard case .bytes(let bytes)? = driver.results.first else { Issue.record("not found"); return }
    #expect(bytes.count == 1 << 20 | 4)
  }

  @Test(
    arguments: [
      .line(.any, maximumLength: .max), .line(.lf, maximumLength: .max), .line(.crlf, maximumLength: .max),
      .exactly(.max), .until("\0", maximumLength: .max), .message(.uint64(.big), maximumLength: 1 << 40),
      .borrow(moreThan: .max),
    ] as [ReadKind])
  func `No kind of read looks again at what it has seen`(kind: ReadKind) {
    var driver = ReadDriver()
    driver.receive([0, 0, 0, 1, 0, 0, 0].map { $0 | (kind.isMessage ? 0 : 1) })
    driver.admit(kind, 1)
    driver.receive(Array(repeating: 1, count: 1 << 24))
    // At every step from the beginning, it would be 1.7 TB.
    let byte: [UInt8] = [1]
    for _ in 0..<100_000 {
      driver.queue.received(byte.span)
      guard case .receive = driver.queue.step() else { Issue.record("finished"); return }
    }
  }

  @Test func `A hundred thousand enqueued reads are failedByPredecessor in a moment`() {
    // Moved at each one that leaves, it would be 5 billion moves of an entry.
    var driver = ReadDriver()
    driver.admit(.exactly(1), 0)
    for tag in 1...100_000 { driver.ids[tag] = driver.queue.admit(.exactly(1), isEnqueued: true, tag) }
    driver.remove(1)
    let areDoomed = driver.finished == (2...100_000).map { .init($0, .failed(.precedingReadFailed)) }
    #expect(areDoomed)
    driver.receive("a")
    #expect(driver.finished.last == .init(0, .text("a")))
  }

  @Test func `Many small reads of one large receive`() {
    var driver = ReadDriver()
    driver.receive(Array(repeating: [97, 10], count: 1 << 16).joined())
    for tag in 0..<(1 << 16) { driver.admit(.line(.lf, maximumLength: 10), tag) }
    #expect(driver.finished.count == 1 << 16)
    #expect(driver.finished.allSatisfy { $0.result == .text("a") })
    #expect(driver.buffered == [])
  }

  @Test(arguments: RemovalOrder.allCases, [false, true])
  func `A hundred thousand calls are taken back one after the other in a moment`(
    order: RemovalOrder, isBehindEnqueued: Bool
  ) {
    // Looked through at each that leaves, it would be 5 billion looks at an entry.
    var driver = ReadDriver()
    _ = driver.queue.admit(.exactly(1), isEnqueued: isBehindEnqueued, -1)
    let ids = (0..<100_000).map { driver.queue.admit(.exactly(1), isEnqueued: false, $0) }
    for number in order.ids {
      let id = ids[Int(number)]
      if driver.queue.remove(id)?.id != id { Issue.record("\(id) is not there"); return }
    }
    #expect(driver.queue.count == 1)
  }
}

extension ReadKind {
  fileprivate var isMessage: Bool { if case .message = self { true } else { false } }
}
