// A node of Raft (Ongaro and Ousterhout, 2014) as a pure machine: messages, requests and the time go in, effects come out.
//
// Invariants:
// - The effects of an input are carried out in order, and before the next input. The change for the disk is the first of them. So whatever a
//   node says is on its disk, and its own log counts as a copy when the first answer of another node arrives.
// - The term never falls. In a term, a node votes for one candidate at most.
// - A leader neither removes nor changes entries of its log.
// - `commit` never falls, and entries up to it never change. They have been applied.
// - Each request has exactly one outcome: an answer, or `refuse`.
// - With leases: for the shortest election timeout after it has heard from a leader, or has started, a node does not vote for another one. The
//   lease of a leader is shorter than that, so during the lease there is no other leader.

struct TermAndVote: Hashable, Sendable {
  var term: UInt64 = 0
  /// The node that got the vote in this term.
  var vote: Int?
}

struct RaftConfiguration: Sendable {
  /// The number of this node, from 1 on.
  var id: Int
  /// All nodes, with this one: three or five, so that one or two may fail.
  var nodes: [Int]
  /// After this time without a leader a node asks for votes. Each time between the two is equally likely.
  var electionTimeout: ClosedRange<Duration> = .milliseconds(300)...(.milliseconds(600))
  /// How often a leader sends something.
  var heartbeat: Duration = .milliseconds(60)
  /// The largest number of entries in a message.
  var entriesInMessage = 16
  /// Whether a leader answers reads without a question to the others while it has a lease. The clocks of nodes may then differ by a
  /// twentieth at most, and all nodes need the same election timeout.
  var leasesReads = false
  /// The mistakes that the node makes. For tests.
  var bugs: Set<RaftBug> = []
}

struct RaftMachine: Sendable {
  enum Effect: Hashable, Sendable {
    case save(Change)
    case send(to: Int, term: UInt64, RaftMessage)
    /// Carry out the command of a committed entry. If `request` is not `nil`, answer it.
    case apply(index: Int, LogEntry, term: UInt64, request: UInt64?)
    /// Answer a read with the value that the applied entries result in.
    case read(request: UInt64, key: [UInt8])
    /// This node is not the leader, or no longer.
    case refuse(request: UInt64, leader: Int?)
    case tell(RaftEvent)
  }

  /// What has to be on the disk before anything else happens.
  struct Change: Hashable, Sendable {
    var vote: TermAndVote?
    /// How many entries of the file stay; `nil` if the log does not change.
    var keptEntries: Int?
    var newEntries: [LogEntry] = []
  }

  enum Role: Sendable {
    case follower(leader: Int?)
    /// It asks again until `end`, and then in the next term.
    case candidate(votes: Set<Int>, end: Duration)
    case leader(Leadership)
  }

  let configuration: RaftConfiguration
  private(set) var vote: TermAndVote
  private(set) var log: RaftLog
  private(set) var commit = 0
  var role = Role.follower(leader: nil)
  /// When the node asks for votes, or when the leader sends something.
  private(set) var deadline: Duration = .zero
  /// When this node has heard from a leader, or has started.
  private var lastContact: Duration
  private var change = Change()
  private var effects: [Effect] = []
  private var random: SplitMix

  /// Creates the machine of a node that starts at the time `now`, with what is on its disk. `seed` decides its election timeouts.
  init(_ configuration: RaftConfiguration, vote: TermAndVote, log: RaftLog, seed: UInt64, at now: Duration) {
    self.configuration = configuration
    (self.vote, self.log) = (vote, log)
    lastContact = now
    random = SplitMix(state: seed)
    beginElectionTimeout(at: now)
  }

  var term: UInt64 { vote.term }
  var others: [Int] { configuration.nodes.filter { $0 != configuration.id } }

  func has(_ bug: RaftBug) -> Bool { configuration.bugs.contains(bug) }

  func isMajority(_ count: Int) -> Bool { count > configuration.nodes.count / 2 }

  // MARK: Inputs

  /// Time has passed. Call it at `deadline` at the latest.
  mutating func advance(to now: Duration) -> [Effect] {
    guard now >= deadline else { return [] }
    switch role {
    case .leader(var leadership):
      sendToAll(&leadership, at: now)
      role = .leader(leadership)
    case .candidate(let votes, let end) where now < end: askAgain(except: votes, until: end, at: now)
    default: askForVotes(at: now)
    }
    return takeEffects()
  }

  mutating func receive(
    _ message: RaftMessage, from sender: Int, term: UInt64, at now: Duration
  ) -> [Effect] {
    guard others.contains(sender) else { return [] }
    if case .askForVote = message, mustNotVote(at: now) { return [] }
    if term > self.term { follow(nil, in: term, at: now) }
    switch message {
    case .askForVote(let lastIndex, let lastTerm):
      answerCandidate(sender, of: term, lastIndex, lastTerm, at: now)
    case .vote(let isGranted):
      if isGranted, term == self.term { count(voteOf: sender, at: now) }
    case .append(let append): answerLeader(sender, of: term, append, at: now)
    case .matches, .differs:
      if term == self.term { hear(message, from: sender, at: now) }
    }
    return takeEffects()
  }

  /// A client asks. `request` is a number that no other request of this node has.
  mutating func receive(_ asked: ClientRequest, request: UInt64, at now: Duration) -> [Effect] {
    guard case .leader(var leadership) = role else {
      var known: Int?
      if case .follower(let leader) = role { known = leader }
      return [.refuse(request: request, leader: known)]
    }
    switch asked {
    case .put(let key, let value, let session):
      append(LogEntry(term: term, command: .put(key: key, value: value, session)))
      leadership.requests[log.lastIndex] = request
      sendEntries(&leadership, at: now)
    case .get(let key): read(key, request, &leadership, at: now)
    }
    role = .leader(leadership)
    return takeEffects()
  }

  // MARK: Parts of the state

  mutating func emit(_ effect: Effect) { effects.append(effect) }

  mutating func send(_ message: RaftMessage, to node: Int) { emit(.send(to: node, term: term, message)) }

  /// The change comes first, whatever has led to it.
  private mutating func takeEffects() -> [Effect] {
    defer { (effects, change) = ([], Change()) }
    if change == Change() { return effects }
    if has(.acknowledgesBeforeSync), change.keptEntries != nil { return effects + [.save(change)] }
    return [.save(change)] + effects
  }

  /// With leases, a node that has heard from a leader does not help another one to become the leader.
  private func mustNotVote(at now: Duration) -> Bool {
    if !configuration.leasesReads || has(.votesDuringLease) { return false }
    var contact = lastContact
    if case .leader(let leadership) = role {
      guard let heard = leadership.lastContact(with: others, at: now) else { return false }
      contact = heard
    }
    return now < contact + configuration.electionTimeout.lowerBound
  }

  /// Becomes a follower of `leader`, if that is known.
  mutating func follow(_ leader: Int?, in term: UInt64, at now: Duration) {
    if term > self.term { setVote(TermAndVote(term: term)) }
    if case .leader(let leadership) = role {
      for request in leadership.allRequests { emit(.refuse(request: request, leader: leader)) }
      beginElectionTimeout(at: now)
    }
    if case .candidate(_, let end) = role { deadline = end }
    role = .follower(leader: leader)
  }

  mutating func hasHeardLeader(at now: Duration) {
    lastContact = now
    if !has(.keepsElectionTimer) { beginElectionTimeout(at: now) }
  }

  mutating func setVote(_ vote: TermAndVote) {
    self.vote = vote
    if has(.forgetsTermAndVote) { return }
    change.vote = has(.forgetsVote) ? TermAndVote(term: vote.term) : vote
  }

  mutating func append(_ entry: LogEntry) {
    change.keptEntries = change.keptEntries ?? log.lastIndex
    change.newEntries.append(entry)
    emit(.tell(.appended(index: log.lastIndex + 1, entry, previousTerm: log.lastTerm)))
    log.append(entry)
  }

  /// Removes all entries after the one with the index `index`.
  mutating func removeEntries(after index: Int) {
    // An input removes entries before it appends some, and at most once.
    change.keptEntries = min(change.keptEntries ?? index, index)
    log.removeAll(after: index)
  }

  /// Commits the entries up to `index`, and applies them.
  mutating func commit(upTo index: Int, requests: [Int: UInt64] = [:]) {
    while commit < min(index, log.lastIndex) {
      commit += 1
      emit(.apply(index: commit, log[commit], term: term, request: requests[commit]))
    }
  }

  mutating func setDeadline(_ deadline: Duration) { self.deadline = deadline }

  mutating func beginElectionTimeout(at now: Duration) {
    let timeout = configuration.electionTimeout
    let fraction = Double(random.next() >> 11) / Double(1 << 53)
    deadline = now + timeout.lowerBound + (timeout.upperBound - timeout.lowerBound) * fraction
  }
}

/// What a node tells whoever observes it.
enum RaftEvent: Hashable, Sendable {
  case askedForVotes(term: UInt64)
  case voted(term: UInt64, candidate: Int)
  case becameLeader(term: UInt64, RaftLog)
  case appended(index: Int, LogEntry, previousTerm: UInt64)
  /// The node carries out the command of a committed entry. It is in the term `term`.
  case applied(index: Int, LogEntry, term: UInt64)
}

/// Random numbers for timeouts (Steele, Lea and Flood, 2014).
struct SplitMix: RandomNumberGenerator, Sendable {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
    return mixed ^ mixed >> 31
  }
}
