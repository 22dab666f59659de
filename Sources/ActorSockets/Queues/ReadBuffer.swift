// The bytes of a stream that no read has taken yet, and what a read finds at their front. A pure machine: it never calls the
// kernel, reads a clock or suspends. `ReadQueue` decides whose read it is; `ReadBuffer` says what that read gets.
//
// Invariants:
// - A read takes bytes only when it gets its outcome. A read that must wait, or that fails because of its limit, leaves every byte
//   in the buffer. The exception is a line whose carriage return ended the buffer: a line feed that arrives next belongs to it.
// - A delimiter is searched for only in bytes that were not searched before for the same read.
// - While the next line feed is to be dropped, the buffer is empty.

enum StreamEnding {
  /// The peer has finished.
  case endOfStream
  /// A drain has ended the idle reads. A read between two messages finds an end, but the peer may have had more to send: a read whose
  /// result would be complete only at the peer's end fails.
  case drained
  case failed(SocketError)
}

extension SocketError {
  /// The error of what needs the peer's own end, after a drain has ended the idle reads.
  static func drained(_ operation: String, bytesTransferred: Int = 0) -> SocketError {
    SocketError(
      .endOfStream, operation: operation,
      detail: "the server stops, and ended the idle reads; the peer may have had more to send",
      bytesTransferred: bytesTransferred)
  }
}

struct ReadBuffer {
  private enum Continuation {
    case bytes
    /// More bytes may arrive. If a line feed is the first of them, it belongs to a line that was read, and no read may see it.
    case bytesAfterCarriageReturn
    case ending(StreamEnding)
  }

  enum Verdict {
    case done(ReadOutcome)
    case failed(SocketError)
    case parse(ErasedParser, isBatch: Bool)
    /// The read must wait for at least this number of further bytes.
    case needs(Int)
  }

  private(set) var bytes = ByteQueue()
  private var continuation = Continuation.bytes

  @inline(__always)
  var ending: StreamEnding? { if case .ending(let ending) = continuation { ending } else { nil } }

  @inline(__always)
  var isAwaitingBytes: Bool {
    guard bytes.isEmpty, case .bytes = continuation else { return false }
    return true
  }

  @inline(__always)
  var dropsLineFeed: Bool { if case .bytesAfterCarriageReturn = continuation { true } else { false } }

  // MARK: Events

  mutating func append(_ arrived: Span<UInt8>) {
    bytes.append(arrived)
    dropLineFeed()
  }

  mutating func lend() -> ByteQueue {
    var lent = ByteQueue()
    swap(&lent, &bytes)
    return lent
  }

  mutating func giveBack(_ lent: consuming ByteQueue) {
    bytes = lent
    dropLineFeed()
  }

  private mutating func dropLineFeed() {
    defer { assert(!dropsLineFeed || bytes.isEmpty, "a line feed that must be dropped is not in the buffer") }
    guard dropsLineFeed, !bytes.isEmpty else { return }
    continuation = .bytes
    if bytes[0] == 10 { bytes.drop(1) }
  }

  mutating func end(_ ending: StreamEnding) {
    if case .ending = continuation { return }
    continuation = .ending(ending)
  }

  mutating func drop(_ count: Int) { bytes.drop(min(count, bytes.count)) }

  mutating func takeAll() -> [UInt8] { bytes.take(bytes.count) }

  // MARK: What a read gets

  /// `searched` bytes were searched before for the same read.
  mutating func evaluate(_ kind: ReadKind, _ searched: inout Int) -> Verdict {
    switch kind {
    case .any(let limit):
      if !bytes.isEmpty { return .done(.bytes(bytes.take(min(limit, bytes.count)))) }
      return limit == 0 ? .done(.bytes([])) : missing(1, orEnd: true)
    case .peek(let limit):
      return bytes.isEmpty ? missing(1, orEnd: true) : .done(.bytes(Array(bytes.prefix(limit))))
    case .borrow(let seen):
      if bytes.count > seen { return .done(.borrow) }
      // At the end of the stream the buffer is lent once more, so that its owner can report the end or the bytes that are left.
      return ending == nil ? .needs(1) : .done(.borrow)
    case .toEnd(let maximum):
      return rest(maximum)
    case .parse(let parser):
      return parse(parser, searched, isBatch: false)
    case .batch(.parse(let parser)):
      return parse(parser, searched, isBatch: true)
    case .batch(let kind):
      if case .line = kind {
        return evaluateBatch(of: kind, &searched, ReadOutcome.lines) { $0.takeText($1, $2, of: kind) }
      }
      return evaluateBatch(of: kind, &searched, ReadOutcome.messages) { $0.take($1, $2, of: kind) }
    case .exactly, .until, .line, .message:
      switch front(kind, &searched) {
      case .frame(let length, let content): return .done(.bytes(take(length, content, of: kind)))
      case .none(let verdict): return verdict
      }
    }
  }

  private mutating func rest(_ maximum: Int) -> Verdict {
    if bytes.count > maximum { return .failed(.tooLong(maximum, "stream")) }
    if case .endOfStream? = ending { return .done(.bytes(takeAll())) }
    return missing(1, orEnd: false)
  }

  private func parse(_ parser: ErasedParser, _ seen: Int, isBatch: Bool) -> Verdict {
    bytes.count > seen ? .parse(parser, isBatch: isBatch) : missing(seen + 1 - bytes.count, orEnd: true)
  }

  /// The largest batch: its frames, and its bytes without those of its last frame. A larger one would hold up other sockets.
  static var largestBatch: BatchLimits { (1_024, 262_144) }

  /// Takes out at least one frame. `takeFrame` returns `nil`, and takes nothing, for a frame that is not valid text.
  @inline(__always)
  private mutating func evaluateBatch<Frame>(
    of kind: ReadKind, _ searched: inout Int, _ outcome: ([Frame]) -> ReadOutcome,
    _ takeFrame: (inout Self, _ length: Int, _ content: Range<Int>) -> Frame?
  ) -> Verdict {
    var batch: [Frame] = []
    var total = 0
    while batch.count < Self.largestBatch.frames, total < Self.largestBatch.bytes {
      switch front(kind, &searched) {
      case .none(let verdict):
        return batch.isEmpty ? verdict : .done(outcome(batch))
      case .frame(let length, let content):
        searched = 0
        if let frame = takeFrame(&self, length, content) {
          batch.append(frame)
          total += length
        } else {
          // The invalid frame gets a batch to itself, so that the frames before it are not lost with its error.
          return .done(batch.isEmpty ? .bytes(take(length, content, of: kind)) : outcome(batch))
        }
      }
    }
    return .done(outcome(batch))
  }

  private mutating func takeText(_ length: Int, _ content: Range<Int>, of kind: ReadKind) -> String? {
    guard let text = text(content) else { return nil }
    noteEnding(of: kind, length)
    bytes.drop(length)
    return text
  }

  private func text(_ content: Range<Int>) -> String? {
    bytes.withBytes { try? String(copying: UTF8Span(validating: $0.extracting(content))) }
  }

  private mutating func take(_ length: Int, _ content: Range<Int>, of kind: ReadKind) -> [UInt8] {
    noteEnding(of: kind, length)
    if content.lowerBound > 0 { bytes.drop(content.lowerBound) }
    let taken = bytes.take(content.count)
    if length > content.upperBound { bytes.drop(length - content.upperBound) }
    return taken
  }

  /// If the carriage return of the line is the last byte that has arrived, its line feed may follow.
  private mutating func noteEnding(of kind: ReadKind, _ length: Int) {
    if mayLackLineFeed(kind, length) { continuation = .bytesAfterCarriageReturn }
  }

  private func mayLackLineFeed(_ kind: ReadKind, _ length: Int) -> Bool {
    guard case .line(.any, _) = kind, length == bytes.count, bytes[length - 1] == 13, case .bytes = continuation else {
      return false
    }
    return true
  }
}

// MARK: - Looking ahead

extension ReadBuffer {
  /// Frames that are at the front of the buffer, and stay there: copies of them, and the position of the end of each.
  typealias Ahead = (frames: ReadOutcome, ends: [Int])

  /// The number of bytes in which frames are looked for. More would keep much memory twice.
  static var farthestAhead: Int { 65_536 }

  /// `nil` if no whole frame is there. Parsers are not called here.
  func frames(_ kind: ReadKind, atMost limit: Int) -> Ahead? {
    switch kind {
    case .line: frames(kind, atMost: limit, ReadOutcome.lines) { $0.text($1) }
    case .exactly, .until, .message: frames(kind, atMost: limit, ReadOutcome.messages) { $0.bytes.copy($1) }
    case .any, .peek, .toEnd, .borrow, .parse, .batch: nil
    }
  }

  @inline(__always)
  private func frames<Frame>(
    _ kind: ReadKind, atMost limit: Int, _ outcome: ([Frame]) -> ReadOutcome,
    _ copyFrame: (borrowing Self, _ content: Range<Int>) -> Frame?
  ) -> Ahead? {
    var rest = self
    var frames: [Frame] = []
    var ends: [Int] = []
    var end = 0
    while frames.count < limit {
      var searched = 0
      guard case .frame(let length, let content) = rest.front(kind, &searched), length <= Self.farthestAhead - end,
        !rest.mayLackLineFeed(kind, length), let frame = copyFrame(rest, content)
      else { break }
      if end == 0 {
        // If all have the length of the first, the arrays need not grow.
        let expected = min(limit, rest.bytes.count / max(1, length))
        frames.reserveCapacity(expected)
        ends.reserveCapacity(expected)
      }
      end += length
      frames.append(frame)
      ends.append(end)
      rest.bytes.skip(length)
    }
    return frames.isEmpty ? nil : (outcome(frames), ends)
  }
}

// MARK: - Frames

extension ReadBuffer {
  private enum Front {
    /// A complete frame: its length, and the bytes of it that the reader gets.
    case frame(length: Int, content: Range<Int>)
    case none(Verdict)
  }

  private func front(_ kind: ReadKind, _ searched: inout Int) -> Front {
    switch kind {
    case .exactly(let length, let orEnd):
      return bytes.count >= length
        ? .frame(length: length, content: 0..<length) : .none(missing(length - bytes.count, orEnd: orEnd))
    case .until(let delimiter, let maximum, let orEnd):
      return delimited(delimiter.bytes, maximum, &searched, orEnd: orEnd) { found, length in
        .frame(length: found + length, content: 0..<found + length)
      }
    case .line(.lf, let maximum):
      return delimited(Delimiter.lf.bytes, maximum, &searched, orEnd: true) { found, length in
        let end = found > 0 && bytes[found - 1] == 13 ? found - 1 : found
        return .frame(length: found + length, content: 0..<end)
      }
    case .line(.crlf, let maximum):
      return delimited(Delimiter.crlf.bytes, maximum, &searched, orEnd: true) { found, length in
        .frame(length: found + length, content: 0..<found)
      }
    case .line(.any, let maximum):
      return anyLine(maximum, &searched)
    case .message(let prefix, let maximum):
      return message(prefix, maximum)
    case .any, .peek, .toEnd, .borrow, .parse, .batch:
      return .none(.needs(1))
    }
  }

  /// `endIsNoError`: the read may find the end of the stream instead of its first byte.
  private func missing(_ count: Int, orEnd endIsNoError: Bool) -> Verdict {
    switch ending {
    case nil: .needs(count)
    case .failed(let error): .failed(error.during("read"))
    case .endOfStream, .drained:
      endIsNoError && bytes.isEmpty ? .done(.endOfStream) : .failed(incomplete)
    }
  }

  private var incomplete: SocketError {
    if case .drained? = ending { return .drained("read", bytesTransferred: bytes.count) }
    return SocketError(.endOfStream, operation: "read", bytesTransferred: bytes.count)
  }

  private func delimited(
    _ delimiter: [UInt8], _ maximum: Int, _ searched: inout Int, orEnd: Bool,
    _ frame: (_ found: Int, _ length: Int) -> Front
  ) -> Front {
    // The last bytes of the previous search may be the beginning of a delimiter.
    let start = searched - (delimiter.count - 1)
    if let found = bytes.firstIndex(of: delimiter, from: start, before: maximum) {
      return frame(found, delimiter.count)
    }
    searched = bytes.count
    return .none(bytes.count >= maximum ? tooLong(maximum) : missing(1, orEnd: orEnd))
  }

  private func anyLine(_ maximum: Int, _ searched: inout Int) -> Front {
    let limit = min(maximum, bytes.count)
    // Searched in growing parts. A search for one of the two through the whole buffer would be repeated for each line, even when
    // the other one is near.
    var part = 256
    while searched < limit {
      let end = min(limit, searched + part)
      let lineFeed = bytes.firstIndex(of: [10], from: searched, before: end)
      let carriageReturn = bytes.firstIndex(of: [13], from: searched, before: lineFeed ?? end)
      if let found = carriageReturn ?? lineFeed {
        let isPair = carriageReturn != nil && found + 1 < bytes.count && bytes[found + 1] == 10
        return .frame(length: found + (isPair ? 2 : 1), content: 0..<found)
      }
      searched = end
      part *= 2
    }
    return .none(bytes.count >= maximum ? tooLong(maximum) : missing(1, orEnd: true))
  }

  private func tooLong(_ maximum: Int) -> Verdict { .failed(.tooLong(maximum)) }

  private func message(_ prefix: LengthPrefix, _ maximum: Int) -> Front {
    if bytes.count < prefix.width { return .none(missing(prefix.width - bytes.count, orEnd: true)) }
    guard let length = prefix.payloadLength(bytes.prefix(prefix.width)), length <= maximum else {
      return .none(
        .failed(
          SocketError(
            .limitExceeded, operation: "read",
            detail: "the message's length prefix is not a length of at most \(maximum) bytes")))
    }
    // With a maximum near `Int.max`, a peer may announce a length that overflows here. No machine has that much memory.
    let (total, overflows) = prefix.width.addingReportingOverflow(length)
    if overflows { return .none(tooLong(maximum)) }
    if bytes.count < total { return .none(missing(total - bytes.count, orEnd: false)) }
    return .frame(length: total, content: prefix.width..<total)
  }
}
