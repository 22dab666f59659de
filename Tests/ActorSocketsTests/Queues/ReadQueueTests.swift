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
    ] as [(ReadKind, String, String, ReadResult)])
  func `The maximum is strict, and what is too long stays`(
    kind: ReadKind, fitting: String, tooLong: String, result: ReadResult
  ) {
    for isCut in [false, true] {
      var driver = ReadDriver()
      driver.admit(kind, 1)
      driver.admit(kind, 2)
      for text in [fitting, tooLong] {
        if isCut { for byte in text.utf8 { driver.receive([byte]) } } else { driver.receive(text) }
      }
      #expect(driver.results == [result, .failed(.limitExceeded)])
      driver.admit(.exactly(tooLong.utf8.count), 3)
      #expect(driver.results.last == .text(tooLong))
    }
  }

  @Test func `A read that is too long fails as soon as its maximum has arrived`() {
    var driver = ReadDriver()
    driver.admit(.until("\r\n", maximumLength: 4), 1)
    driver.receive("abc")
    #expect(driver.results == [])
    driver.receive("\r")
    #expect(driver.results == [.failed(.limitExceeded)])
    #expect(driver.buffered == Array("abc\r".utf8))
  }

  @Test(arguments: [UInt64(Int32.max) + 1, UInt64(UInt32.max) + 1, UInt64(Int64.max), UInt64(Int64.max) + 1, .max])
  func `A length beyond all reason fails before anything is waited for`(length: UInt64) {
    for countsItself in [false, true] {
      var driver = ReadDriver()
      driver.admit(.message(.uint64(.big, countsItself: countsItself), maximumLength: 1 << 20), 1)
      driver.receive((0..<8).map { UInt8(truncatingIfNeeded: length >> (56 - 8 * UInt64($0))) })
      #expect(driver.results == [.failed(.limitExceeded)])
      #expect(driver.buffered.count == 8)
    }
  }

  @Test func `A length of four gigabytes does not pass for a small one`() {
    for length in [UInt32(Int32.max), UInt32(Int32.max) + 1, .max] {
      var driver = ReadDriver()
      driver.admit(.message(.uint32(.little), maximumLength: 1 << 20), 1)
      driver.receive((0..<4).map { UInt8(truncatingIfNeeded: length >> (8 * UInt32($0))) })
      #expect(driver.results == [.failed(.limitExceeded)])
    }
  }

  @Test(arguments: [LengthPrefix.uint16(.big, countsItself: true), .uint32(.little, countsItself: true)])
  func `A length that counts itself and is smaller than itself fails`(prefix: LengthPrefix) {
    for length in 0..<UInt8(prefix.width) {
      var driver = ReadDriver()
      driver.admit(.message(prefix, maximumLength: 100), 1)
      let zeros = Array(repeating: UInt8(0), count: prefix.width - 1)
      driver.receive(prefix.endianness == .big ? zeros + [length] : [length] + zeros)
      #expect(driver.results == [.failed(.limitExceeded)])
    }
  }

  @Test func `A message of the largest maximum waits for its bytes and does not overflow`() {
    var driver = ReadDriver()
    driver.admit(.message(.uint64(.big), maximumLength: .max - 8), 1)
    driver.receive([0x7f] + Array(repeating: 0xff, count: 6) + [0xf7])
    #expect(driver.wanted == .max - 8)
    #expect(driver.results == [])
  }

  @Test(arguments: [LengthPrefix.uint8, .uint16(.little), .uint32(.big), .uint64(.big)])
  func `The largest possible maximum works for length prefixes`(prefix: LengthPrefix) throws {
    var driver = ReadDriver()
    driver.admit(.message(prefix, maximumLength: .max), 1)
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
      var driver = ReadDriver()
      driver.admit(kind, 1)
      driver.admit(kind, 2)
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

  @Test func `A connection that breaks still gives what came before`() {
    var driver = ReadDriver()
    driver.receive("one\ntwo\nrest")
    driver.end(.failed(SocketError(.connectionReset, operation: "connection")))
    for tag in 1...3 { driver.admit(.line(.lf, maximumLength: 100), tag) }
    driver.admit(.exactly(0), 4)
    driver.admit(.any(upTo: 100), 5)
    driver.admit(.any(upTo: 100), 6)
    let broken = ReadResult.failed(.connectionReset)
    #expect(driver.results == [.text("one"), .text("two"), broken, .text(""), .text("rest"), broken])
  }

  @Test func `The first ending stays`() {
    var driver = ReadDriver()
    driver.end()
    driver.end(.failed(SocketError(.connectionReset, operation: "connection")))
    driver.admit(.any(upTo: 1), 1)
    #expect(driver.results == [.end])
  }

  // MARK: Lines that end as they like

  @Test func `A line feed behind a carriage return is dropped once, whatever reads next`() {
    let nextReads: [(ReadKind, ReadResult)] = [
      (.any(upTo: 9), .text("\nb")), (.peek(upTo: 9), .text("\nb")), (.exactly(2), .text("\nb")),
      (.until("b", maximumLength: 9), .text("\nb")), (.line(.any, maximumLength: 9), .text("")),
      (.line(.lf, maximumLength: 9), .text("")), (.borrow(moreThan: 0), .borrow),
    ]
    for (kind, result) in nextReads {
      var driver = ReadDriver()
      driver.admit(.line(.any, maximumLength: 9), 1)
      driver.admit(kind, 2)
      driver.receive("a\r")
      #expect(driver.results == [.text("a")])
      driver.receive("\n")
      #expect(driver.results == [.text("a")])
      #expect(driver.buffered == [])
      driver.receive("\nb")
      #expect(driver.results == [.text("a"), result], "\(kind)")
    }
  }

  @Test func `Another byte behind a carriage return stays, and so does a line feed behind it`() {
    var driver = ReadDriver()
    driver.admit(.line(.any, maximumLength: 9), 1)
    driver.receive("a\r")
    driver.receive("b")
    driver.receive("\n")
    driver.admit(.exactly(2), 2)
    #expect(driver.results == [.text("a"), .text("b\n")])
  }

  @Test func `The line feed is dropped from what is taken out of the buffer too`() {
    var driver = ReadDriver()
    driver.admit(.line(.any, maximumLength: 9), 1)
    driver.receive("a\r")
    driver.receive("\nb")
    #expect(driver.queue.takeBuffered() == [98])
  }

  // MARK: Bytes asked for

  @Test func `Bytes are asked for only while a read wants some, and no more than it lacks`() {
    var driver = ReadDriver(isOpen: false)
    driver.admit(.exactly(10), 1)
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
    .line(.crlf, maximumLength: 1), .message(.uint8, maximumLength: -1),
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
    .message(.uint8, maximumLength: 0),
    .borrow(moreThan: 0),
  ]

  @Test(arguments: valid)
  func `The limits of what is allowed are allowed, and wait without a trap`(kind: ReadKind) throws {
    try kind.validate()
    var driver = ReadDriver()
    driver.admit(kind, 1)
    driver.receive([0])
    driver.receive([0])
    driver.end()
    #expect(!driver.neverRests)
  }
}

extension ReadKind {
  /// Whether the read may find the end of the stream in place of its first byte.
  fileprivate var endIsNoError: Bool {
    switch self {
    case .exactly(_, let orEnd), .until(_, _, let orEnd): orEnd
    default: true
    }
  }
}
