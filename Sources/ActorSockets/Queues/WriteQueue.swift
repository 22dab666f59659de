// The write queue, a pure state machine, which corresponds to the read queue.
//
// Invariants:
// - Bytes are sent in the order of the entries. The bytes of two entries never mix.
// - Every entry leaves exactly once, in a `.finish` or `.acknowledge` step or through `remove`. Its tag may leave earlier.
//   `remove` does this for a write that is partly sent: the rest is still sent, although no call waits for it. `abandon` does
//   this for any write, and never takes bytes back.
// - `.begin` is returned once for each entry, when it becomes the first of an open stream.
// - After a half-close no bytes are admitted; a later write fails with `.closed`.
// - Buffered bytes, which no call waits for, are those of writes that were taken while no entry was queued. They become an entry when one
//   is admitted after them, when a step finds them, or when only a part of them could be sent. So there are never both.
// - `queuedBytes` is the sum of the unsent bytes of all entries and of the buffered bytes; `queuedFileBytes` is the part of it that is in
//   files.

/// The writes of one stream. `Tag` is what the owner of the queue stores with each write.
struct WriteQueue<Tag> {
  typealias ID = UInt64

  enum Content {
    case pieces([[UInt8]])
    case file(FileSource, from: Int, count: Int)
    case passing([UInt8], PassedDescriptor)
    /// No bytes: waits until the peer has acknowledged everything before.
    case acknowledgement
    /// The half-close.
    case finish
  }

  /// A write in the queue. A class, so that the queue moves only one word.
  final class Entry {
    let id: ID
    fileprivate var content: Content
    /// In bytes, including `sentBefore`.
    let total: Int
    /// `nil` if no call waits for the write any more.
    fileprivate(set) var tag: Tag?
    /// The number of bytes that the transport took.
    fileprivate(set) var sent: Int
    /// The number of these bytes that were sent before the entry was queued. The pieces begin after them.
    fileprivate let sentBefore: Int
    fileprivate var isBegun = false
    var isFinish: Bool { if case .finish = content { true } else { false } }
    var isFlush: Bool { if case .acknowledgement = content { true } else { false } }
    fileprivate var isFile: Bool { if case .file = content { true } else { false } }

    fileprivate init(id: ID, content: Content, total: Int, tag: Tag?, sent: Int) {
      self.id = id
      self.content = content
      self.total = total
      self.tag = tag
      self.sent = sent
      sentBefore = sent
    }
  }

  enum Step {
    /// The write left the queue with this result. Without a tag, no call waits for it.
    case finish(Tag?, Result<Void, SocketError>)
    /// The write became the first, and its time starts.
    case begin(ID, Tag?)
    /// Everything before is sent. The entry left the queue; its outcome follows with the peer's acknowledgement.
    case acknowledge(ID, Tag?)
    /// Send the bytes that `unsent` returns.
    case send
    case sendFile(FileSource, from: Int, count: Int)
    /// A descriptor is passed with the first of these bytes: send them, then call `passed()` and `sent`.
    case pass([UInt8], PassedDescriptor)
    /// Everything before the half-close is sent: shut down the sending side, then call `finished()`.
    case shutDown
    case idle
  }

  private var entries = FIFO<Entry>()
  private var refusal: SocketError?
  private(set) var isOpen = false
  /// A half-close was admitted.
  private(set) var isFinishing = false
  /// The half-close was carried out.
  private(set) var isFinished = false
  /// The bytes that the transport had taken and not sent when the queue was refused.
  private var unsentCiphertext = 0
  private(set) var queuedBytes = 0
  private(set) var queuedFileBytes = 0
  /// The number of writes that a call waits for.
  private(set) var waiting = 0
  private var nextID: ID = 0
  /// The number of pieces of the first entry that are completely sent, and the number of bytes sent of the next piece.
  private var sentPieces = 0
  private var offset = 0
  private(set) var buffered: [UInt8] = []
  /// The calls of small writes return when their bytes are buffered. A copy of the option: reading the options of the stream would cost
  /// each write 50 instructions.
  var buffersWrites = false

  /// Larger writes are sent at once, while their bytes are in the processor's caches. Over TLS it is the largest record.
  static var mostBuffered: Int { 16_384 }

  /// Without buffered bytes.
  var count: Int { entries.count }
  var isEmpty: Bool { entries.isEmpty && buffered.isEmpty }
  /// Whether a new write can be sent at once.
  var isFree: Bool { isEmpty && !isFinishing }
  var isRefusing: Bool { refusal != nil }
  var isUnderWay: Bool { refusal == nil && entries.first?.isBegun == true }
  var first: Entry? { entries.first }
  var all: [Entry] { entries.all }
  func first(_ limit: Int, where isWanted: (Entry) -> Bool) -> [Entry] { entries.first(limit, where: isWanted) }

  // MARK: Events

  /// Whether `buffer` may be called with this many bytes.
  func canBuffer(_ count: Int) -> Bool {
    entries.isEmpty && !isFinishing && refusal == nil && count <= Self.mostBuffered - buffered.count
  }

  mutating func buffer(_ bytes: [UInt8]) {
    assert(canBuffer(bytes.count) && !bytes.isEmpty)
    if buffered.isEmpty { buffered = bytes } else { buffered += bytes }
    queuedBytes += bytes.count
  }

  /// `count` of the buffered bytes were sent. Unless `isDone`, an entry stands for them until everything is sent.
  mutating func sentBuffered(_ count: Int, isDone: Bool) {
    if isDone {
      assert(count == buffered.count)
      queuedBytes -= count
      buffered = []
    } else {
      queueBuffered()
      sent(count)
    }
  }

  private mutating func queueBuffered() {
    if buffered.isEmpty { return }
    nextID += 1
    entries.append(Entry(id: nextID, content: .pieces([buffered]), total: buffered.count, tag: nil, sent: 0))
    buffered = []
  }

  /// Adds a write at the end. `sent` bytes of it, which are not in the pieces, were already sent without queueing.
  mutating func admit(_ content: Content, alreadySent sent: Int = 0, _ tag: Tag?) -> ID {
    let wasFinishing = isFinishing
    queueBuffered()
    nextID += 1
    var content = content
    var count = 0
    switch content {
    case .pieces(let pieces):
      count = pieces.reduce(0) { $0 + $1.count }
      // Remove empty pieces. If they filled a gathered send, it would transfer no bytes, again and again.
      if pieces.contains(where: { $0.isEmpty }) { content = .pieces(pieces.filter { !$0.isEmpty }) }
    case .file(_, from: _, let length):
      count = length
      queuedFileBytes += length
    case .passing(let bytes, _): count = bytes.count
    case .acknowledgement: break
    case .finish: isFinishing = true
    }
    entries.append(Entry(id: nextID, content: content, total: sent + count, tag: tag, sent: sent))
    queuedBytes += count
    if tag != nil { waiting += 1 }
    assert(!wasFinishing || count == 0 || isRefusing, "bytes were admitted after the half-close")
    assertInvariants()
    return nextID
  }

  mutating func open() { isOpen = true }

  /// Fails all writes, including later ones. The transport took `unsentCiphertext` bytes and will never send them: a write with such
  /// bytes has not succeeded.
  mutating func refuse(_ error: SocketError, unsentCiphertext: Int = 0) {
    if refusal != nil { return }
    refusal = error
    self.unsentCiphertext = unsentCiphertext
  }

  mutating func sent(_ count: Int) {
    queuedBytes -= count
    var rest = count
    var next = entries.firstIndex
    while let index = next {
      let entry = entries[index]
      let left = entry.total - entry.sent
      let part = min(left, rest)
      entry.sent += part
      if entry.isFile { queuedFileBytes -= part }
      rest -= part
      if index == entries.startIndex { advance(by: part) }
      if part < left || rest == 0 { return assertInvariants() }
      // The next entry may be partly sent before this one leaves. Its position is computed when it becomes the first.
      next = entries.index(after: index)
    }
    assert(rest == 0, "more bytes were sent than the queue has")
  }

  /// The kernel took the descriptor of the first write. The remaining bytes are sent like any others.
  mutating func passed() {
    guard let first = entries.first, case .passing(let bytes, _) = first.content else { return }
    first.content = .pieces([bytes])
  }

  mutating func finished() { isFinished = true }

  /// Removes a write if no byte of it is sent. Otherwise removes only its tag; also of a half-close, which is carried out anyway.
  mutating func remove(_ id: ID) -> (tag: Tag, sent: Int)? {
    guard let index = entries.index(of: id), let tag = entries[index].tag.take() else { return nil }
    waiting -= 1
    let sent = entries[index].sent
    if case .finish = entries[index].content { return (tag, 0) }
    if sent > 0 { return (tag, sent) }
    if index == entries.startIndex {
      // An entry of no bytes may be first while the next one is partly sent.
      _ = leave()
    } else {
      forget(entries.remove(at: index))
    }
    return (tag, sent)
  }

  mutating func abandon(_ id: ID) -> Tag? {
    guard let index = entries.index(of: id), let tag = entries[index].tag.take() else { return nil }
    waiting -= 1
    return tag
  }

  /// Whether the write is in the queue, and no byte of it is sent.
  func isUntouched(_ id: ID) -> Bool { entries.index(of: id).map { entries[$0].sent == 0 } ?? false }

  func tag(of id: ID) -> Tag? { entries.index(of: id).flatMap { entries[$0].tag } }

  // MARK: Actions

  /// Call it until it returns `.idle`, or until it returns `.send` and nothing can be sent.
  mutating func step() -> Step {
    queueBuffered()
    guard let first = entries.first else { return .idle }
    // A write that the kernel has taken completely has succeeded, even if the stream broke before the entry left the queue.
    if var refusal, first.total == 0 || first.sent < first.total || unsentCiphertext > 0 {
      refusal.bytesTransferred = first.sent
      return .finish(leave().tag, .failure(refusal))
    }
    if !isOpen { return .idle }
    if !first.isBegun {
      first.isBegun = true
      return .begin(first.id, first.tag)
    }
    switch first.content {
    case .pieces: return first.sent == first.total ? .finish(leave().tag, .success(())) : .send
    case .passing(let bytes, let descriptor): return .pass(bytes, descriptor)
    case .file(let file, let offset, let count):
      if first.sent == first.total { return .finish(leave().tag, .success(())) }
      return .sendFile(file, from: offset + first.sent, count: count - first.sent)
    case .finish: return isFinished ? .finish(leave().tag, .success(())) : .shutDown
    case .acknowledgement: return .acknowledge(first.id, leave().tag)
    }
  }

  private mutating func forget(_ entry: Entry) {
    let rest = entry.total - entry.sent
    queuedBytes -= rest
    if entry.isFile { queuedFileBytes -= rest }
  }

  @inline(__always)
  private func assertInvariants() {
    assert(0 <= queuedFileBytes && queuedFileBytes <= queuedBytes, "the bytes in files are a part of the queued bytes")
    assert(0 <= waiting && waiting <= entries.count, "each write that a call waits for is in the queue")
    // A long queue would make this check expensive.
    assert(
      entries.count > 4 || queuedBytes == all.reduce(0) { $0 + $1.total - $1.sent },
      "the number of queued bytes is wrong")
  }

  private mutating func leave() -> Entry {
    let entry = entries.remove(at: entries.startIndex)
    forget(entry)
    if entry.tag != nil { waiting -= 1 }
    sentPieces = 0
    offset = 0
    if let next = entries.first, next.sent > next.sentBefore { advance(by: next.sent - next.sentBefore) }
    assertInvariants()
    return entry
  }

  private mutating func advance(by count: Int) {
    guard case .pieces(let pieces)? = entries.first?.content else { return }
    var rest = count
    while rest > 0 {
      let left = pieces[sentPieces].count - offset
      if rest < left {
        offset += rest
        return
      }
      rest -= left
      offset = 0
      sentPieces += 1
    }
  }

  /// The unsent pieces of the first write and of later ones, so that one system call can send them all. No write is added after the
  /// first `maximumBytes` bytes. `offset` bytes of the first piece are already sent.
  func unsent(
    maximumPieces: Int, maximumBytes: Int, where mayBeSent: (Tag?) -> Bool = { _ in true }
  ) -> (pieces: ArraySlice<[UInt8]>, offset: Int) {
    guard case .pieces(let pieces)? = entries.first?.content else { return ([], 0) }
    let rest = pieces[min(sentPieces, pieces.count)...].prefix(maximumPieces)
    if entries.count == 1 { return (rest, offset) }
    var gathered = Array(rest)
    var bytes = rest.reduce(-offset) { $0 + $1.count }
    var last = entries.startIndex
    while gathered.count < maximumPieces, bytes < maximumBytes, let next = entries.index(after: last) {
      let entry = entries[next]
      guard case .pieces(let more) = entry.content, mayBeSent(entry.tag) else { break }
      gathered += more.prefix(maximumPieces - gathered.count)
      bytes += entry.total
      last = next
    }
    return (gathered[...], offset)
  }
}

extension WriteQueue.Entry: Identified {}

extension WriteQueue: LaneQueue {
  static var budget: Budget { .stream }
  var firstID: UInt64? { first?.id }
}
