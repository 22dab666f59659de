import TestSupport
import Testing

@testable import ActorSockets

@Suite struct ReadQueueParseTests {
  // MARK: Messages

  @Test func `A parser is called when as many bytes have arrived as it asked for`() {
    let parser = ScriptedParser(.incomplete(missing: 3), .incomplete(), .message([1], length: 6))
    var driver = ReadDriver(.parsing(parser, 10))
    driver.receive("ab")
    #expect(driver.wanted == 3)
    driver.receive("c")
    #expect(driver.wanted == 2)
    driver.receive("de")
    driver.receive("f")
    #expect(parser.shown.texts == ["ab", "abcde", "abcdef"])
    #expect(driver.results == [.bytes([1])] && driver.buffered == [])
  }

  @Test func `Consumed bytes are not shown again`() {
    let parser = ScriptedParser(
      .incomplete(consumed: 2), .incomplete(missing: 2, consumed: 1), .message([1], length: 3))
    var driver = ReadDriver(.parsing(parser, 10))
    for text in ["ab", "cd", "e", "fg"] { driver.receive(text) }
    #expect(parser.shown.texts == ["ab", "cd", "defg"])
    #expect(driver.results == [.bytes([1])] && driver.buffered == Array("g".utf8))
  }

  @Test func `A message may consist only of bytes that were consumed before`() {
    let parser = ScriptedParser(.incomplete(consumed: 1), .message([1], length: 0))
    var driver = ReadDriver(.parsing(parser, 10))
    driver.receive("a")
    driver.receive("b")
    #expect(driver.results == [.bytes([1])] && driver.buffered == Array("b".utf8))
  }

  // MARK: Limits

  @Test func `A parser sees no more than the maximum`() {
    let parser = ScriptedParser(.incomplete(consumed: 2), .incomplete())
    var driver = ReadDriver(.parsing(parser, 4))
    driver.receive("ab")
    driver.receive("cdefgh")
    #expect(parser.shown.texts == ["ab", "cd"])
    #expect(driver.results == [.failed(.limitExceeded)] && driver.buffered == Array("abcdefgh".utf8))
  }

  @Test(arguments: [5, 100, .max])
  func `Asking for more than the maximum fails before anything is waited for`(missing: Int) {
    var driver = ReadDriver(.parsing(6) { _ in .incomplete(missing: missing) })
    driver.receive("ab")
    #expect(driver.results == [.failed(.limitExceeded)] && driver.buffered == Array("ab".utf8))
  }

  @Test(arguments: [0, -1, .min])
  func `A maximum without room for a byte is not valid`(maximum: Int) {
    for kind in [ReadKind.parsing(LineParser(), maximum), .batch(of: .parsing(LineParser(), maximum))] {
      #expect { try kind.validate() } throws: { ($0 as? SocketError)?.code == .invalidArgument }
    }
  }

  // MARK: Errors

  @Test func `The error of a parser is in the read's, and the bytes stay`() {
    var driver = ReadDriver(.parsing(ScriptedParser(nil), 10))
    driver.admit(.exactly(1), 2, isEnqueued: true)
    driver.admit(.exactly(3), 3)
    driver.receive("abc")
    #expect(
      driver.finished == [
        .init(1, .failed(.invalidMessage)), .init(2, .failed(.precedingReadFailed)), .init(3, .text("abc")),
      ])
    #expect(driver.errors[1]?.underlyingError is ScriptedParser.Refusal)
    #expect(driver.errors[1]?.isCausedByPeer == true)
  }

  @Test func `A parser may throw a SocketError of its own`() {
    var driver = ReadDriver(.parsing(10) { _ in throw SocketError(.invalidUTF8, operation: "parse", bytes: [1]) })
    driver.receive("abc")
    #expect(driver.errors[1]?.code == .invalidUTF8 && driver.errors[1]?.bytes == [1])
  }

  @Test(
    arguments: [
      .message([], length: 0), .message([], length: -1), .message([], length: 3), .message([], length: .max),
      .incomplete(missing: 0), .incomplete(missing: -1), .incomplete(missing: .min), .incomplete(consumed: 3),
      .incomplete(consumed: -1), .incomplete(consumed: .max),
    ] as [ParseResult<[UInt8]>])
  func `A result that contradicts the bytes is an error of the program`(result: ParseResult<[UInt8]>) {
    for isBatch in [false, true] {
      let kind = ReadKind.parsing(ScriptedParser(result), 10)
      var driver = ReadDriver(isBatch ? .batch(of: kind) : kind)
      driver.receive("ab")
      #expect(driver.results == [.failed(.invalidArgument)] && driver.buffered == Array("ab".utf8))
    }
  }

  @Test func `A closure has no state, so it cannot consume bytes`() {
    var driver = ReadDriver(.parsing(10) { _ in .incomplete(consumed: 1) })
    driver.receive("ab")
    #expect(driver.results == [.failed(.invalidArgument)])
  }

  @Test func `The end of the stream is no error between two messages, and one within a message`() {
    for kind in [ReadKind.parsing(LineParser(), 10), .batch(of: .parsing(ConsumingLineParser(), 10))] {
      for (text, result) in [("", ReadResult.end), ("ab", .failed(.endOfStream))] {
        var driver = ReadDriver(kind)
        driver.receive(text)
        driver.end()
        #expect(driver.results == [result] && driver.buffered == Array(text.utf8))
      }
    }
  }

  @Test func `Messages that have arrived are found behind the end, and before an error`() {
    for ending in [StreamEnding.endOfStream, .failed(SocketError(.connectionReset, operation: "connection"))] {
      var driver = ReadDriver()
      driver.receive("a\nb\n")
      driver.end(ending)
      for tag in 1...3 { driver.admit(.parsing(LineParser(), 10), tag) }
      #expect(driver.results.prefix(2) == [.text("a"), .text("b")])
      #expect(driver.results.count == 3)
    }
  }

  // MARK: Reads that leave

  @Test func `If the bytes of a message are taken out of the stream, it begins with the next byte`() {
    var driver = ReadDriver(.parsing(ConsumingLineParser(), 10))
    driver.receive("ab")
    #expect(driver.queue.takeBuffered() == Array("ab".utf8))
    driver.receive("c\n")
    #expect(driver.results == [.text("c")])
  }

  @Test func `A parser's code cannot take the bytes out of the stream`() {
    for text in ["ab", "ab\n"] {
      var driver = ReadDriver()
      driver.duringParse = { queue in
        let taken = queue.takeBuffered()
        #expect(taken.isEmpty)
      }
      driver.admit(.parsing(ConsumingLineParser(), 10), 1)
      driver.receive(text)
      driver.duringParse = nil
      driver.receive("c\n")
      #expect(driver.results == [.text(text == "ab" ? "abc" : "ab")])
      #expect(driver.buffered == (text == "ab" ? [] : Array("c\n".utf8)))
    }
  }

  @Test func `A parser's code may refuse all reads`() {
    var driver = ReadDriver()
    driver.duringParse = { $0.refuse(SocketError(.closed, operation: "read")) }
    driver.admit(.parsing(LineParser(), 10), 1)
    driver.receive("ab")
    #expect(driver.results == [.failed(.closed)])
  }

  // MARK: Batches

  @Test func `Messages before an invalid one are in a batch, and the next read throws`() {
    let kind = ReadKind.batch(
      of: .parsing(10) { bytes in
        if bytes[0] == UInt8(ascii: "!") { throw ScriptedParser.Refusal() }
        return .message([bytes[0]], length: 1)
      })
    var driver = ReadDriver(kind)
    driver.receive("ab!c")
    driver.admit(kind, 2)
    #expect(driver.results == [.batch([Array("a".utf8), Array("b".utf8)]), .failed(.invalidMessage)])
    #expect(driver.buffered == Array("!c".utf8))
  }

  @Test func `A batch has a largest number of messages and of bytes`() {
    let kind = ReadKind.batch(of: .parsing(100_000) { .message([$0[0]], length: min($0.count, 1)) })
    var driver = ReadDriver()
    driver.receive(Array(repeating: 65, count: 3000))
    for tag in 1...3 { driver.admit(kind, tag) }
    #expect(driver.results.map { if case .batch(let batch) = $0 { batch.count } else { 0 } } == [1024, 1024, 952])
    let large = ReadKind.batch(of: .parsing(100_000) { .message([$0[0]], length: min($0.count, 100_000)) })
    driver.receive(Array(repeating: 65, count: 500_000))
    for tag in 4...5 { driver.admit(large, tag) }
    #expect(driver.results.suffix(2) == [.batch([[65], [65], [65]]), .batch([[65], [65]])])
  }

  // MARK: Random streams

  /// The queue checks its invariants at every step in debug builds, which takes ten times as long.
  private static let streams = _isDebugAssertConfiguration() ? 10_000 : max(100_000, rounds)

  @Test(arguments: 0..<8)
  func `Random streams give what the built-in reads give`(seed: Int) {
    var random = SeededRandom(seed: UInt64(seed))
    for _ in 0..<Self.streams / 8 {
      let isLines = Bool.random(using: &random)
      let maximum = Int.random(in: 2...12, using: &random)
      let bytes = (0..<Int.random(in: 0...30, using: &random)).map { _ -> UInt8 in
        isLines ? [10, 13, 65, 66, 67][Int.random(in: 0..<5, using: &random)] : UInt8.random(in: 0...3, using: &random)
      }
      let builtIn: ReadKind =
        isLines ? .line(.lf, maximumLength: maximum) : .message(.uint16(.big), maximumLength: maximum)
      let parsers: [ReadKind] =
        isLines
        ? [.parsing(LineParser(), maximum), .parsing(ConsumingLineParser(), maximum)]
        : [.parsing(PrefixParser(), maximum + 2)]
      let isBatch = Bool.random(using: &random)
      let seedOfCuts = random.next()
      let results = ([builtIn] + parsers).map { kind in
        drive(isBatch ? .batch(of: kind) : kind, bytes, SeededRandom(seed: seedOfCuts))
      }
      for result in results.dropFirst() where result != results[0] {
        Issue.record("seed \(seed): \(bytes), maximum \(maximum): \(result) instead of \(results[0])")
        return
      }
    }
  }

  private struct Driven: Hashable {
    var finished: [ReadDriver.Finished]
    var buffered: [UInt8]
  }

  private func drive(_ kind: ReadKind, _ bytes: [UInt8], _ random: SeededRandom) -> Driven {
    var random = random
    var driver = ReadDriver()
    var rest = bytes[...]
    var tag = 0
    while !rest.isEmpty {
      switch Int.random(in: 0..<4, using: &random) {
      case 0: driver.remove(tag)
      case 1:
        tag += 1
        driver.admit(kind, tag)
      default:
        let count = Int.random(in: 1...5, using: &random)
        driver.receive(rest.prefix(count))
        rest = rest.dropFirst(count)
      }
    }
    if Bool.random(using: &random) { driver.end() }
    for _ in 0..<3 {
      tag += 1
      driver.admit(kind, tag)
    }
    return Driven(finished: driver.finished, buffered: driver.buffered)
  }
}
