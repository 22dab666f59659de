internal import EpollReactor

// The calls that wait for datagrams, and the datagrams that were fetched ahead of calls: a pure state machine without sockets and clocks.
//
// Datagrams are fetched only when a call waits and no fetched datagram is left. One system call may return more datagrams than the call
// asked for; the others are kept for later calls. So at most one batch is fetched ahead, and a program pauses receiving by making no call.
//
// Invariants:
// - Calls get datagrams in the order in which they were made, and datagrams are given out in the order in which they arrived.
// - A call that is removed (cancelled, timed out) takes no datagram with it.
// - From its `.borrow` step, or `beginBorrow`, to `endBorrow`, a call that borrows is the only one that gets datagrams.
// - Each call leaves exactly once: by `finish`, by `endBorrow`, or by `remove`.
// - A loop may take fetched datagrams without a call for each (Lookahead.swift). They stay in the queue until `reclaimLookahead`, which
//   drops those that were taken. The owner calls it before every other use of the fetched datagrams, and before it admits a call.
//   Datagrams with descriptors are excluded, because a copy would keep the descriptors open.

/// `Tag` identifies the caller.
struct ReceiveQueue<Tag> {
  enum Step {
    case idle
    /// A call became the first, and its time starts.
    case begin(UInt64, Tag)
    /// Receive, then report the datagrams by `arrived`. If nothing arrived, ask again when that may have changed.
    case fetch
    case finish(Tag, [Datagram])
    case borrow(UInt64, Tag)
  }

  private struct Entry: Identified {
    let id: UInt64
    let tag: Tag
    /// The largest number of datagrams; 0 for a call that borrows them.
    let limit: Int
    var hasBegun = false
  }

  private var waiting = FIFO<Entry>()
  private var fetched = FIFO<Datagram>()
  private var nextID: UInt64 = 0
  private var isBorrowed = false
  /// The datagrams at the front of the fetched ones that a loop may take; `nil` if a loop may take no datagram.
  private(set) var lookahead: Lookahead?
  private var lookaheadLimit = LookaheadLimit(LookaheadLimit.most)

  var count: Int { waiting.count }
  var fetchedCount: Int { fetched.count }
  /// A new call would overtake no other call.
  var isFree: Bool { waiting.isEmpty && !isBorrowed }
  var firstID: UInt64? { waiting.first?.id }
  func tag(of id: UInt64) -> Tag? { waiting.index(of: id).map { waiting[$0].tag } }
  func firstID(where condition: (Tag) -> Bool) -> UInt64? {
    var next = waiting.firstIndex
    while let index = next {
      if condition(waiting[index].tag) { return waiting[index].id }
      next = waiting.index(after: index)
    }
    return nil
  }

  mutating func admit(upTo limit: Int, _ tag: Tag) -> UInt64 {
    assertNoLookahead()
    nextID += 1
    waiting.append(Entry(id: nextID, tag: tag, limit: limit))
    return nextID
  }

  mutating func arrived(_ datagrams: some Sequence<Datagram>) {
    for datagram in datagrams { fetched.append(datagram) }
  }

  mutating func keepFetched(_ isWanted: (Datagram) -> Bool) {
    reclaimLookahead()
    fetched.removeAll { !isWanted($0) }
  }

  mutating func takeFetched() -> Datagram? {
    assertNoLookahead()
    return fetched.popFirst()
  }

  mutating func takeFetched(upTo limit: Int) -> [Datagram] {
    assertNoLookahead()
    var datagrams: [Datagram] = []
    while datagrams.count < limit, let datagram = fetched.popFirst() { datagrams.append(datagram) }
    return datagrams
  }

  /// Lets a loop take fetched datagrams without a call for each; `nil` if it may take no datagram.
  mutating func lookAhead(_ executor: ReactorExecutor) -> ElementsAhead<Datagram>? {
    guard isFree, lookahead == nil, !fetched.isEmpty, let limit = lookaheadLimit.next() else { return nil }
    let datagrams = Array(fetched.all.prefix(limit).prefix { $0.descriptors == nil })
    if datagrams.isEmpty { return nil }
    let lookahead = Lookahead(ends: Array(1...datagrams.count), executor)
    self.lookahead = lookahead
    return ElementsAhead(datagrams, lookahead)
  }

  private func assertNoLookahead() { assert(lookahead == nil, "a call gets no datagram that a loop may take") }

  mutating func reclaimLookahead() {
    guard let lookahead = lookahead.take() else { return }
    let (count, _) = lookahead.reclaim()
    lookaheadLimit.learn(taken: count, of: lookahead.count)
    for _ in 0..<count { _ = fetched.popFirst() }
  }

  mutating func step(mayFetch: Bool) -> Step {
    guard !isBorrowed, let first = waiting.first else { return .idle }
    if !first.hasBegun {
      waiting.change(waiting.startIndex) { $0.hasBegun = true }
      return .begin(first.id, first.tag)
    }
    if fetched.isEmpty, !mayFetch { return .idle }
    if first.limit == 0 {
      isBorrowed = true
      return .borrow(first.id, first.tag)
    }
    if fetched.isEmpty { return .fetch }
    _ = waiting.popFirst()
    return .finish(first.tag, takeFetched(upTo: first.limit))
  }

  /// Unless the call is done, it keeps its place and waits for more datagrams.
  mutating func endBorrow(_ id: UInt64, isDone: Bool) {
    assert(isBorrowed, "a borrow ended that had not begun")
    isBorrowed = false
    if isDone { _ = remove(id) }
  }

  /// For a call that did not have to wait.
  mutating func beginBorrow() {
    assert(isFree, "a borrow overtook a call")
    assertNoLookahead()
    isBorrowed = true
  }

  mutating func remove(_ id: UInt64) -> Tag? { waiting.index(of: id).map { waiting.remove(at: $0).tag } }

  mutating func removeAll() -> [Tag] {
    var tags: [Tag] = []
    while let entry = waiting.popFirst() { tags.append(entry.tag) }
    return tags
  }
}

extension ReceiveQueue: LaneQueue {
  /// The datagrams that may be dropped before other sockets of the reactor run. Those that are received use nothing of it.
  static var budget: Budget { Budget(operations: 256) }
  /// An endpoint that ends takes all operations out of its queues at once.
  var isRefusing: Bool { false }
}
