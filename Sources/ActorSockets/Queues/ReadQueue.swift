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
// - `.begin` is said once of each entry, when it becomes the first of an open stream.
// - A delimiter is searched for only in bytes that were not searched before for the same entry.
// - `.receive` is said only while an entry wants bytes: nothing is read from the kernel that no read asked for.
// - An entry that has the turn (`withBytes`) blocks the others until `endTurn`.
// - When a read fails or is taken back, the enqueued ones behind it fail too: they would parse the wrong bytes.

/// What a read asks for.
package enum ReadKind: Sendable {
  /// What there is, at least one byte.
  case any(upTo: Int)
  /// The same, left in the buffer.
  case peek(upTo: Int)
  /// So many bytes. `orEnd`: the end of the stream in place of the first one is no error.
  case exactly(Int, orEnd: Bool = false)
  /// Everything through a delimiter. `orEnd` as above.
  case until(Delimiter, maximumLength: Int, orEnd: Bool = false)
  /// A line of text; the ending is taken off.
  case line(LineEnding, maximumLength: Int)
  /// A message with its length in front, which is taken off.
  case message(LengthPrefix, maximumLength: Int)
  /// The right to look at the bytes, as soon as there are more than so many.
  case turn(moreThan: Int)
}

/// What a read brought.
package enum ReadOutcome: Sendable {
  /// Bytes.
  case bytes([UInt8])
  /// The end of the stream, where that is no error.
  case endOfStream
  /// The right to look at the bytes.
  case turn
}

/// What came of an operation of either queue.
package enum OperationOutcome: Sendable {
  /// What a read brought.
  case read(ReadOutcome)
  /// A write is done.
  case written
  /// What a receive brought; nothing if it may look at what there is.
  case datagrams([Datagram])
}

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
    let tag: Tag
    fileprivate var searched = 0
    fileprivate var isBegun = false
    /// It may look at the bytes; nobody else does meanwhile.
    fileprivate var hasTurn = false
    /// It gets the turn before there are bytes.
    fileprivate var getsTurn = false

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
  private var doomed = FIFO<Entry>()
  /// The entries made by an `enqueue…` method.
  private var enqueuedCount = 0
  /// Why all that waits fails, if so.
  private(set) var refusal: SocketError?
  private var nextID: ID = 0
  /// A line ended with a carriage return: a line feed that comes next belongs to it.
  private var dropsLineFeed = false

  /// The number of reads that wait.
  var count: Int { entries.count }
  /// Whether all that waits fails.
  var isRefusing: Bool { refusal != nil }
  /// The first read.
  var first: Entry? { entries.first }
  /// All reads that wait, in order.
  var all: [Entry] { entries.all }
  /// The bytes that the read whose turn it is has seen already.
  var turnHasSeen: Int {
    if case .turn(let seen)? = entries.first?.kind { seen } else { 0 }
  }

  // MARK: Events

  /// Puts a read at the end.
  mutating func admit(_ kind: ReadKind, isEnqueued: Bool, _ tag: Tag) -> ID {
    nextID += 1
    entries.append(Entry(id: nextID, kind: kind, isEnqueued: isEnqueued, tag: tag))
    if isEnqueued { enqueuedCount += 1 }
    return nextID
  }

  /// Puts a read at the end that has left before, and that nobody holds any more.
  ///
  /// - Returns: Its number, and whether all that it can do is wait for the first byte. Then it has begun, and no step is
  ///   needed before that byte comes.
  mutating func admit(again entry: Entry, _ kind: ReadKind) -> (id: ID, waits: Bool) {
    nextID += 1
    entry.id = nextID
    entry.kind = kind
    entry.searched = 0
    entry.isBegun = false
    entry.hasTurn = false
    entry.getsTurn = false
    entries.append(entry)
    if entry.isEnqueued { enqueuedCount += 1 }
    guard isOpen, entries.count == 1, isIdle, case .any = kind else { return (nextID, false) }
    entry.isBegun = true
    return (nextID, true)
  }

  /// There are no bytes, no end, and no failures to tell.
  @inline(__always)
  private var isIdle: Bool { buffer.isEmpty && ending == nil && refusal == nil && doomed.isEmpty && !dropsLineFeed }

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
    guard let index = entries.index(of: id), !entries[index].hasTurn else { return nil }
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
      if case .turn = first.kind { first.kind = .turn(moreThan: 0) }
    }
    return buffer.take(buffer.count)
  }

  /// Gives the turn to the first read although no bytes are there, for it receives them itself.
  ///
  /// - Returns: Whether the read is one that wants the turn; then the next step finishes it.
  mutating func grantTurn(_ id: ID) -> Bool {
    // The line feed that belongs to a line before must be dropped before anybody sees it.
    guard !dropsLineFeed, let first = entries.first, first.id == id, case .turn(moreThan: 0) = first.kind else {
      return false
    }
    first.getsTurn = true
    return true
  }

  /// The read that had the turn gives it back.
  ///
  /// - Parameters:
  ///   - id: The read.
  ///   - consumed: The bytes that it used up, from the front of the buffer.
  ///   - seen: If it is not finished: the number of bytes it has seen without success.
  ///   - failed: It failed; the enqueued reads behind it fail too.
  /// - Returns: What was kept with it, if it is finished.
  mutating func endTurn(_ id: ID, consumed: Int, waitingForMoreThan seen: Int?, failed: Bool = false) -> Tag? {
    guard let entry = entries.first, entry.id == id, entry.hasTurn else { return nil }
    buffer.drop(consumed)
    if let seen {
      entry.kind = .turn(moreThan: seen)
      entry.hasTurn = false
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
    if let entry = doomed.popFirst() {
      return .finish(entry, .failure(SocketError(.precedingReadFailed, operation: "read")))
    }
    guard let first = entries.first, !first.hasTurn else { return .idle }
    if let refusal { return .finish(leave(0), .failure(refusal)) }
    if !isOpen { return .idle }
    if !first.isBegun {
      first.isBegun = true
      return .begin(first.id, first.tag)
    }
    if first.getsTurn {
      first.hasTurn = true
      return .finish(first, .success(.turn))
    }
    switch evaluate(first.kind, &first.searched) {
    case .done(.turn):
      first.hasTurn = true
      return .finish(first, .success(.turn))
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
      doomed.append(entry)
    }
  }

  // MARK: What a read makes of the bytes

  private enum Verdict {
    case done(ReadOutcome)
    case failed(SocketError)
    case needs(Int)
  }

  private mutating func evaluate(_ kind: ReadKind, _ searched: inout Int) -> Verdict {
    switch kind {
    case .any(let limit):
      if !buffer.isEmpty { return .done(.bytes(buffer.take(min(limit, buffer.count)))) }
      return limit == 0 ? .done(.bytes([])) : missing(1, orEnd: true)
    case .peek(let limit):
      return buffer.isEmpty ? missing(1, orEnd: true) : .done(.bytes(Array(buffer.prefix(limit))))
    case .turn(let seen):
      if buffer.count > seen { return .done(.turn) }
      // At the end the reader looks once more, and may find that what is left is all it will get.
      return ending == nil ? .needs(1) : .done(.turn)
    case .exactly(let length, let orEnd):
      return buffer.count >= length ? .done(.bytes(buffer.take(length))) : missing(length - buffer.count, orEnd: orEnd)
    case .until(let delimiter, let maximum, let orEnd):
      return evaluateDelimited(delimiter.bytes, maximum, &searched, orEnd: orEnd) { buffer, start, length in
        buffer.take(start + length)
      }
    case .line(.lf, let maximum):
      return evaluateDelimited(Delimiter.lf.bytes, maximum, &searched, orEnd: true) { buffer, start, length in
        var line = buffer.take(start + length)
        line.removeLast(line.count > 1 && line[line.count - 2] == 13 ? 2 : 1)
        return line
      }
    case .line(.crlf, let maximum):
      return evaluateDelimited(Delimiter.crlf.bytes, maximum, &searched, orEnd: true) { buffer, start, length in
        var line = buffer.take(start + length)
        line.removeLast(length)
        return line
      }
    case .line(.any, let maximum):
      return evaluateAnyLine(maximum, &searched)
    case .message(let prefix, let maximum):
      return evaluateMessage(prefix, maximum)
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

  private mutating func evaluateDelimited(
    _ delimiter: [UInt8], _ maximum: Int, _ searched: inout Int, orEnd: Bool,
    _ take: (inout ByteQueue, _ start: Int, _ length: Int) -> [UInt8]
  ) -> Verdict {
    // The last bytes that were searched may be the beginning of a delimiter.
    let start = searched - (delimiter.count - 1)
    if let found = buffer.firstIndex(of: delimiter, from: start, before: maximum) {
      return .done(.bytes(take(&buffer, found, delimiter.count)))
    }
    searched = buffer.count
    return buffer.count >= maximum ? tooLong(maximum) : missing(1, orEnd: orEnd)
  }

  private mutating func evaluateAnyLine(_ maximum: Int, _ searched: inout Int) -> Verdict {
    let lineFeed = buffer.firstIndex(of: [10], from: searched, before: maximum)
    let carriageReturn = buffer.firstIndex(of: [13], from: searched, before: lineFeed ?? maximum)
    guard let end = carriageReturn ?? lineFeed else {
      searched = buffer.count
      return buffer.count >= maximum ? tooLong(maximum) : missing(1, orEnd: true)
    }
    var length = end + 1
    if carriageReturn != nil {
      if length == buffer.count {
        dropsLineFeed = true
      } else if buffer[length] == 10 {
        length += 1
      }
    }
    var line = buffer.take(length)
    line.removeLast(length - end)
    return .done(.bytes(line))
  }

  private func tooLong(_ maximum: Int) -> Verdict {
    .failed(
      SocketError(
        .limitExceeded, operation: "read", detail: "no end of the message within the maximum of \(maximum) bytes"))
  }

  private mutating func evaluateMessage(_ prefix: LengthPrefix, _ maximum: Int) -> Verdict {
    if buffer.count < prefix.width { return missing(prefix.width - buffer.count, orEnd: true) }
    guard let length = prefix.payloadLength(buffer.prefix(prefix.width)), length <= maximum else {
      return .failed(
        SocketError(
          .limitExceeded, operation: "read",
          detail: "the message's length prefix is not a length of at most \(maximum) bytes"))
    }
    // No overflow: the length is at most `maximum`, which is far below `Int.max` (see `ReadKind.validate`).
    let total = prefix.width + length
    if buffer.count < total { return missing(total - buffer.count, orEnd: false) }
    buffer.drop(prefix.width)
    return .done(.bytes(buffer.take(length)))
  }
}

extension ReadQueue.Entry: Identified {}

extension ReadKind {
  /// Throws `.invalidArgument` for what can never succeed.
  func validate() throws(SocketError) {
    switch self {
    case .any(let limit), .peek(let limit):
      if limit <= 0 { throw .invalid("read", "up to \(limit) bytes is nothing, ask for at least one") }
    case .exactly(let length, let orEnd):
      // Messages of no bytes would come for ever.
      if length < (orEnd ? 1 : 0) { throw .invalid("read", "\(length) is not a length") }
    case .until(let delimiter, let maximum, _):
      if delimiter.bytes.isEmpty { throw .invalid("read", "the delimiter is empty") }
      if maximum < delimiter.bytes.count {
        throw .invalid("read", "the maximum of \(maximum) has no room for a delimiter")
      }
    case .line(let ending, let maximum):
      if maximum < (ending == .crlf ? 2 : 1) {
        throw .invalid("read", "the maximum of \(maximum) has no room for a line")
      }
    case .message(_, let maximum):
      if maximum < 0 || maximum > Int.max - 8 { throw .invalid("read", "\(maximum) is not a maximum length") }
    case .turn:
      break
    }
  }
}
