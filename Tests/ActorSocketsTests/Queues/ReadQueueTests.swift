import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct ReadQueueTests {
  // MARK: Limits

  @Test(
    arguments: [
      (.until("\r\n", maximumLength: 6), "abcd\r\n", "abcde\r\n", .text("abcd\r\n")),
      (.until("x", maximumLength: 1), "x", "ax", .text("x")),
      (.line(.lf, maximumLength: 6), "abcd\r\n", "abcde\r\n", .text("abcd")),
      (.line(.crlf, maximumLength: 6), "abcd\r\n", "abcde\r\n", .text("abcd")),
      (.line(.any, maximumLength: 5), "abcd\r", "abcde\r", .text("abcd")),
      (.line(.any, maximumLength: 5), "abcd\n", "abcde\n", .text("abcd")),
      (.line(.any, maximumLength: 5), "abcd\r\n", "abcde\r\n", .text("abcd")),
      (.message(.uint8, maximumLength: 3), "\u{3}abc", "\u{4}abcd", .text("abc")),
      (.message(.uint8, maximumLength: 0), "\u{0}", "\u{1}a", .text("")),
      (.parsing(LineParser(), 4), "abc\n", "abcd\n", .text("abc")),
      (.parsing(ConsumingLineParser(), 4), "abc\n", "abcd\n", .text("abc")),
      (
        .parsing(4) { bytes in
          var parser = LineParser()
          return parser.parse(bytes)
        }, "abc\n", "abcd\n", .text("abc")
      ),
    ] as [(ReadKind, String, String, ReadResult)])
  func `The maximum is strict, and what is too long stays`(
    kind: ReadKind, fitting: String, tooLong: String, result: ReadResult
  ) {
    for isCut in [false, true] {
      var driver = ReadDriver(kind, kind)
      for text in [fitting, tooLong] {
        if isCut { for byte in text.utf8 { driver.receive([byte]) } } else { driver.receive(text) }
      }
      #expect(driver.results == [result, .failed(.limitExceeded)])
      driver.admit(.exactly(tooLong.utf8.count), 3)
      #expect(driver.results.last == .text(tooLong))
    }
  }

  @Test func `A read that is too long fails as soon as its maximum has arrived`() {
    var driver = ReadDriver(.until("\r\n", maximumLength: 4))
    driver.receive("abc")
    #expect(driver.results == [])
    driver.receive("\r")
    #expect(driver.results == [.failed(.limitExceeded)])
    #expect(driver.buffered == Array("abc\r".utf8))
  }

  @Test(arguments: [UInt64(Int32.max) + 1, UInt64(UInt32.max) + 1, UInt64(Int64.max), UInt64(Int64.max) + 1, .max])
  func `A length beyond all reason fails before anything is waited for`(length: UInt64) {
    for countsItself in [false, true] {
      var driver = ReadDriver(.message(.uint64(.big, countsItself: countsItself), maximumLength: 1 << 20))
      driver.receive((0..<8).map { UInt8(truncatingIfNeeded: length >> (56 - 8 * UInt64($0))) })
      #expect(driver.results == [.failed(.limitExceeded)])
      #expect(driver.buffered.count == 8)
    }
  }

  @Test func `A length of four gigabytes does not pass for a small one`() {
    for length in [UInt32(Int32.max), UInt32(Int32.max) + 1, .max] {
      var driver = ReadDriver(.message(.uint32(.little), maximumLength: 1 << 20))
      driver.receive((0..<4).map { UInt8(truncatingIfNeeded: length >> (8 * UInt32($0))) })
      #expect(driver.results == [.failed(.limitExceeded)])
    }
  }

  @Test(arguments: [LengthPrefix.uint16(.big, countsItself: true), .uint32(.little, countsItself: true)])
  func `A length that counts itself and is smaller than itself fails`(prefix: LengthPrefix) {
    for length in 0..<UInt8(prefix.width) {
      var driver = ReadDriver(.message(prefix, maximumLength: 100))
      let zeros = Array(repeating: UInt8(0), count: prefix.width - 1)
      driver.receive(prefix.endianness == .big ? zeros + [length] : [length] + zeros)
      #expect(driver.results == [.failed(.limitExceeded)])
    }
  }

  @Test func `A message of the largest maximum waits for its bytes and does not overflow`() {
    var driver = ReadDriver(.message(.uint64(.big), maximumLength: .max - 8))
    driver.receive([0x7f] + Array(repeating: 0xff, count: 6) + [0xf7])
    #expect(driver.wanted == .max - 8)
    #expect(driver.results == [])
  }

  @Test(arguments: [LengthPrefix.uint8, .uint16(.little), .uint32(.big), .uint64(.big)])
  func `The largest possible maximum works for length prefixes`(prefix: LengthPrefix) throws {
    var driver = ReadDriver(.message(prefix, maximumLength: .max))
    driver.receive(try #require(prefix.encode(3)) + [7, 8, 9])
    #expect(driver.results == [.bytes([7, 8, 9])])
    // With its prefix, such a message is longer than `Int.max`.
    driver.admit(.message(.uint64(.big), maximumLength: .max), 2)
    driver.receive([0x7f] + Array(repeating: 0xff, count: 7))
    #expect(driver.results.last == .failed(.limitExceeded))
  }

  // MARK: The end

  @Test(arguments: ReadKind.unmet)
  func `At an end in the middle the bytes stay and can be read`(kind: ReadKind) {
    for ending in [StreamEnding.endOfStream, .failed(SocketError(.connectionReset, operation: "connection"))] {
      var driver = ReadDriver(kind, kind)
      driver.receive("abc")
      driver.end(ending)
      driver.admit(.any(upTo: 2), 3)
      driver.admit(.any(upTo: 2), 4)
      driver.admit(.any(upTo: 2), 5)
      driver.admit(kind, 6)
      let isClean = if case .endOfStream = ending { true } else { false }
      let error = ReadResult.failed(isClean ? .endOfStream : .connectionReset)
      let atEnd = driver.results.last
      #expect(
        driver.results.dropLast() == [
          error, error, .text("ab"), .text("c"), isClean ? .end : .failed(.connectionReset),
        ])
      if isClean {
        #expect(driver.errors[1]?.bytesTransferred == 3)
        #expect(atEnd == (kind.endIsNoError ? .end : error))
      } else {
        #expect(atEnd == error)
        #expect(driver.errors[1]?.operation == "read")
      }
    }
  }

  @Test func `The ending that comes first stays, also behind a carriage return whose line feed may follow`() {
    for isLine in [false, true] {
      var driver = ReadDriver()
      if isLine {
        driver.receive("a\r")
        driver.admit(.line(.any, maximumLength: 9), 0)
        #expect(!driver.queue.isFree)
      }
      driver.end()
      driver.end(.failed(SocketError(.connectionReset, operation: "connection")))
      driver.admit(.any(upTo: 9), 1)
      #expect(driver.results.last == .end)
      #expect(driver.queue.isFree)
    }
  }

  @Test func `A refusal outlives the opening of the stream`() {
    var queue = ReadQueue<Int>()
    queue.refuse(SocketError(.closed, operation: "read"))
    queue.open()
    #expect(queue.isRefusing && !queue.isFree)
    _ = queue.admit(.any(upTo: 1), isEnqueued: false, 1)
    guard case .finish(_, .failure(let error)) = queue.step() else { Issue.record("it was not refused"); return }
    #expect(error.code == .closed)
  }

  // MARK: Drains

  /// Kinds of reads, each with what ends it while the stream drains: nothing, `.endAll` only, or both.
  private static let drained: [(kind: ReadKind, endsFramed: Bool, endsAll: Bool)] = [
    (.any(upTo: 10), false, true),
    (.peek(upTo: 10), false, true),
    (.borrow(moreThan: 0), false, true),
    // The borrow that is the place of an upgrade.
    (.borrow(moreThan: -1), false, false),
    (.exactly(4), false, false),
    (.exactly(4, orEnd: true), true, true),
    (.until(.crlf, maximumLength: 10), false, false),
    (.toEnd(maximumLength: 10), false, false),
    (.until(.crlf, maximumLength: 10, orEnd: true), true, true),
    (.line(.any, maximumLength: 10), true, true),
    (.line(.lf, maximumLength: 10), true, true),
    (.message(.uint16(.big), maximumLength: 10), true, true),
    (.batch(of: .line(.lf, maximumLength: 10)), true, true),
    (.batch(of: .exactly(4, orEnd: true)), true, true),
    (.parsing(LineParser(), 10), true, true),
    (.batch(of: .parsing(LineParser(), 10)), true, true),
  ]

  @Test func `A read that may find the end of the stream ends between two messages`() {
    for (kind, endsFramed, endsAll) in Self.drained {
      for (all, ends) in [(false, endsFramed), (true, endsAll)] {
        var driver = ReadDriver(kind)
        let before = driver.endIfIdle()
        #expect(!before, "\(kind) has ended before the drain")
        driver.queue.drain(all: all)
        driver.pump()
        let after = driver.endIfIdle()
        #expect(after == ends, "\(kind), all: \(all)")
        if case .borrow = kind { continue }
        #expect(driver.results == (ends ? [.end] : []))
      }
    }
  }

  @Test func `A read in the middle of a message goes on`() {
    for (kind, first, rest) in [
      (ReadKind.line(.lf, maximumLength: 10), "a", "b\n"), (.exactly(3, orEnd: true), "a", "bc"),
      (.message(.uint8, maximumLength: 10), "\u{2}", "ab"), (.parsing(LineParser(), 10), "a", "b\n"),
      (.parsing(ConsumingLineParser(), 10), "a", "b\n"), (.batch(of: .line(.lf, maximumLength: 10)), "a", "b\n"),
    ] {
      var driver = ReadDriver(kind)
      driver.queue.drain(all: true)
      driver.receive(first)
      #expect(driver.endIfIdle() == false)
      driver.receive(rest)
      #expect(driver.finished.count == 1 && driver.finished.first?.result != .end)
      driver.admit(kind, 2)
      let isIdleBehind = driver.endIfIdle()
      #expect(isIdleBehind && driver.finished.last == .init(2, .end))
    }
  }

  @Test func `The line feed that belongs to the last line is no message`() {
    var driver = ReadDriver(.line(.any, maximumLength: 10))
    driver.receive("a\r")
    driver.admit(.line(.any, maximumLength: 10), 2)
    driver.queue.drain(all: false)
    driver.receive("\n")
    let isIdle = driver.endIfIdle()
    #expect(isIdle && driver.results == [.text("a"), .end])
  }

  @Test func `Behind an idle read the stream has ended, so no read gets the bytes of another one`() {
    var driver = ReadDriver()
    driver.admit(.line(.lf, maximumLength: 10), 1, isEnqueued: true)
    driver.admit(.line(.lf, maximumLength: 10), 2, isEnqueued: true)
    driver.admit(.exactly(2), 3, isEnqueued: true)
    driver.queue.drain(all: false)
    driver.pump()
    let isIdle = driver.endIfIdle()
    #expect(isIdle && driver.results == [.end, .end, .failed(.endOfStream)])
    driver.admit(.any(upTo: 10), 4)
    driver.admit(.line(.lf, maximumLength: 10), 5)
    #expect(driver.results.suffix(2) == [.end, .end] && driver.wanted == nil)
  }

  @Test func `Nothing is idle before the stream is up, after its end, and while it is lent`() {
    var opening = ReadDriver(isOpen: false)
    opening.admit(.line(.lf, maximumLength: 10), 1)
    opening.queue.drain(all: true)
    let openingIsIdle = opening.endIfIdle()
    #expect(!openingIsIdle && !opening.queue.isDraining)

    var ended = ReadDriver()
    ended.queue.drain(all: true)
    ended.end(.failed(SocketError(.connectionReset, operation: "read")))
    ended.admit(.line(.lf, maximumLength: 10), 1)
    let endedIsIdle = ended.endIfIdle()
    #expect(!endedIsIdle && ended.results == [.failed(.connectionReset)])

    var refused = ReadDriver()
    refused.refuse(.closed)
    refused.queue.drain(all: true)
    refused.admit(.line(.lf, maximumLength: 10), 1)
    let refusedIsIdle = refused.endIfIdle()
    #expect(!refusedIsIdle && refused.results == [.failed(.closed)])

    var lent = ReadDriver()
    lent.admit(.borrow(moreThan: 0), 1)
    lent.receive("a")
    lent.queue.drain(all: true)
    #expect(lent.results == [.borrow])
    #expect(lent.endIfIdle() == false)
    lent.endBorrow(1, consumed: 1, waitingForMoreThan: 0)
    let returnedIsIdle = lent.endIfIdle()
    #expect(returnedIsIdle && lent.results == [.borrow, .borrow])
  }

  @Test func `While the stream drains, no read takes a short way past its end`() {
    var driver = ReadDriver(.any(upTo: 10))
    guard let entry = driver.queue.first else { return }
    _ = driver.remove(1)
    driver.queue.keep(entry)
    #expect(driver.queue.isFree)
    driver.queue.drain(all: false)
    #expect(!driver.queue.isFree)
    #expect(driver.queue.admitSpare(.any(upTo: 10))?.waits == false)
  }

  @Test func `Of two drains the one that ends more counts`() {
    for order in [[true, false], [false, true]] {
      var driver = ReadDriver(.any(upTo: 10))
      for all in order { driver.queue.drain(all: all) }
      #expect(driver.endIfIdle() == true)
    }
  }

  // MARK: Lines that end as they like

  @Test func `A line feed behind a carriage return is dropped once, whatever reads next`() {
    let nextReads: [(ReadKind, ReadResult)] = [
      (.any(upTo: 9), .text("\nb")), (.peek(upTo: 9), .text("\nb")), (.exactly(2), .text("\nb")),
      (.until("b", maximumLength: 9), .text("\nb")), (.line(.any, maximumLength: 9), .text("")),
      (.line(.lf, maximumLength: 9), .text("")), (.borrow(moreThan: 0), .borrow),
    ]
    for (kind, result) in nextReads {
      var driver = ReadDriver(.line(.any, maximumLength: 9), kind)
      driver.receive("a\r")
      #expect(driver.results == [.text("a")])
      driver.receive("\n")
      #expect(driver.results == [.text("a")])
      #expect(driver.buffered == [])
      driver.receive("\nb")
      #expect(driver.results == [.text("a"), result], "\(kind)")
    }
  }

  // MARK: Bytes asked for

  @Test func `Bytes are asked for only while a read wants some, and no more than it lacks`() {
    var driver = ReadDriver(isOpen: false, .exactly(10))
    #expect(driver.wanted == nil)
    driver.queue.open()
    driver.pump()
    #expect(driver.wanted == 10)
    driver.receive("abc")
    #expect(driver.wanted == 7 && driver.have == 3)
    driver.receive("defghijK")
    #expect(driver.wanted == nil)
    driver.admit(.message(.uint32(.big), maximumLength: 1000), 2)
    #expect(driver.wanted == 3)
    driver.receive([0, 0])
    #expect(driver.wanted == 1)
  }

  static let invalid: [ReadKind] = [
    .any(upTo: 0), .any(upTo: -1), .peek(upTo: 0), .peek(upTo: .min), .exactly(-1), .exactly(.min, orEnd: true),
    .exactly(0, orEnd: true),
    .until(Delimiter([]), maximumLength: 10), .until("ab", maximumLength: 1), .until("a", maximumLength: 0),
    .until("a", maximumLength: -1), .line(.lf, maximumLength: 0), .line(.any, maximumLength: -5),
    .line(.crlf, maximumLength: 1), .message(.uint8, maximumLength: -1), .toEnd(maximumLength: -1),
    .batch(of: .toEnd(maximumLength: 10)),
  ]

  @Test(arguments: invalid)
  func `A read that can never succeed is refused`(kind: ReadKind) {
    let error = #expect(throws: SocketError.self) { try kind.validate() }
    #expect(error?.code == .invalidArgument)
    #expect(error?.description.hasPrefix("read: ") == true)
  }

  static let valid: [ReadKind] = [
    .any(upTo: 1), .any(upTo: .max), .peek(upTo: 1), .exactly(0), .exactly(.max), .until("ab", maximumLength: 2),
    .until("ab", maximumLength: .max), .line(.lf, maximumLength: 1), .line(.any, maximumLength: 1),
    .line(.crlf, maximumLength: 2), .message(.uint64(.big), maximumLength: .max),
    .message(.uint8, maximumLength: 0), .toEnd(maximumLength: 0), .toEnd(maximumLength: .max),
    .borrow(moreThan: 0),
  ]

  @Test(arguments: valid)
  func `The limits of what is allowed are allowed, and wait without a trap`(kind: ReadKind) throws {
    try kind.validate()
    var driver = ReadDriver(kind)
    driver.receive([0])
    driver.receive([0])
    driver.end()
    #expect(!driver.neverRests)
  }
}

extension ReadKind {
  fileprivate var endIsNoError: Bool {
    switch self {
    case .exactly(_, let orEnd), .until(_, _, let orEnd): orEnd
    default: true
    }
  }
}

extension ReadDriver {
  fileprivate mutating func endIfIdle() -> Bool {
    defer { pump() }
    return queue.endIfIdle()
  }
}
