// The read queue, a pure machine. It serves TCP, TLS and in-memory streams; it never calls the kernel, reads a clock or
// suspends. Bytes and requests go in; `step()` says what to do next, and is called until it has nothing more to say.
//
// State: the bytes that arrived (`buffer`), the reads in the order of their calls (`entries`), how the bytes end
// (`ending`), whether the stream is up (`isOpen`).
//
// Invariants:
// - Only the first entry is looked at. It takes bytes only when it can be finished, so a read that goes away before
//   leaves all its bytes for the next one.
// - Every entry leaves exactly once: in a `.finish` step, or through `remove`.
// - `.begin` is said once of each entry, when it becomes the first of an open stream, unless its admission has said so.
// - A delimiter is searched for only in bytes that were not searched before for the same entry.
// - `.receive` is said only while an entry wants bytes: nothing is read from the kernel that no read asked for.
// - An entry that has the turn (`withBytes`) blocks the others until `endBorrow`.
// - When a read fails or is taken back, the enqueued ones behind it fail too: they would parse the wrong bytes.

/// How the bytes of a stream end.
enum StreamEnding {
  /// The peer finished.
  case endOfStream
  /// The connection broke.
  case failed(SocketError)
}

/// The reads of one stream. `Tag` is what the owner of the machine keeps with each.
struct ReadQueue<Tag> {
  typealias ID = UInt64

  /// A read that waits. A class, so that the queue moves one word.
  final class Entry {
    fileprivate(set) var id: ID
    fileprivate(set) var kind: ReadKind
    /// Made by an `enqueue…` method: it relies on the reads before it.
    let isEnqueued: Bool
    fileprivate var isBegun = false
    /// It may look at the bytes; nobody else does meanwhile.
    fileprivate var isBorrowing = false
    /// It gets the turn before there are bytes.
    fileprivate var getsTurn = false
    let tag: Tag
    fileprivate var searched = 0

    fileprivate init(id: ID, kind: ReadKind, isEnqueued: Bool, tag: Tag) {
      self.id = id
      self.kind = kind
      self.isEnqueued = isEnqueued
      self.tag = tag
    }
  }

  enum Step {
    /// The read left the queue with this result.
    case finish(Entry, Result<ReadOutcome, SocketError>)
    /// The read is the first now: its time starts.
    case begin(ID, Tag)
    /// The first read has so many bytes and waits for more; at least so many more may be received for it.
    case receive(ID, have: Int, wanted: Int)
    /// Nothing to do.
    case idle
  }

  private(set) var buffer = ByteQueue()
  private(set) var ending: StreamEnding?
  private(set) var isOpen = false
  private var entries = FIFO<Entry>()
  /// Reads that fail because of one before them; each leaves in the next steps.
  private var failedByPredecessor = FIFO<Entry>()
  /// The entries made by an `enqueue…` method.
  private var enqueuedCount = 0
  /// Why all that waits fails, if so.
  private(set) var refusal: SocketError?
  private var nextID: ID = 0
  /// A line ended with a carriage return: a line feed that comes next belongs to it.
  private var dropsLineFeed = false
  /// An entry that has left, with its tag, to be used again: most reads are alone, one after the other.
  private var spare: Entry?

  /// The number of reads that wait.
  var count: Int { entries.count }
  /// Whether all that waits fails.
  var isRefusing: Bool { refusal != nil }
  /// The first read.
  var first: Entry? { entries.first }
  /// All reads that wait, in order.
  var all: [Entry] { entries.all }
  /// The bytes that the read whose turn it is has seen already.
  var borrowHasSeen: Int {
    if case .borrow(let seen)? = entries.first?.kind { seen } else { 0 }
  }

  // MARK: Events

  /// Puts a read at the end.
  mutating func admit(_ kind: ReadKind, isEnqueued: Bool, _ tag: Tag) -> ID {
    nextID += 1
    entries.append(Entry(id: nextID, kind: kind, isEnqueued: isEnqueued, tag: tag))
    if isEnqueued { enqueuedCount += 1 }
    return nextID
  }

  /// Keeps an entry that has left, and that nothing else refers to, for `admitSpare`.
  mutating func keep(_ entry: Entry) { spare = entry }

  /// Puts a read at the end whose entry has been used before.
  ///
  /// - Returns: `nil` if there is no such entry. Otherwise the entry, and whether the read can only wait for the first byte. Then
  ///   it has begun, and no step is needed before that byte comes.
  mutating func admitSpare(_ kind: ReadKind) -> (entry: Entry, waits: Bool)? {
    guard let entry = spare.take() else { return nil }
    nextID += 1
    entry.id = nextID
    entry.kind = kind
    entry.searched = 0
    entry.isBegun = false
    entry.isBorrowing = false
    entry.getsTurn = false
    entries.append(entry)
    if entry.isEnqueued { enqueuedCount += 1 }
    guard isOpen, entries.count == 1, isIdle else { return (entry, false) }
    switch kind {
    case .any, .borrow(moreThan: 0):
      entry.isBegun = true
      return (entry, true)
    default: return (entry, false)
    }
  }

  /// There are no bytes, no end, and no failures to tell.
  @inline(__always)
  private var isIdle: Bool {
    buffer.isEmpty && ending == nil && refusal == nil && failedByPredecessor.isEmpty && !dropsLineFeed
  }

  /// The stream is up.
  mutating func open() { isOpen = true }

  /// Bytes arrived.
  mutating func received(_ bytes: Span<UInt8>) {
    buffer.append(bytes)
    dropLineFeed()
  }

  /// Lends the buffer, for something to be received into it; nothing else may happen until it is given back.
  mutating func lendBuffer() -> ByteQueue {
    var lent = ByteQueue()
    swap(&lent, &buffer)
    return lent
  }

  /// Takes the buffer back, with what was received into it.
  mutating func giveBack(_ lent: consuming ByteQueue) {
    buffer = lent
    dropLineFeed()
  }

  private mutating func dropLineFeed() {
    guard dropsLineFeed, !buffer.isEmpty else { return }
    dropsLineFeed = false
    if buffer[0] == 10 { buffer.drop(1) }
  }

  /// No more bytes will arrive. The first ending stays.
  mutating func end(_ ending: StreamEnding) {
    if self.ending == nil { self.ending = ending }
  }

  /// Fails all reads, those to come included. The bytes stay for `takeBuffered`.
  mutating func refuse(_ error: SocketError) {
    if refusal == nil { refusal = error }
  }

  /// Takes a read out, unless it is gone or has the turn, and dooms the enqueued ones behind it.
  mutating func remove(_ id: ID) -> Entry? {
    guard let index = entries.index(of: id), !entries[index].isBorrowing else { return nil }
    let entry = leave(index)
    doomEnqueued(from: index)
    return entry
  }

  /// What is kept with a read.
  func tag(of id: ID) -> Tag? { entries.index(of: id).map { entries[$0].tag } }

  /// Takes all bytes out that nobody has taken.
  mutating func takeBuffered() -> [UInt8] {
    if let first = entries.first {
      first.searched = 0
      // What a look has seen is gone: it sees whatever comes.
      if case .borrow = first.kind { first.kind = .borrow(moreThan: 0) }
    }
    return buffer.take(buffer.count)
  }

  /// Gives the turn to the first read although no bytes are there, for it receives them itself.
  ///
  /// - Returns: Whether the read is one that wants the turn; then the next step finishes it.
  mutating func lendEarly(_ id: ID) -> Bool {
    // The line feed that belongs to a line before must be dropped before anybody sees it.
    guard !dropsLineFeed, let first = entries.first, first.id == id, case .borrow(moreThan: 0) = first.kind else {
      return false
    }
    first.getsTurn = true
    return true
  }

  /// Whether a read that came now would have the turn if there were bytes. Inlined, for a call would copy the queue.
  @inline(__always)
  var isFree: Bool { isOpen && entries.isEmpty && failedByPredecessor.isEmpty && refusal == nil && !dropsLineFeed }

  /// Gives the turn to the read that was admitted to a free queue. No step says that it has begun, nor that it has the turn.
  ///
  /// - Returns: Its entry.
  mutating func lend() -> Entry? {
    guard let first = entries.first else { return nil }
    first.isBegun = true
    first.isBorrowing = true
    return first
  }

  /// The read that had the turn gives it back.
  ///
  /// - Parameters:
  ///   - id: The read.
  ///   - consumed: The bytes that it used up, from the front of the buffer.
  ///   - seen: If it is not finished: the number of bytes it has seen without success.
  ///   - failed: It failed; the enqueued reads behind it fail too.
  /// - Returns: What was kept with it, if it is finished.
  mutating func endBorrow(_ id: ID, consumed: Int, waitingForMoreThan seen: Int?, failed: Bool = false) -> Tag? {
    guard let entry = entries.first, entry.id == id, entry.isBorrowing else { return nil }
    buffer.drop(consumed)
    if let seen {
      entry.kind = .borrow(moreThan: seen)
      entry.isBorrowing = false
      entry.getsTurn = false
      return nil
    }
    let tag = leave(0).tag
    if failed { doomEnqueued(from: 0) }
    return tag
  }

  /// Whether the only read is one of what there is, which waits for the first byte. Inlined, for a call would copy the queue.
  @inline(__always)
  var isWaitingForAny: Bool {
    guard entries.count == 1, isIdle, let first = entries.first, first.isBegun, case .any = first.kind else {
      return false
    }
    return true
  }

  /// Takes out the only read, of which `isWaitingForAny` is true, if so many bytes are not too many for it. It has them
  /// as its outcome: what `received` and two steps would come to.
  mutating func finishAny(_ count: Int) -> Entry? {
    guard case .any(let limit)? = entries.first?.kind, count <= limit else { return nil }
    return leave(0)
  }

  // MARK: Actions

  /// What to do next; to be called until it is `.idle`, or `.receive` and there is nothing to receive.
  mutating func step() -> Step {
    if let entry = failedByPredecessor.popFirst() {
      return .finish(entry, .failure(SocketError(.precedingReadFailed, operation: "read")))
    }
    guard let first = entries.first, !first.isBorrowing else { return .idle }
    if let refusal { return .finish(leave(0), .failure(refusal)) }
    if !isOpen { return .idle }
    if !first.isBegun {
      first.isBegun = true
      return .begin(first.id, first.tag)
    }
    if first.getsTurn {
      first.isBorrowing = true
      return .finish(first, .success(.borrow))
    }
    switch evaluate(first.kind, &first.searched) {
    case .done(.borrow):
      first.isBorrowing = true
      return .finish(first, .success(.borrow))
    case .done(let outcome):
      return .finish(leave(0), .success(outcome))
    case .failed(let error):
      let entry = leave(0)
      doomEnqueued(from: 0)
      return .finish(entry, .failure(error))
    case .needs(let wanted):
      return .receive(first.id, have: buffer.count, wanted: wanted)
    }
  }

  private mutating func leave(_ index: Int) -> Entry {
    let entry = entries.remove(at: index)
    if entry.isEnqueued { enqueuedCount -= 1 }
    return entry
  }

  private mutating func doomEnqueued(from index: Int) {
    // Counted, so that calls that are cancelled one after the other do not each look at all the others.
    if enqueuedCount == 0 { return }
    for entry in entries.removeAll(from: index, where: \.isEnqueued) {
      enqueuedCount -= 1
      failedByPredecessor.append(entry)
    }
  }

  // MARK: What a read makes of the bytes

  private enum Verdict {
    case done(ReadOutcome)
    case failed(SocketError)
    case needs(Int)
  }

  /// What is at the front of the buffer, of something that has an end.
  private enum Front {
    /// A frame of so many bytes, of which these are wanted.
    case frame(length: Int, content: Range<Int>)
    /// It is not, or not yet.
    case none(Verdict)
  }

  private mutating func evaluate(_ kind: ReadKind, _ searched: inout Int) -> Verdict {
    switch kind {
    case .any(let limit):
      if !buffer.isEmpty { return .done(.bytes(buffer.take(min(limit, buffer.count)))) }
      return limit == 0 ? .done(.bytes([])) : missing(1, orEnd: true)
    case .peek(let limit):
      return buffer.isEmpty ? missing(1, orEnd: true) : .done(.bytes(Array(buffer.prefix(limit))))
    case .borrow(let seen):
      if buffer.count > seen { return .done(.borrow) }
      // At the end the reader looks once more, and may find that what is left is all it will get.
      return ending == nil ? .needs(1) : .done(.borrow)
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

  /// The most frames of a batch, and the most bytes but for its last frame: what is taken apart at a stroke keeps the others
  /// waiting.
  private static var largestBatch: (frames: Int, bytes: Int) { (1_024, 262_144) }

  // `takeFrame` takes a frame out, unless it is not what it should be.
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
          // It fails by itself: those before it must not be lost with it.
          return .done(batch.isEmpty ? .bytes(take(length, content, of: kind)) : outcome(batch))
        }
      }
    }
    return .done(outcome(batch))
  }

  /// Takes a line out, unless it is not UTF-8.
  private mutating func takeText(_ length: Int, _ content: Range<Int>, of kind: ReadKind) -> String? {
    let text = buffer.withBytes { try? String(copying: UTF8Span(validating: $0.extracting(content))) }
    guard let text else { return nil }
    noteEnding(of: kind, length)
    buffer.drop(length)
    return text
  }

  /// A line is about to be taken out. Whether a line feed belongs to it is not known before it comes.
  private mutating func noteEnding(of kind: ReadKind, _ length: Int) {
    if case .line(.any, _) = kind, length == buffer.count, buffer[length - 1] == 13 { dropsLineFeed = true }
  }

  /// Takes a frame out.
  private mutating func take(_ length: Int, _ content: Range<Int>, of kind: ReadKind) -> [UInt8] {
    noteEnding(of: kind, length)
    if content.lowerBound > 0 { buffer.drop(content.lowerBound) }
    let bytes = buffer.take(content.count)
    if length > content.upperBound { buffer.drop(length - content.upperBound) }
    return bytes
  }

  private func front(_ kind: ReadKind, _ searched: inout Int) -> Front {
    switch kind {
    case .exactly(let length, let orEnd):
      return buffer.count >= length
        ? .frame(length: length, content: 0..<length) : .none(missing(length - buffer.count, orEnd: orEnd))
    case .until(let delimiter, let maximum, let orEnd):
      return delimited(delimiter.bytes, maximum, &searched, orEnd: orEnd) { found, length in
        .frame(length: found + length, content: 0..<found + length)
      }
    case .line(.lf, let maximum):
      return delimited(Delimiter.lf.bytes, maximum, &searched, orEnd: true) { found, length in
        let end = found > 0 && buffer[found - 1] == 13 ? found - 1 : found
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
    case .any, .peek, .borrow, .batch:
      return .none(.needs(1))
    }
  }

  /// More bytes are needed; the end of the stream may have come instead.
  private func missing(_ count: Int, orEnd endIsNoError: Bool) -> Verdict {
    switch ending {
    case nil: .needs(count)
    case .failed(let error): .failed(error.during("read"))
    case .endOfStream:
      endIsNoError && buffer.isEmpty
        ? .done(.endOfStream)
        : .failed(SocketError(.endOfStream, operation: "read", bytesTransferred: buffer.count))
    }
  }

  private func delimited(
    _ delimiter: [UInt8], _ maximum: Int, _ searched: inout Int, orEnd: Bool,
    _ frame: (_ found: Int, _ length: Int) -> Front
  ) -> Front {
    // The last bytes that were searched may be the beginning of a delimiter.
    let start = searched - (delimiter.count - 1)
    if let found = buffer.firstIndex(of: delimiter, from: start, before: maximum) {
      return frame(found, delimiter.count)
    }
    searched = buffer.count
    return .none(buffer.count >= maximum ? tooLong(maximum) : missing(1, orEnd: orEnd))
  }

  private func anyLine(_ maximum: Int, _ searched: inout Int) -> Front {
    let limit = min(maximum, buffer.count)
    // Searched in growing parts: to look for the one through all there is, when the other is near, would be done for each line.
    var part = 256
    while searched < limit {
      let end = min(limit, searched + part)
      let lineFeed = buffer.firstIndex(of: [10], from: searched, before: end)
      let carriageReturn = buffer.firstIndex(of: [13], from: searched, before: lineFeed ?? end)
      if let found = carriageReturn ?? lineFeed {
        let isPair = carriageReturn != nil && found + 1 < buffer.count && buffer[found + 1] == 10
        return .frame(length: found + (isPair ? 2 : 1), content: 0..<found)
      }
      searched = end
      part *= 2
    }
    return .none(buffer.count >= maximum ? tooLong(maximum) : missing(1, orEnd: true))
  }

  private func tooLong(_ maximum: Int) -> Verdict {
    .failed(
      SocketError(
        .limitExceeded, operation: "read", detail: "no end of the message within the maximum of \(maximum) bytes"))
  }

  private func message(_ prefix: LengthPrefix, _ maximum: Int) -> Front {
    if buffer.count < prefix.width { return .none(missing(prefix.width - buffer.count, orEnd: true)) }
    guard let length = prefix.payloadLength(buffer.prefix(prefix.width)), length <= maximum else {
      return .none(
        .failed(
          SocketError(
            .limitExceeded, operation: "read",
            detail: "the message's length prefix is not a length of at most \(maximum) bytes")))
    }
    // With a maximum near `Int.max`, a peer may announce a length that overflows here. No machine has that much memory.
    let (total, overflows) = prefix.width.addingReportingOverflow(length)
    if overflows { return .none(tooLong(maximum)) }
    if buffer.count < total { return .none(missing(total - buffer.count, orEnd: false)) }
    return .frame(length: total, content: prefix.width..<total)
  }
}

extension ReadQueue.Entry: Identified {}

extension ReadQueue: LaneQueue {
  static var share: Share { .stream }
  var firstID: UInt64? { first?.id }
}
