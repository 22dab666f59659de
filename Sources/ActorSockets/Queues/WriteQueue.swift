// The write queue, a pure machine, the read queue's counterpart.
//
// State: the writes in the order of their calls, the first of which may be partly sent; whether the stream is up; the
// error that ended it, if any.
//
// Invariants:
// - Bytes leave in the order of the entries, and an entry's bytes leave without another's between them.
// - Every entry leaves exactly once, in a `.finish` or `.acknowledge` step or through `remove`. Its tag may leave before, through
//   `remove`: a write of which a part is sent is never torn, its bytes go on without anybody waiting for them; or through
//   `abandon`, which never takes bytes back.
// - `.begin` is said once of each entry, when it becomes the first of an open stream.
// - No bytes are admitted behind a half-close; what is tried fails with `.closed`.
// - `queuedBytes` is the sum of the unsent bytes of all entries, `queuedFileBytes` that of the entries that are files.

/// The writes of one stream. `Tag` is what the owner of the machine keeps with each.
struct WriteQueue<Tag> {
  typealias ID = UInt64

  enum Content {
    /// Bytes to be sent in one piece or several.
    case pieces([[UInt8]])
    /// So many bytes of a file, from an offset on.
    case file(FileSource, from: Int, count: Int)
    /// Bytes, and a descriptor that goes with the first of them.
    case passing([UInt8], PassedDescriptor)
    /// No bytes: the peer is to acknowledge all before.
    case acknowledgement
    /// The half-close.
    case finish
  }

  /// A write that waits. A class, so that the queue moves one word.
  final class Entry {
    let id: ID
    fileprivate var content: Content
    /// The bytes of the entry.
    let total: Int
    /// `nil` when nobody waits for it any more.
    fileprivate(set) var tag: Tag?
    /// The bytes that the kernel took.
    fileprivate(set) var sent: Int
    /// Of these, the bytes that were never queued: the pieces begin behind them.
    fileprivate let sentBefore: Int
    fileprivate var isBegun = false
    /// It is the half-close.
    var isFinish: Bool { if case .finish = content { true } else { false } }

    /// It waits for an acknowledgement.
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
    /// The write left the queue with this result. No tag: nobody waits.
    case finish(Tag?, Result<Void, SocketError>)
    /// The write is the first now: its time starts.
    case begin(ID, Tag?)
    /// All before is sent. It left the queue; its outcome comes with the peer's acknowledgement.
    case acknowledge(ID, Tag?)
    /// There are bytes to send: see `unsent`.
    case send
    /// There are bytes of a file to send.
    case sendFile(FileSource, from: Int, count: Int)
    /// A descriptor goes with the first of these bytes: send, then say `passed()` and `sent`.
    case pass([UInt8], PassedDescriptor)
    /// All before the half-close is sent: shut the sending side down, then say `finished()`.
    case shutDown
    /// Nothing to do.
    case idle
  }

  private var entries = FIFO<Entry>()
  private var refusal: SocketError?
  /// The bytes that the transport had taken then, and not sent.
  private var heldBack = 0
  private(set) var isOpen = false
  private(set) var queuedBytes = 0
  /// Of these, the bytes that are in files, and in no memory.
  private(set) var queuedFileBytes = 0
  /// The writes that somebody waits for.
  private(set) var waiting = 0
  /// A half-close was admitted.
  private(set) var isFinishing = false
  /// The half-close was carried out.
  private(set) var isFinished = false
  private var nextID: ID = 0
  /// The pieces of the first entry that are sent as a whole, and the bytes sent of the next one.
  private var sentPieces = 0
  private var offset = 0

  /// The number of writes that wait.
  var count: Int { entries.count }
  /// Whether none waits.
  var isEmpty: Bool { entries.isEmpty }
  /// Whether what comes now has its turn at once.
  var isFree: Bool { entries.isEmpty && !isFinishing }
  /// Whether all that waits fails.
  var isRefusing: Bool { refusal != nil }
  /// Whether the first write has begun, and nothing ends it.
  var isUnderWay: Bool { refusal == nil && entries.first?.isBegun == true }
  /// The first write.
  var first: Entry? { entries.first }
  /// All writes that wait, in order.
  var all: [Entry] { entries.all }

  // MARK: Events

  /// Puts a write at the end, of which `sent` bytes, not among the pieces, were sent without queueing.
  mutating func admit(_ content: Content, alreadySent sent: Int = 0, _ tag: Tag?) -> ID {
    nextID += 1
    var content = content
    var count = 0
    switch content {
    case .pieces(let pieces):
      count = pieces.reduce(0) { $0 + $1.count }
      // Enough empty pieces would fill a gathered send, which then moves nothing, over and over.
      if pieces.contains(where: \.isEmpty) { content = .pieces(pieces.filter { !$0.isEmpty }) }
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
    return nextID
  }

  /// The stream is up.
  mutating func open() { isOpen = true }

  /// Fails all writes, those to come included.
  ///
  /// - Parameters:
  ///   - error: What they fail with.
  ///   - heldBack: The bytes that the transport took and will never send: what is in them has not succeeded.
  mutating func refuse(_ error: SocketError, heldBack: Int = 0) {
    if refusal != nil { return }
    refusal = error
    self.heldBack = heldBack
  }

  /// The kernel took so many bytes of what `unsent` showed.
  mutating func sent(_ count: Int) {
    queuedBytes -= count
    var rest = count
    var index = 0
    while index < entries.count {
      let left = entries[index].total - entries[index].sent
      let part = min(left, rest)
      entries[index].sent += part
      if entries[index].isFile { queuedFileBytes -= part }
      rest -= part
      if index == 0 { advance(by: part) }
      if part < left || rest == 0 { return }
      // The next entry is partly sent while this one waits to leave: its position is found when it becomes the first.
      index += 1
    }
  }

  /// The kernel took the first write's descriptor: what is left are bytes like others.
  mutating func passed() {
    guard let first = entries.first, case .passing(let bytes, _) = first.content else { return }
    first.content = .pieces([bytes])
  }

  /// The sending side is shut down.
  mutating func finished() { isFinished = true }

  /// Takes a write back: out of the queue if no byte of it is sent, otherwise only what is kept with it.
  ///
  /// - Returns: What was kept with it and the bytes sent of it; `nil` if the write or its tag are gone already.
  mutating func remove(_ id: ID) -> (tag: Tag, sent: Int)? {
    guard let index = entries.index(of: id), let tag = entries[index].tag.take() else { return nil }
    waiting -= 1
    let sent = entries[index].sent
    if case .finish = entries[index].content { return (tag, 0) }
    if sent > 0 { return (tag, sent) }
    if index == 0 {
      // Behind one of no bytes, the next may be partly sent.
      _ = leave()
    } else {
      forget(entries.remove(at: index))
    }
    return (tag, sent)
  }

  /// Takes what is kept with a write, of which no byte need be sent: nobody waits for it any more, and its bytes go on.
  ///
  /// - Returns: What was kept with it; `nil` if it is gone already.
  mutating func abandon(_ id: ID) -> Tag? {
    guard let index = entries.index(of: id), let tag = entries[index].tag.take() else { return nil }
    waiting -= 1
    return tag
  }

  /// What is kept with a write.
  func tag(of id: ID) -> Tag? { entries.index(of: id).flatMap { entries[$0].tag } }

  // MARK: Actions

  /// What to do next; to be called until it is `.idle`, or `.send` and nothing can be sent.
  mutating func step() -> Step {
    guard let first = entries.first else { return .idle }
    // What the kernel has taken as a whole has succeeded, though the stream broke before it left.
    if var refusal, first.total == 0 || first.sent < first.total || heldBack > 0 {
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

  private mutating func leave() -> Entry {
    let entry = entries.remove(at: 0)
    forget(entry)
    if entry.tag != nil { waiting -= 1 }
    sentPieces = 0
    offset = 0
    if let next = entries.first, next.sent > next.sentBefore { advance(by: next.sent - next.sentBefore) }
    return entry
  }

  /// Moves the position in the first entry.
  private mutating func advance(by count: Int) {
    guard case .pieces(let pieces) = entries[0].content else { return }
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

  /// The unsent bytes: pieces of the first write and of those behind it, so that one system call takes them all.
  ///
  /// - Parameters:
  ///   - maximumPieces: The most pieces.
  ///   - maximumBytes: Pieces beyond this many bytes wait for the next call.
  /// - Returns: The pieces, and how many bytes of the first of them are sent already.
  func unsent(maximumPieces: Int, maximumBytes: Int) -> (pieces: ArraySlice<[UInt8]>, offset: Int) {
    guard case .pieces(let pieces)? = entries.first?.content else { return ([], 0) }
    let rest = pieces[min(sentPieces, pieces.count)...].prefix(maximumPieces)
    if entries.count == 1 { return (rest, offset) }
    var gathered = Array(rest)
    var bytes = rest.reduce(-offset) { $0 + $1.count }
    var index = 1
    while index < entries.count, gathered.count < maximumPieces, bytes < maximumBytes {
      guard case .pieces(let more) = entries[index].content else { break }
      gathered += more.prefix(maximumPieces - gathered.count)
      bytes += entries[index].total
      index += 1
    }
    return (gathered[...], offset)
  }
}

extension WriteQueue.Entry: Identified {}

extension WriteQueue: LaneQueue {
  static var share: Share { .stream }
  var firstID: UInt64? { first?.id }
}
