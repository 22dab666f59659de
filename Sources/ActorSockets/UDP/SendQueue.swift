internal import SocketSystem

// The sends of an endpoint: a pure state machine. It knows neither sockets nor clocks; the time is an argument.
//
// An entry is one call: one or several datagrams, a datagram for a name that is being looked up, or a change of the peer. Entries are
// passed in the order in which they were admitted. A datagram that finds its destination full leaves its entry, and waits in the line of
// the destination; so it does not hold up datagrams to other destinations.
//
//                  resolve                     sent, failed or dropped
//   looking up ────────────▶ next in its entry ───────────────────────▶ done
//                                   │                                    ▲
//                 its destination has a line                             │ sent, failed or dropped
//                                   └──────────▶ in the line ────────────┘
//
// A line is full from the moment at which the destination had no room, until the retry time or an event; then it is ready, and its
// datagrams are tried. A line that became ready and has no datagram is removed.
//
//            retry, roomMayBe, mustNotWait
//     full ─────────────────────────────────▶ ready ──(empty)──▶ removed
//       ▲───────────────── full ────────────────┘
//
// No call waits for a reply that waits in a line, because a peer must not hold up a server that answers others.
//
// Invariants:
// - Datagrams to one destination leave in the order in which they were admitted: while a destination has a line with datagrams, every later
//   datagram to it goes to the end of the line. Datagrams of an entry to one destination follow each other.
// - Only the first entry of `entries` is partly passed. An entry whose datagrams are all passed is in `aside` while any of them is in a
//   line, and is done otherwise.
// - An entry whose name is not resolved yet holds up later entries, but no line. A change of the peer waits until all earlier entries are
//   done, and holds up later ones.
// - If a datagram cannot be sent, only that datagram fails. Its error is kept until its entry is done.
// - Removing an entry removes the datagrams that are not sent yet, also those in lines. A datagram is never partly sent.
// - Each entry leaves exactly once: by `finish`, or by `remove`.
// - Replies that wait in lines count at most `replyLimit` together and a part of it for each destination; the others are dropped.

/// `Tag` identifies the caller.
struct SendQueue<Tag> {
  enum Attempt {
    case entries
    case line(SocketAddress?)
  }

  var entries = FIFO<Entry>()
  /// The entries of which all datagrams are passed and some wait in lines.
  private var aside: [UInt64: Entry] = [:]
  /// The entries that are done, and not finished yet.
  private var done = FIFO<Entry>()
  var lines = SendLines()
  /// The entries that have no time to wait.
  var immediate: [UInt64] = []
  private(set) var attempt = Attempt.entries
  private var nextID: UInt64 = 0
  var queuedBytes = 0
  /// The number of replies that wait in lines without a call, and the sum of their `SendLine.charge` in bytes.
  private(set) var replies = 0
  private var replyCharge = 0
  var replyLimit = Int.max
  /// Whether replies wait in lines without their calls.
  var detachesReplies = true
  /// The peer of a connected endpoint, to which datagrams without an address go.
  var peer: SocketAddress?

  /// The limit for the replies to one destination is `replyLimit` divided by this.
  static var replyLineDivisor: Int { 2 }

  var isEmpty: Bool { entries.isEmpty && aside.isEmpty && done.isEmpty && replies == 0 }
  var count: Int { entries.count + aside.count + done.count + replies }
  /// The entry whose datagram is the next; 0 if that is a reply without a call.
  var firstID: UInt64? {
    if case .line(let destination) = attempt, let first = lines[destination]?.waiting.first {
      return first.call?.entry ?? 0
    }
    return entries.first?.id
  }
  func tag(of id: UInt64) -> Tag? { aside[id]?.tag ?? entries.index(of: id).map { entries[$0].tag } }

  /// Where the next datagram of an entry goes; `nil` if that is the peer, or is not known.
  func destination(of id: UInt64) -> SocketAddress? {
    if let entry = aside[id] {
      return entry.parked.first { lines[$0.destination]?.waiting.index(of: $0.id) != nil }?.destination
    }
    guard let index = entries.index(of: id) else { return nil }
    return switch entries[index].content {
    case .datagrams(let datagrams): datagrams.dropFirst(entries[index].passed).first?.remoteAddress
    case .peer(let addresses): addresses.first
    case .lookingUp, .lookingUpPeer, .failed: nil
    }
  }

  /// No entry waits, and no datagram to this destination waits in a line. Mutating, so that nothing is copied.
  mutating func mayOvertake(to address: SocketAddress?) -> Bool {
    isEmpty || entries.isEmpty && lines[line(of: address)]?.waiting.isEmpty != false
  }

  /// The key of a destination's line. That of the peer is its address, so that replies keep their line when the endpoint connects to it.
  func line(of address: SocketAddress?) -> SocketAddress? { address?.unmapped ?? peer }

  // MARK: Entries

  mutating func admit(_ content: Content, isBatch: Bool = false, expiry: Int64 = .max, _ tag: Tag) -> UInt64 {
    nextID += 1
    entries.append(Entry(id: nextID, tag: tag, content: content, isBatch: isBatch, expiry: expiry))
    queuedBytes += content.bytes
    assertInvariants()
    return nextID
  }

  mutating func connected(_ outcome: Result<Void, SocketError>) {
    guard let first = entries.first, let index = entries.index(of: first.id) else { return }
    entries.change(index) {
      switch outcome {
      case .success: $0.content = .datagrams([])
      case .failure(let error): $0.content = .failed(error)
      }
    }
  }

  mutating func remove(_ id: UInt64) -> (tag: Tag, sentBytes: Int)? {
    let entry: Entry
    if let passed = aside.removeValue(forKey: id) {
      entry = passed
    } else if let index = entries.index(of: id) {
      entry = entries.remove(at: index)
      queuedBytes -= entry.unpassedBytes
    } else {
      return nil
    }
    for parked in entry.parked {
      guard let index = lines[parked.destination]?.waiting.index(of: parked.id),
        let removed = lines[parked.destination]?.waiting.remove(at: index)
      else { continue }
      queuedBytes -= removed.datagram.bytes.count
    }
    assertInvariants()
    return (entry.tag, entry.sentBytes)
  }

  mutating func removeAll() -> [Tag] {
    var tags: [Tag] = []
    while let entry = done.popFirst() { tags.append(entry.tag) }
    tags += aside.valuesInOrder.map(\.tag)
    while let entry = entries.popFirst() { tags.append(entry.tag) }
    aside = [:]
    lines = SendLines()
    immediate = []
    (queuedBytes, replies, replyCharge) = (0, 0, 0)
    return tags
  }

  // MARK: Steps

  /// The caller must carry out the step before it asks again.
  mutating func step() -> Step {
    while true {
      if let entry = done.popFirst() { return .finish(entry.tag, entry.outcome) }
      if let destination = lines.firstReady() {
        attempt = .line(destination)
        return .send
      }
      attempt = .entries
      guard let first = entries.first else { return .idle }
      switch first.content {
      case .lookingUp, .lookingUpPeer: return .idle
      case .peer(let addresses): return aside.isEmpty ? .connect(addresses) : .idle
      case .failed(let error):
        _ = entries.popFirst()
        return .finish(first.tag, .failure(error))
      case .datagrams(let datagrams):
        if first.passed == datagrams.count {
          _ = entries.popFirst()
          if first.waiting > 0 { aside[first.id] = first } else { done.append(first) }
          continue
        }
        if lines.isEmpty { return .send }
        let destination = line(of: datagrams[first.passed].remoteAddress)
        if lines[destination] == nil { return .send }
        return .park
      }
    }
  }

  /// Moves the next datagrams into the lines of their destinations, up to one whose destination has no line. A reply that must not wait is
  /// dropped: it is the last one counted.
  mutating func park(atMost limit: Int) -> (count: Int, dropped: Datagram?) {
    guard let index = entries.firstIndex, case .datagrams(let datagrams) = entries[index].content else {
      return (0, nil)
    }
    // No copy of the entry may exist below, because each change would then copy the entry's arrays.
    let (id, passed, expiry) = (entries[index].id, entries[index].passed, entries[index].expiry)
    var count = 0
    for datagram in datagrams[passed...].prefix(limit) {
      let destination = line(of: datagram.remoteAddress)
      if lines[destination] == nil { break }
      let isReply = datagram.isReply && detachesReplies
      if isReply, expiry == 0 || !chargeReply(datagram, destination) {
        dropped()
        return (count + 1, datagram)
      }
      nextID += 1
      let number = nextID
      lines[destination]?.waiting.append(
        SendLine.Waiting(
          id: number, call: isReply ? nil : (entry: id, index: passed + count), datagram: datagram, expiry: expiry))
      entries.change(index) {
        $0.passed += 1
        if isReply { return }
        $0.parked.append((destination, number))
        $0.waiting += 1
      }
      count += 1
    }
    return (count, nil)
  }

  /// Returns false, and counts nothing, if too many replies wait.
  private mutating func chargeReply(_ datagram: Datagram, _ destination: SocketAddress?) -> Bool {
    let charge = SendLine.charge(datagram)
    let ofLine = charge + (lines[destination]?.replyCharge ?? 0)
    if replyCharge + charge > replyLimit || ofLine > replyLimit / Self.replyLineDivisor { return false }
    replies += 1
    replyCharge += charge
    lines[destination]?.replyCharge += charge
    return true
  }

  // MARK: Sending

  /// Mutating, so that nothing is copied.
  var first: (datagram: Datagram, sender: Sender)? {
    mutating get {
      switch attempt {
      case .line(let destination):
        guard let first = lines[destination]?.waiting.first else { return nil }
        return (first.datagram, sender(of: first))
      case .entries:
        guard let entry = entries.first, case .datagrams(let datagrams) = entry.content, entry.passed < datagrams.count
        else { return nil }
        return (datagrams[entry.passed], .call(id: entry.id, entry.tag))
      }
    }
  }

  private func sender(of waiting: SendLine.Waiting) -> Sender {
    guard let call = waiting.call, let tag = tag(of: call.entry) else { return .reply(expiry: waiting.expiry) }
    return .call(id: call.entry, tag)
  }

  func isUnderWay(_ id: UInt64) -> Bool {
    (aside[id] ?? entries.index(of: id).map { entries[$0] })?.isUnderWay ?? false
  }

  /// The datagrams of one line, or those of the first entries up to one that needs another step. `mayBeSent` is not asked about the first
  /// entry, or the first datagram of a line. Mutating, so that nothing is copied.
  mutating func unsent(atMost limit: Int, where mayBeSent: (Sender) -> Bool = { _ in true }) -> ArraySlice<Datagram> {
    var unsent: ArraySlice<Datagram> = []
    if case .line(let destination) = attempt {
      guard let waiting = lines[destination]?.waiting else { return [] }
      var next = waiting.firstIndex
      while let index = next, unsent.count < limit {
        if !unsent.isEmpty, !mayBeSent(sender(of: waiting[index])) { break }
        unsent.append(waiting[index].datagram)
        next = waiting.index(after: index)
      }
      return unsent
    }
    var next = entries.firstIndex
    while let index = next, unsent.count < limit {
      guard case .datagrams(let datagrams) = entries[index].content,
        index == entries.startIndex || mayBeSent(.call(id: entries[index].id, entries[index].tag))
      else { break }
      var these = datagrams[entries[index].passed...].prefix(limit - unsent.count)
      let wanted = these.count
      if !lines.isEmpty { these = these.prefix { lines[line(of: $0.remoteAddress)] == nil } }
      if unsent.isEmpty { unsent = these } else { unsent += these }
      if these.count < wanted { break }
      next = entries.index(after: index)
    }
    return unsent
  }

  mutating func sent(_ count: Int) {
    if case .line(let destination) = attempt {
      lines[destination]?.succeeded()
      for _ in 0..<count { pass { $0.sentBytes += $1.datagram.bytes.count } }
      return assertInvariants()
    }
    var left = count
    var next = entries.firstIndex
    while let index = next, left > 0 {
      entries.change(index) { entry in
        let (these, bytes) = entry.sent(atMost: left)
        left -= these
        queuedBytes -= bytes
      }
      next = entries.index(after: index)
    }
    assert(left == 0, "more datagrams were sent than the queue has")
    assertInvariants()
  }

  mutating func failed(_ error: SocketError) {
    pass { $0.failures.append(DatagramBatchError.Failure(index: $1.index, error: error)) }
  }

  /// Removes the first datagram without a failure.
  mutating func dropped() { pass { _, _ in } }

  /// The first datagram is done; `note` records the outcome in its entry, if a call waits for it.
  private mutating func pass(_ note: (inout Entry, (index: Int, datagram: Datagram)) -> Void) {
    guard case .line(let destination) = attempt else {
      guard let index = entries.firstIndex, let (datagram, _) = first else { return }
      queuedBytes -= datagram.bytes.count
      // No copy of the entry may exist, also below: each failure would then copy the earlier ones.
      entries.change(index) {
        let index = $0.passed
        note(&$0, (index, datagram))
        $0.passed += 1
        $0.isUnderWay = true
      }
      return assertInvariants()
    }
    guard let waiting = lines[destination]?.waiting.popFirst() else { return }
    queuedBytes -= waiting.datagram.bytes.count
    guard let call = waiting.call else {
      replies -= 1
      replyCharge -= waiting.charge
      lines[destination]?.replyCharge -= waiting.charge
      return
    }
    func change(_ entry: inout Entry) {
      note(&entry, (call.index, waiting.datagram))
      entry.waiting -= 1
      entry.isUnderWay = true
    }
    if let index = entries.index(of: call.entry) { return entries.change(index) { change(&$0) } }
    guard var entry = aside.removeValue(forKey: call.entry) else { return }
    change(&entry)
    if entry.waiting == 0 {
      done.append(entry)
    } else {
      aside[call.entry] = entry
    }
  }

  @inline(__always)
  private func assertInvariants() {
    // A long queue or a large batch would make this check expensive.
    assert(
      count > 8 || queuedBytes > 1000
        || queuedBytes == entries.all.reduce(0) { $0 + $1.unpassedBytes } + lines.bytes,
      "the number of queued bytes is wrong")
  }
}

extension SendQueue: LaneQueue {
  static var budget: Budget { Budget(operations: 512) }
  /// An endpoint that ends takes all operations out of its queues at once.
  var isRefusing: Bool { false }
}
