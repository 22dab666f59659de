// Who waits for datagrams, and which were fetched for nobody: a pure machine. It knows neither sockets nor clocks.
//
// Datagrams are fetched only when somebody waits and none is left of those fetched before; one system call may bring more than
// were asked for, and the rest is for the calls to come. So at most one batch is ever fetched ahead, and not asking is pausing.
//
// Invariants:
// - Calls get datagrams in the order in which they were made, and datagrams are given out in the order in which they came.
// - A call that leaves (cancelled, timed out) takes no datagram with it.
// - A call that looks at datagrams in place has the turn from `look` to `endBorrow`, and nobody else gets any meanwhile.
// - Each call leaves once: by `finish`, by `endBorrow`, or by `remove`.

/// The queue of an endpoint's receives. `Tag` is who wants them.
struct ReceiveQueue<Tag> {
  /// What to do next.
  enum Step {
    /// Nothing, until something changes.
    case idle
    /// A call is the first now: its time starts.
    case begin(UInt64, Tag)
    /// Receive, and say what `arrived`; if nothing does, ask again when that may have changed.
    case fetch
    /// A call has its datagrams.
    case finish(Tag, [Datagram])
    /// A call may look at what there is.
    case look(UInt64, Tag)
  }

  private struct Entry: Identified {
    let id: UInt64
    let tag: Tag
    /// The most datagrams; 0 to look at them.
    let limit: Int
    var hasBegun = false
  }

  private var waiting = FIFO<Entry>()
  private var fetched = FIFO<Datagram>()
  private var nextID: UInt64 = 0
  private var isBorrowed = false

  /// How many calls wait.
  var count: Int { waiting.count }
  /// How many datagrams were fetched ahead.
  var fetchedCount: Int { fetched.count }
  /// Nobody would be overtaken by a call that is made now.
  var isFree: Bool { waiting.isEmpty && !isBorrowed }
  /// The number of the call that is first.
  var firstID: UInt64? { waiting.first?.id }
  /// Who made a call.
  func tag(of id: UInt64) -> Tag? { waiting.index(of: id).map { waiting[$0].tag } }
  /// All who wait, in order.
  var ids: [UInt64] { waiting.all.map(\.id) }

  /// Adds a call, behind the others.
  ///
  /// - Parameters:
  ///   - limit: The most datagrams; 0 to look at them.
  ///   - tag: Who makes it.
  /// - Returns: Its number.
  mutating func admit(upTo limit: Int, _ tag: Tag) -> UInt64 {
    nextID += 1
    waiting.append(Entry(id: nextID, tag: tag, limit: limit))
    return nextID
  }

  /// Datagrams were received, behind those fetched before.
  mutating func arrived(_ datagrams: some Sequence<Datagram>) {
    for datagram in datagrams { fetched.append(datagram) }
  }

  /// Drops those that were fetched and that nobody is to get any more.
  mutating func keepFetched(_ isWanted: (Datagram) -> Bool) {
    _ = fetched.removeAll(from: 0) { !isWanted($0) }
  }

  /// Takes the first of those that were fetched.
  mutating func takeFetched() -> Datagram? { fetched.popFirst() }

  /// Takes the first of them, several.
  mutating func takeFetched(upTo limit: Int) -> [Datagram] {
    var datagrams: [Datagram] = []
    while datagrams.count < limit, let datagram = fetched.popFirst() { datagrams.append(datagram) }
    return datagrams
  }

  /// What to do next.
  ///
  /// - Parameter mayFetch: Whether there may be something to receive.
  /// - Returns: What to do.
  mutating func step(mayFetch: Bool) -> Step {
    guard !isBorrowed, let first = waiting.first else { return .idle }
    if !first.hasBegun {
      waiting.change(0) { $0.hasBegun = true }
      return .begin(first.id, first.tag)
    }
    if fetched.isEmpty, !mayFetch { return .idle }
    if first.limit == 0 {
      isBorrowed = true
      return .look(first.id, first.tag)
    }
    if fetched.isEmpty { return .fetch }
    _ = waiting.popFirst()
    return .finish(first.tag, takeFetched(upTo: first.limit))
  }

  /// The look is over: the call leaves, or waits for more in its place.
  mutating func endBorrow(_ id: UInt64, isDone: Bool) {
    isBorrowed = false
    if isDone { _ = remove(id) }
  }

  /// A call that is alone looks at once, without having waited.
  mutating func beginBorrow() { isBorrowed = true }

  /// Takes a call out.
  mutating func remove(_ id: UInt64) -> Tag? { waiting.index(of: id).map { waiting.remove(at: $0).tag } }

  /// Takes all out who are not looking.
  mutating func removeAll() -> [Tag] {
    var tags: [Tag] = []
    while let entry = waiting.popFirst() { tags.append(entry.tag) }
    return tags
  }
}

extension ReceiveQueue: LaneQueue {
  static var share: Share { Share(operations: .max) }
  /// An endpoint that ends takes all operations out of its queues at once.
  var isRefusing: Bool { false }
}
