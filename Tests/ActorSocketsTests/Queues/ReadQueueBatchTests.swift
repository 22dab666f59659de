import TestSupport
import Testing

@testable import ActorSockets

/// Batches bring what one read after the other would.
@Suite(.tags(.pure)) struct ReadQueueBatchTests {
  private static let scripts: [(kind: ReadKind, stream: String)] = [
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

  @Test(arguments: scripts.indices)
  func `However the bytes come, batches bring what single reads bring`(script: Int) {
    let (kind, text) = Self.scripts[script]
    let stream = Array(text.utf8)
    for cuts in 0..<(1 << (stream.count - 1)) {
      var chunks: [ArraySlice<UInt8>] = []
      var start = 0
      for index in stream.indices where index == stream.count - 1 || cuts >> index & 1 == 1 {
        chunks.append(stream[start...index])
        start = index + 1
      }
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
        var driver = ReadDriver()
        driver.admit(.line(.any, maximumLength: 6_000), 1)
        driver.admit(.line(.any, maximumLength: 6_000), 2)
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

  @Test func `A batch that is taken back leaves all bytes`() {
    var driver = ReadDriver()
    driver.admit(.batch(of: .line(.lf, maximumLength: 100)), 1)
    driver.receive("abc")
    let isRemoved = driver.remove(1)
    #expect(isRemoved)
    driver.admit(.batch(of: .line(.lf, maximumLength: 100)), 2)
    driver.receive("d\nefg\nh")
    #expect(driver.results == [.batch([Array("abcd".utf8), Array("efg".utf8)])])
    #expect(driver.buffered == Array("h".utf8))
  }
}
