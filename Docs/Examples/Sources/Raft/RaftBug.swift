/// The twelve classic mistakes in programs of Raft. A test switches one on, to show that simulations find it. A real node makes no mistake of these.
enum RaftBug: Int, Hashable, Sendable, CaseIterable {
  /// The vote is not on the disk: a node that restarts votes twice in a term.
  case forgetsVote = 1
  /// A leader counts the copies of an entry of an earlier term, and commits it.
  case commitsEarlierTerm
  /// A node that votes, or hears from a leader, does not begin its election timeout anew.
  case keepsElectionTimer
  /// A leader answers reads without asking whether it still is the leader.
  case readsWithoutMajority
  /// A message that was sent earlier removes entries that came after it.
  case truncatesOnStaleAppend
  /// A node accepts entries although it lacks the one before them.
  case acceptsGap
  /// A node says that it has entries before they are on the disk.
  case acknowledgesBeforeSync
  /// A request that a client repeats is carried out twice.
  case appliesTwice
  /// A node votes for a candidate whose log lacks entries.
  case votesForOldLog
  /// Neither the term nor the vote is on the disk.
  case forgetsTermAndVote
  /// A node commits entries that it has not compared with those of the leader.
  case commitsUnconfirmed
  /// A node votes while it hears from a leader, which may have a lease.
  case votesDuringLease
}
