internal import EpollReactor

// The read queue, a pure machine. It serves TCP, TLS and in-memory streams. It never calls the kernel, reads a clock or suspends.
// Bytes and reads go in. `step()` says what to do next; the owner calls it until it says `.idle`, or asks for bytes and
// nothing can be received.
//
// The first read is the only one that the queue works on:
//
//     .notBegun ── step: begin ───▶ .waiting ── step: finish, finishAny ▶ leaves
//         │                          │  ▲  │
//         │                lendEarly │  │  │ step: finish with a borrow, parse
//         │                          ▼  │  │
//         │                     .lending│  │
//         │         step: finish │      │ endBorrow, endParse: waits for more bytes
//         │                      ▼      │  ▼
//         └── lend (*) ────────▶ .borrowing ── endBorrow, endParse: is done ▶ leaves
//
// (*) also from `.waiting`, for a read that `admitSpare` has just begun
//
// - When the first read leaves, the next one is the first, and has not begun.
// - `admitSpare` also moves a read from `.notBegun` to `.waiting` if it can only wait for its first byte. No step says so.
// - `remove` and a refusal take the first read out of every state but `.borrowing`. A read that borrows leaves through `endBorrow`
//   or `endParse` only, because code of the program may be looking at the bytes.
//
// Invariants:
// - Only the first read is evaluated. It takes bytes only when it can be finished, so a read that is removed before leaves all its
//   bytes to the next one.
// - Every entry leaves exactly once: in a `.finish` step, or through `finishAny`, `remove`, `endBorrow` or `endParse`.
// - `step` says `.begin` once for each read, unless `admitSpare` or `lend` has begun it.
// - `step` says `.receive` or `.receiveAny` only while a read wants bytes: nothing is received that no read asked for.
// - While a read borrows the buffer, nothing else gets bytes.
// - While a loop may take elements that are in the buffer (`lookahead`), no read waits: a read that is admitted takes them back first.
// - When a read fails or is removed, the enqueued reads after it fail too: they would parse the wrong bytes.

enum FirstRead: CaseIterable {
  /// It has not begun, or no read waits.
  case notBegun
  case waiting
  /// It has begun. The next step lends it the empty buffer, and the caller receives the bytes directly.
  case lending
  case borrowing
}

/// The reads of one stream. `Tag` is what the owner of the machine keeps with each.
struct ReadQueue<Tag> {
  typealias ID = UInt64

  /// A read that waits. A class, so that the queue moves one word.
  final class Entry {
    fileprivate(set) var id: ID
    var kind: ReadKind
    /// Whether an `enqueue…` method made it: then it relies on the reads before it.
    let isEnqueued: Bool
    let tag: Tag
    /// The bytes that were searched for the end of what it asks for. A parser is called once there are more bytes than these.
    ///
    /// It is not checked, as the lanes of `StreamCore`: 80 instructions of an echo.
    #if !DEBUG && !ACTORSOCKETS_PLAIN
      @safe @exclusivity(unchecked)
    #endif
    var searched = 0
    /// The state of its parser, if a part of its message has arrived.
    var parserState: AnyObject?

    fileprivate init(id: ID, kind: ReadKind, isEnqueued: Bool, tag: Tag) {
      self.id = id
      self.kind = kind
      self.isEnqueued = isEnqueued
      self.tag = tag
    }

    /// Releases the parser and its state, which may refer to the stream. The entry has left the queue.
    func forgetParser() {
      parserState = nil
      if kind.parses { kind = .any(upTo: 0) }
    }
  }

  enum Step {
    /// The read left the queue with this result. A read whose outcome is a borrow stays in the queue until `endBorrow`.
    case finish(Entry, Result<ReadOutcome, SocketError>)
    /// The parser of the first read looks at the buffer, until `endParse`.
    case parse(Entry, ErasedParser, isBatch: Bool)
    /// The read has become the first of an open stream: its time starts.
    case begin(ID, Tag)
    /// The first read has `have` bytes and lacks `wanted` more. Receive into the buffer (`lendBuffer`).
    case receive(ID, have: Int, wanted: Int)
    /// The first read takes whatever arrives next, and the buffer is empty. Receive elsewhere, and offer the bytes (`finishAny`).
    case receiveAny(ID)
    case idle
  }

  private enum Phase {
    case opening
    case open
    /// As `open`, until a first read of a line or message is idle (`endIfIdle`).
    case draining
    /// As `draining`, and reads of bytes that are neither lines nor messages are idle too. A case of its own, because a second
    /// payload would make each look at the phase dearer.
    case drainingAll
    case refusing(SocketError)
  }

  var arrived = ReadBuffer()
  private var phase = Phase.opening
  var firstRead = FirstRead.notBegun
  var lookaheadLimit = LookaheadLimit(1)
  var entries = FIFO<Entry>()
  /// Reads that fail because a read before them did, the last one first. Each leaves in one of the next steps.
  var failedByPredecessor: [Entry] = []
  /// The entries that an `enqueue…` method made, so that they are found without a look at all the others.
  private var enqueued = FIFO<Entry>()
  private var nextID: ID = 0
  /// An entry that has left, with its tag, for the next read: most streams have one read at a time.
  private var spare: Entry?
  var lookahead: Lookahead?

  @inline(__always)
  var buffer: ByteQueue { arrived.bytes }
  @inline(__always)
  var ending: StreamEnding? { arrived.ending }
  var count: Int { entries.count }
  var first: Entry? { entries.first }
  var all: [Entry] { entries.all }
  func first(_ limit: Int, where isWanted: (Entry) -> Bool) -> [Entry] { entries.first(limit, where: isWanted) }
  var refusal: SocketError? { if case .refusing(let error) = phase { error } else { nil } }
  @inline(__always)
  var isRefusing: Bool { if case .refusing = phase { true } else { false } }
  @inline(__always)
  var isOpen: Bool { if case .open = phase { true } else { false } }
  private var isOpening: Bool { if case .opening = phase { true } else { false } }

  func tag(of id: ID) -> Tag? { entries.index(of: id).map { entries[$0].tag } }

  // MARK: Reads

  mutating func admit(_ kind: ReadKind, isEnqueued: Bool, _ tag: Tag) -> ID {
    reclaimLookahead()
    nextID += 1
    let entry = Entry(id: nextID, kind: kind, isEnqueued: isEnqueued, tag: tag)
    entries.append(entry)
    if isEnqueued { enqueued.append(entry) }
    assertInvariants()
    return nextID
  }

  /// Keeps an entry that has left, and that nothing else refers to, for `admitSpare`.
  mutating func keep(_ entry: Entry) { spare = entry }

  /// As `admit`, but in the entry that `keep` has kept, without an allocation. `nil` if there is no such entry. If the read can only
  /// wait for its first byte (`waits`), it has begun, and no step is needed before that byte arrives.
  mutating func admitSpare(_ kind: ReadKind) -> (entry: Entry, waits: Bool)? {
    reclaimLookahead()
    guard let entry = spare.take() else { return nil }
    nextID += 1
    assert(entry.parserState == nil && !entry.kind.parses, "a parser ends with its message")
    entry.id = nextID
    entry.kind = kind
    entry.searched = 0
    entries.append(entry)
    if entry.isEnqueued { enqueued.append(entry) }
    guard isOpen, entries.count == 1, arrived.isAwaitingBytes, failedByPredecessor.isEmpty else {
      return (entry, false)
    }
    switch kind {
    case .any, .borrow(moreThan: 0):
      firstRead = .waiting
      return (entry, true)
    default: return (entry, false)
    }
  }

  /// A read that borrows the buffer stays. The enqueued reads after the removed one fail.
  mutating func remove(_ id: ID) -> Entry? {
    guard let index = entries.index(of: id), index != entries.startIndex || firstRead != .borrowing else { return nil }
    failEnqueued(after: id)
    return entries.index(of: id).map { leave($0) }
  }

  /// Removes a read without failing the enqueued reads after it: they do not depend on it.
  mutating func withdraw(_ id: ID) -> Entry? {
    guard let index = entries.index(of: id), index != entries.startIndex || firstRead != .borrowing else { return nil }
    return leave(index)
  }

  mutating func leaveFirst() -> Entry { leave(entries.startIndex) }

  private mutating func leave(_ index: FIFO<Entry>.Index) -> Entry {
    if index == entries.startIndex { firstRead = .notBegun }
    let entry = entries.remove(at: index)
    if entry.isEnqueued, let index = enqueued.index(of: entry.id) { enqueued.remove(at: index) }
    assertInvariants()
    return entry
  }

  mutating func failEnqueued(after id: ID) {
    var failed: [Entry] = []
    while let last = enqueued.last, last.id > id, let index = entries.index(of: last.id) { failed.append(leave(index)) }
    if !failed.isEmpty { failedByPredecessor.insert(contentsOf: failed, at: 0) }
  }

  @inline(__always)
  private func assertInvariants() {
    assert(firstRead == .notBegun || !entries.isEmpty, "only a read can begin")
    assert(firstRead == .notBegun || !isOpening, "a read begins when the stream is up")
    assert(enqueued.count <= entries.count, "enqueued reads are a part of all reads")
    // A long queue would make this check expensive.
    assert(
      entries.count > 4 || enqueued.count == all.count(where: \.isEnqueued), "the number of enqueued reads is wrong")
  }

  // MARK: The stream

  mutating func open() { if case .opening = phase { phase = .open } }

  /// Lets the owner end the stream when the first read is idle. From now on all reads go through the steps, because the fast paths do
  /// not check for idle reads.
  mutating func drain(all: Bool) {
    switch phase {
    case .open, .draining: phase = all ? .drainingAll : .draining
    case .opening, .drainingAll, .refusing: break
    }
  }

  /// Fails all reads, including later ones. The first refusal stays, and so do the bytes, for `takeBuffered`.
  mutating func refuse(_ error: SocketError) {
    reclaimLookahead()
    if !isRefusing { phase = .refusing(error) }
  }

  mutating func received(_ bytes: Span<UInt8>) { arrived.append(bytes) }

  /// Moves the buffer out, so that the owner receives into it. Nothing else may happen until `giveBack`.
  mutating func lendBuffer() -> ByteQueue { arrived.lend() }

  mutating func giveBack(_ lent: consuming ByteQueue) { arrived.giveBack(lent) }

  mutating func end(_ ending: StreamEnding) { arrived.end(ending) }

  /// Returns no bytes while a read borrows them.
  mutating func takeBuffered() -> [UInt8] {
    if firstRead == .borrowing { return [] }
    reclaimLookahead()
    if let first = entries.first {
      first.searched = 0
      first.parserState = nil
      // The bytes that a borrow has seen leave the buffer: it sees any byte that arrives.
      if case .borrow(let seen) = first.kind, seen > 0 { first.kind = .borrow(moreThan: 0) }
    }
    return arrived.takeAll()
  }

  // MARK: Steps

  mutating func step() -> Step {
    if !failedByPredecessor.isEmpty, let entry = failedByPredecessor.popLast() {
      return .finish(entry, .failure(SocketError(.precedingReadFailed, operation: "read")))
    }
    guard let first = entries.first, firstRead != .borrowing else { return .idle }
    switch phase {
    case .opening: return .idle
    case .open, .draining, .drainingAll: break
    case .refusing(let error): return .finish(leaveFirst(), .failure(error))
    }
    switch firstRead {
    case .notBegun:
      firstRead = .waiting
      return .begin(first.id, first.tag)
    case .lending:
      firstRead = .borrowing
      return .finish(first, .success(.borrow))
    case .waiting, .borrowing: break
    }
    if arrived.isAwaitingBytes, case .any(let limit) = first.kind, limit > 0 { return .receiveAny(first.id) }
    return evaluate(first)
  }

  private mutating func evaluate(_ first: Entry) -> Step {
    assert(firstRead == .waiting, "only a read that waits is evaluated")
    assert(lookahead == nil, "a read gets no byte that a loop may take")
    let available = buffer.count
    switch arrived.evaluate(first.kind, &first.searched) {
    case .done(.borrow):
      firstRead = .borrowing
      return .finish(first, .success(.borrow))
    case .done(let outcome):
      return .finish(leaveFirst(), .success(outcome))
    case .parse(let parser, let isBatch):
      firstRead = .borrowing
      first.searched = available
      return .parse(first, parser, isBatch: isBatch)
    case .failed(let error):
      assert(buffer.count == available, "a read that fails leaves all bytes")
      let entry = leaveFirst()
      failEnqueued(after: entry.id)
      return .finish(entry, .failure(error))
    case .needs(let wanted):
      assert(buffer.count == available, "a read that waits leaves all bytes")
      assert(first.searched < available + wanted && wanted > 0, "a read waits for bytes that it has not searched")
      return .receive(first.id, have: buffer.count, wanted: wanted)
    }
  }

  /// Finishes the read of a `.receiveAny` step with bytes that never enter the buffer. Returns `nil` if the read asks for fewer bytes:
  /// then they belong in the buffer.
  mutating func finishAny(_ count: Int) -> Entry? {
    guard case .any(let limit)? = entries.first?.kind, count <= limit else { return nil }
    return leaveFirst()
  }
}

// MARK: - Draining

extension ReadQueue {
  @inline(__always)
  var isDraining: Bool {
    switch phase {
    case .draining, .drainingAll: true
    case .opening, .open, .refusing: false
    }
  }

  /// Call it when there is nothing to receive. The first read is idle if it waits for the first byte of a line or message, and may
  /// find the end instead. This read and all later ones of this kind find an end, so no read takes bytes that were meant for an earlier
  /// one. Reads that need the peer's own end fail.
  mutating func endIfIdle() -> Bool {
    guard isDraining, firstRead == .waiting, buffer.isEmpty, ending == nil, let first = entries.first,
      first.kind.mayFindEnd
    else { return false }
    if case .draining = phase, !first.kind.isFramed { return false }
    arrived.end(.drained)
    return true
  }
}

extension ReadQueue.Entry: Identified {}

extension ReadQueue: LaneQueue {
  static var budget: Budget { .stream }
  var firstID: UInt64? { first?.id }
}
