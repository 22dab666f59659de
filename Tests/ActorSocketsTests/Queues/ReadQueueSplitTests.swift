import TestSupport
import Testing

@testable import ActorSockets

/// Reads, and the whole stream that they read.
struct ReadScript: Sendable, CustomTestStringConvertible {
  var name: String
  var kinds: [ReadKind]
  var stream: [UInt8]

  init(_ name: String, _ kinds: [ReadKind], _ stream: [UInt8]) {
    self.name = name
    self.kinds = kinds
    self.stream = stream
  }

  init(_ name: String, _ kinds: [ReadKind], _ text: String) { self.init(name, kinds, Array(text.utf8)) }

  var testDescription: String { "\(name) of \(String(decoding: stream, as: UTF8.self).debugDescription)" }

  /// What the reads bring, and what they leave.
  func expected(_ ending: NaiveOutcome.Ending) -> (results: [ReadResult], rest: [UInt8]) {
    var rest = stream[...]
    var results: [ReadResult] = []
    for kind in kinds {
      guard let outcome = NaiveOutcome.of(kind, rest, ending) else { break }
      results.append(outcome.result)
      rest = rest.dropFirst(outcome.consumed)
    }
    return (results, Array(rest))
  }

  /// Whether the reads bring what they should when the stream arrives in these parts; says so if not.
  func check(_ chunks: [ArraySlice<UInt8>], _ ending: NaiveOutcome.Ending = .clean, _ note: String = "") -> Bool {
    let expected = expected(ending)
    var driver = ReadDriver()
    for (tag, kind) in kinds.enumerated() { driver.admit(kind, tag) }
    for chunk in chunks { driver.receive(chunk) }
    driver.end(ending == .clean ? .endOfStream : .failed(SocketError(.connectionReset, operation: "connection")))
    let tags = driver.finished.map(\.tag)
    if driver.results == expected.results, driver.buffered == expected.rest, tags == Array(kinds.indices),
      driver.begun == tags, !driver.neverRests
    {
      return true
    }
    Issue.record(
      """
      \(note) received as \(chunks.map(Array.init)): \(driver.finished), left \(driver.buffered)
      expected \(expected)
      """)
    return false
  }

  /// Checks every way to cut the stream into parts.
  func checkAllSplits(_ ending: NaiveOutcome.Ending = .clean) {
    for cuts in 0..<(1 << max(0, stream.count - 1)) {
      var chunks: [ArraySlice<UInt8>] = []
      var start = 0
      for index in stream.indices where index == stream.count - 1 || cuts >> index & 1 == 1 {
        chunks.append(stream[start...index])
        start = index + 1
      }
      if !check(chunks, ending) { return }
    }
  }
}

@Suite(.tags(.pure)) struct ReadQueueSplitTests {
  static let delimited: [ReadScript] = ["a", "b", "ab", "aa", "aab", "aba", "abab", "aaab"].flatMap { text in
    ["aabaaabab", "ababababb", "aaaaaaab", "bbbabaaba"].map { stream in
      ReadScript("until \(text)", Array(repeating: .until(Delimiter(text.utf8), maximumLength: 7), count: 4), stream)
    }
  }

  @Test(arguments: delimited)
  func `A delimiter is found wherever the stream is cut, one that overlaps itself too`(script: ReadScript) {
    script.checkAllSplits()
  }

  static let lines: [ReadScript] = [LineEnding.lf, .crlf, .any].flatMap { ending in
    ["a\r\nb\n\r\n", "\r\r\n\nx", "ab\r\n\ncd\r", "a\rb\r\nc", "\n\n\r\r\r\n\n", "abcde\r\nf"].map { stream in
      ReadScript("line \(ending)", Array(repeating: .line(ending, maximumLength: 6), count: 5), stream)
    }
  }

  @Test(arguments: lines)
  func `Lines are the same wherever the stream is cut`(script: ReadScript) {
    script.checkAllSplits()
    script.checkAllSplits(.broken)
  }

  @Test(arguments: LengthPrefix.allForms)
  func `A message with its length in front is the same wherever the stream is cut`(prefix: LengthPrefix) throws {
    let long = try #require(prefix.encode(3))
    let empty = try #require(prefix.encode(0))
    let read = ReadKind.message(prefix, maximumLength: 3)
    ReadScript("one", [read, read], long + [1, 2, 3]).checkAllSplits()
    ReadScript("cut short", [read, read], long + [1, 2]).checkAllSplits()
    ReadScript("cut in the prefix", [read, read], Array(long.dropLast())).checkAllSplits(.broken)
    ReadScript("empty, then the beginning of another", [read, read], empty + [7]).checkAllSplits()
    let tooLong = try #require(prefix.encode(4))
    ReadScript("too long", [read, .exactly(prefix.width)], tooLong + [9]).checkAllSplits()
  }

  @Test func `Exact lengths are the same wherever the stream is cut`() {
    for lengths in [[0, 1, 3, 0, 5, 1], [10, 1], [11, 2], [4, 4, 4]] {
      for orEnd in [false, true] {
        let kinds = lengths.map { ReadKind.exactly($0, orEnd: orEnd) }
        ReadScript("exactly \(lengths)", kinds, "0123456789").checkAllSplits()
        ReadScript("exactly \(lengths)", kinds, "0123456789").checkAllSplits(.broken)
      }
    }
  }

  @Test func `Reads of different kinds one after another are the same in all 2048 ways to cut twelve bytes`() {
    let kinds: [ReadKind] = [
      .line(.any, maximumLength: 4), .exactly(1), .message(.uint8, maximumLength: 9), .line(.any, maximumLength: 9),
      .until("ab", maximumLength: 4, orEnd: true),
    ]
    ReadScript("all kinds", kinds, Array("x\r\ny".utf8) + [2, 8, 8] + Array("\r\naab".utf8)).checkAllSplits()
  }

  @Test func `Reads of any bytes return them as they arrive, never empty and never more than asked for`() {
    let stream: [UInt8] = Array(0..<9)
    for limit in [1, 2, 3, 100] {
      for cuts in 0..<256 {
        var driver = ReadDriver()
        var model: [[UInt8]] = []
        var start = 0
        for tag in 0..<10 { driver.admit(.any(upTo: limit), tag) }
        for index in stream.indices where index == 8 || cuts >> index & 1 == 1 {
          driver.receive(stream[start...index])
          while start <= index {
            let end = min(start + limit, index + 1)
            model.append(Array(stream[start..<end]))
            start = end
          }
        }
        driver.end()
        let expected = model.map(ReadResult.bytes) + Array(repeating: .end, count: 10 - model.count)
        if driver.results != expected { Issue.record("\(driver.results), not \(expected)"); return }
      }
    }
  }

  @Test func `Peeking shows what arrived and takes nothing`() {
    var driver = ReadDriver()
    driver.admit(.peek(upTo: 2), 1)
    driver.receive("abc")
    driver.admit(.peek(upTo: 9), 2)
    driver.admit(.exactly(3), 3)
    driver.admit(.peek(upTo: 1), 4)
    driver.end()
    #expect(driver.results == [.text("ab"), .text("abc"), .text("abc"), .end])
  }

  @Test func `A reader that looks for itself finds the same wherever the stream is cut`() {
    let stream = Array("aabxabaab".utf8)
    let script = ReadScript(
      "turns", Array(repeating: .until("ab", maximumLength: 100), count: 3) + [.exactly(1, orEnd: true)], stream)
    for cuts in 0..<256 {
      var driver = ReadDriver()
      var messages: [ReadResult] = []
      var turns = 0
      driver.admit(.borrow(moreThan: 0), 0)
      func look() {
        while driver.finished.count > turns, driver.results.last == .borrow {
          turns += 1
          let bytes = driver.buffered
          if let outcome = NaiveOutcome.of(.until("ab", maximumLength: 100), bytes[...], nil) {
            messages.append(outcome.result)
            driver.endBorrow(messages.count - 1, consumed: outcome.consumed)
            driver.admit(.borrow(moreThan: 0), messages.count)
          } else if driver.queue.ending == nil {
            driver.endBorrow(messages.count, waitingForMoreThan: bytes.count)
          }
        }
      }
      var start = 0
      for index in stream.indices where index == 8 || cuts >> index & 1 == 1 {
        driver.receive(stream[start...index])
        start = index + 1
        look()
      }
      driver.end()
      look()
      messages.append(.end)
      if messages != script.expected(.clean).results { Issue.record("\(cuts): \(messages)"); return }
    }
  }

  @Test(arguments: 1...24 as ClosedRange<UInt64>)
  func `Long streams in random parts are read as if they came in one`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let alphabet: [UInt8] = [97, 98, 13, 10, 0, 1, 2]
    let stream = (0..<Int.random(in: 1000...6000, using: &random)).map { _ in
      alphabet.randomElement(using: &random) ?? 0
    }
    let kinds = (0..<300).map { _ in ReadKind.random(&random) }
    let script = ReadScript("random", kinds, stream)
    for round in 0..<3 {
      let largest = [3, 50, 5000][round]
      var chunks: [ArraySlice<UInt8>] = []
      var rest = stream[...]
      while !rest.isEmpty {
        let chunk = rest.prefix(Int.random(in: 1...largest, using: &random))
        chunks.append(chunk)
        rest = rest.dropFirst(chunk.count)
      }
      if !script.check(chunks, Bool.random(using: &random) ? .clean : .broken, "seed \(seed)") { return }
    }
  }
}
