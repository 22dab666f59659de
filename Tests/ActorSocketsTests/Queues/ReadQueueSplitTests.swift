import TestSupport
import Testing

@testable import ActorSockets

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

  func checkAllSplits(_ ending: NaiveOutcome.Ending = .clean) {
    for chunks in allSplits(of: stream) { if !check(chunks, ending) { return } }
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
      for chunks in allSplits(of: stream) {
        var driver = ReadDriver()
        var model: [[UInt8]] = []
        for tag in 0..<10 { driver.admit(.any(upTo: limit), tag) }
        for chunk in chunks {
          driver.receive(chunk)
          model += stride(from: 0, to: chunk.count, by: limit).map { Array(chunk.dropFirst($0).prefix(limit)) }
        }
        driver.end()
        let expected = model.map(ReadResult.bytes) + Array(repeating: .end, count: 10 - model.count)
        if driver.results != expected { Issue.record("\(driver.results), not \(expected)"); return }
      }
    }
  }

  @Test func `A reader that looks for itself finds the same wherever the stream is cut`() {
    let stream = Array("aabxabaab".utf8)
    let script = ReadScript(
      "turns", Array(repeating: .until("ab", maximumLength: 100), count: 3) + [.exactly(1, orEnd: true)], stream)
    for chunks in allSplits(of: stream) {
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
      for chunk in chunks {
        driver.receive(chunk)
        look()
      }
      driver.end()
      look()
      messages.append(.end)
      if messages != script.expected(.clean).results { Issue.record("\(chunks.map(Array.init)): \(messages)"); return }
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

  // MARK: Batches

  private static let batches: [(kind: ReadKind, stream: String)] = [
    (.line(.lf, maximumLength: 5), "a\nbc\r\n\nd\r"), (.line(.crlf, maximumLength: 5), "a\r\n\r\nb\nc\r\n"),
    (.line(.any, maximumLength: 4), "a\r\nb\rc\n\n\rd"), (.line(.any, maximumLength: 4), "\r\r\n\n\ra\r"),
    (.line(.lf, maximumLength: 3), "a\nbc\ndef\ng\n"), (.until("ab", maximumLength: 5), "abcababab"),
    (.until("aa", maximumLength: 4, orEnd: true), "aaaaaabaa"), (.exactly(3, orEnd: true), "abcdefgh"),
    (.exactly(1), "abcdef"), (.message(.uint8, maximumLength: 3), "\u{1}a\u{0}\u{3}abc\u{1}b"),
    (.message(.uint16(.big), maximumLength: 9), "\u{0}\u{1}a\u{0}\u{0}\u{0}\u{2}ab"),
    (.message(.uint8, maximumLength: 1), "\u{1}a\u{2}ab"),
  ]

  /// What reads bring, one after the other, until nothing more comes of it; and what they leave.
  private static func read(
    _ kind: ReadKind, _ chunks: [ArraySlice<UInt8>], batches: Bool
  ) -> (results: [ReadResult], rest: [UInt8], reads: Int) {
    var driver = ReadDriver()
    var reads = 0
    func isWaiting() -> Bool { driver.finished.count < reads }
    func isOver() -> Bool {
      switch driver.results.last {
      case .failed, .end: true
      default: false
      }
    }
    func goOn() {
      while !isWaiting(), !isOver() {
        driver.admit(batches ? .batch(of: kind) : kind, reads)
        reads += 1
      }
    }
    goOn()
    for chunk in chunks {
      driver.receive(chunk)
      goOn()
    }
    driver.end()
    goOn()
    let results = driver.results.flatMap { result in
      if case .batch(let batch) = result {
        #expect(!batch.isEmpty)
        return batch.map(ReadResult.bytes)
      }
      return [result]
    }
    return (results, driver.buffered, reads)
  }

  @Test(arguments: batches.indices)
  func `However the bytes come, batches bring what single reads bring`(script: Int) {
    let (kind, text) = Self.batches[script]
    let stream = Array(text.utf8)
    for chunks in allSplits(of: stream) {
      let single = Self.read(kind, chunks, batches: false)
      let batched = Self.read(kind, chunks, batches: true)
      #expect(batched.results == single.results && batched.rest == single.rest, "\(kind) in \(chunks.map(Array.init))")
      if batched.results != single.results { return }
      // All that has come is in one batch, but for the end.
      if chunks.count == 1 { #expect(batched.reads <= 2, "\(kind)") }
    }
  }

  @Test(arguments: [LineEnding.lf, .crlf, .any])
  func `A line that is no text comes by itself, and those before it are not lost`(ending: LineEnding) {
    let end: [UInt8] = ending == .crlf ? [13, 10] : ending == .any ? [13] : [10]
    let lines: [[UInt8]] = [Array("one".utf8), Array("two".utf8), [0xff], Array("three".utf8), [0xfe]]
    let stream = lines.flatMap { $0 + end }
    var driver = ReadDriver()
    driver.receive(stream)
    for tag in 0..<4 { driver.admit(.batch(of: .line(ending, maximumLength: 100)), tag) }
    #expect(
      driver.results == [
        .batch([Array("one".utf8), Array("two".utf8)]), .bytes([0xff]), .batch([Array("three".utf8)]), .bytes([0xfe]),
      ])
    // The line feed that belongs to the last line, if there is one, is not the next.
    driver.receive(ending == .any ? [10, 97] : [97])
    #expect(driver.buffered == [97])
  }

  @Test(arguments: [(length: 10, counts: [1_024, 1_024]), (length: 1_000, counts: [263, 37])])
  func `A batch ends at its limits, and the next one goes on`(length: Int, counts: [Int]) {
    var driver = ReadDriver()
    driver.receive((0..<300_000).map { $0 % length == length - 1 ? 10 : 65 })
    for tag in counts.indices { driver.admit(.batch(of: .line(.lf, maximumLength: 1_000)), tag) }
    #expect(driver.results.map { if case .batch(let batch) = $0 { batch.count } else { 0 } } == counts)
  }

  @Test func `The end of a line is found near and far, whatever it is`() {
    for length in [0, 1, 254, 255, 256, 257, 767, 768, 769, 5_000] {
      let line = [UInt8](repeating: 65, count: length)
      for ending in [[10], [13], [13, 10]] as [[UInt8]] {
        var driver = ReadDriver(.line(.any, maximumLength: 6_000), .line(.any, maximumLength: 6_000))
        driver.receive(line + ending + [66] + line + [10] + line)
        #expect(driver.results == [.bytes(line), .bytes([66] + line)], "\(length) \(ending)")
        #expect(driver.buffered == line)
      }
    }
  }

  @Test func `What has no end cannot be in batches`() {
    for kind in [ReadKind.any(upTo: 5), .peek(upTo: 5), .borrow(moreThan: 0), .batch(of: .exactly(1))] {
      #expect(throws: SocketError.self) { try ReadKind.batch(of: kind).validate() }
    }
    #expect(throws: SocketError.self) { try ReadKind.batch(of: .exactly(0, orEnd: true)).validate() }
    #expect(throws: SocketError.self) { try ReadKind.batch(of: .exactly(0)).validate() }
  }
}
