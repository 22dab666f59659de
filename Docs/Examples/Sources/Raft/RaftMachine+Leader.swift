// What a leader does: it copies its log, commits what a majority has, and answers reads.

/// What a leader knows.
struct Leadership: Sendable {
  /// What a leader knows of the log of another node.
  struct Copy: Sendable {
    /// The index of the entry to send next.
    var next: Int
    /// All entries up to this index are those of the leader.
    var match = 0
    /// When entries were sent that are not answered yet. Meanwhile there are only messages without entries.
    var sent: Duration?
    /// The latest stamp that came back.
    var stamp: Stamp?
  }

  struct Read: Sendable {
    let request: UInt64
    let key: [UInt8]
    /// A majority must answer a message of this round, or of a later one.
    let round: UInt64
  }

  /// The index of the first entry of this leader. When it is committed, all entries before it are, too.
  let firstIndex: Int
  var copies: [Int: Copy] = [:]
  /// The requests that wait for the entry with this index.
  var requests: [Int: UInt64] = [:]
  var reads: [Read] = []
  var round: UInt64 = 0

  /// All requests that wait, in the order of their numbers.
  var allRequests: [UInt64] { (requests.values + reads.map(\.request)).sorted() }

  /// The value that a majority of the nodes reaches, if the leader reaches the largest. `values` are those of the other nodes.
  private func majority<Value: Comparable>(_ values: [Value]) -> Value { values.sorted(by: >)[values.count / 2 - 1] }

  func matchOfMajority(among others: [Int]) -> Int { majority(others.map { copies[$0]?.match ?? 0 }) }

  func roundOfMajority(among others: [Int]) -> UInt64 { majority(others.map { copies[$0]?.stamp?.round ?? 0 }) }

  /// When the leader sent something that a majority has answered, with itself.
  func lastContact(with others: [Int], at now: Duration) -> Duration? {
    let never = Duration.seconds(-1)
    let contact = majority(others.map { copies[$0]?.stamp?.sent ?? never })
    return contact == never ? nil : contact
  }
}

extension RaftMachine {
  /// Sends something to each node, in a new round.
  mutating func sendToAll(_ leadership: inout Leadership, at now: Duration) {
    leadership.round += 1
    for node in others { send(to: node, &leadership, at: now) }
    setDeadline(now + configuration.heartbeat)
  }

  /// Sends new entries to the nodes that have answered.
  mutating func sendEntries(_ leadership: inout Leadership, at now: Duration) {
    for node in others where leadership.copies[node]?.sent == nil { send(to: node, &leadership, at: now) }
  }

  private mutating func send(to node: Int, _ leadership: inout Leadership, at now: Duration) {
    guard var copy = leadership.copies[node] else { return }
    // After some heartbeats without an answer, the entries were probably lost.
    if let sent = copy.sent, now >= sent + configuration.heartbeat * 4 { copy.sent = nil }
    let previous = copy.next - 1
    let count = copy.sent == nil ? configuration.entriesInMessage : 0
    let entries = log.entries(after: previous, atMost: count)
    if !entries.isEmpty { copy.sent = now }
    leadership.copies[node] = copy
    let append = RaftMessage.Append(
      previous: previous, previousTerm: log.term(at: previous) ?? 0, entries: entries, commit: commit,
      stamp: Stamp(round: leadership.round, sent: now))
    send(.append(append), to: node)
  }

  /// Takes the answer of a follower.
  mutating func hear(_ message: RaftMessage, from node: Int, at now: Duration) {
    guard case .leader(var leadership) = role, var copy = leadership.copies[node] else { return }
    switch message {
    case .matches(let index, let stamp):
      copy.take(stamp)
      if index > copy.match {
        copy.match = index
        copy.next = index + 1
        copy.sent = nil
      }
    case .differs(let previous, let last, let stamp):
      copy.take(stamp)
      if previous == copy.next - 1 {
        copy.next = max(copy.match + 1, min(previous, last + 1))
        copy.sent = nil
      }
    default: return
    }
    leadership.copies[node] = copy
    commitEntries(&leadership)
    answerReads(&leadership)
    if copy.sent == nil, copy.next <= log.lastIndex { send(to: node, &leadership, at: now) }
    role = .leader(leadership)
  }

  private mutating func commitEntries(_ leadership: inout Leadership) {
    let index = leadership.matchOfMajority(among: others)
    // An entry of an earlier term may still be replaced, although a majority has it.
    guard index > commit, log.term(at: index) == term || has(.commitsEarlierTerm) else { return }
    commit(upTo: index, requests: leadership.requests)
    leadership.requests = leadership.requests.filter { $0.key > index }
  }

  // MARK: Reads

  mutating func read(_ key: [UInt8], _ request: UInt64, _ leadership: inout Leadership, at now: Duration) {
    if has(.readsWithoutMajority) || (commit >= leadership.firstIndex && hasLease(leadership, at: now)) {
      return emit(.read(request: request, key: key))
    }
    // A round that has begun before the read says nothing about it.
    leadership.reads.append(.init(request: request, key: key, round: leadership.round + 1))
    sendToAll(&leadership, at: now)
  }

  private func hasLease(_ leadership: Leadership, at now: Duration) -> Bool {
    guard configuration.leasesReads, let contact = leadership.lastContact(with: others, at: now) else { return false }
    // The voters wait for the whole timeout on their clocks. A tenth is more than two clocks can differ.
    return now < contact + configuration.electionTimeout.lowerBound * 9 / 10
  }

  private mutating func answerReads(_ leadership: inout Leadership) {
    // Before that, the leader does not know what earlier leaders have committed.
    guard commit >= leadership.firstIndex else { return }
    let round = leadership.roundOfMajority(among: others)
    for read in leadership.reads where read.round <= round { emit(.read(request: read.request, key: read.key)) }
    leadership.reads.removeAll { $0.round <= round }
  }
}

extension Leadership.Copy {
  /// Keeps the latest stamp. Answers can overtake each other on different connections.
  fileprivate mutating func take(_ stamp: Stamp) {
    guard let old = self.stamp else { return self.stamp = stamp }
    self.stamp = Stamp(round: max(old.round, stamp.round), sent: max(old.sent, stamp.sent))
  }
}
