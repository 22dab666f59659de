// Who becomes the leader.

extension RaftMachine {
  mutating func askForVotes(at now: Duration) {
    setVote(TermAndVote(term: term + 1, vote: configuration.id))
    beginElectionTimeout(at: now)
    emit(.tell(.askedForVotes(term: term)))
    askAgain(except: [configuration.id], until: deadline, at: now)
  }

  /// Asks the nodes whose votes are missing. A question or an answer may have been lost.
  mutating func askAgain(except votes: Set<Int>, until end: Duration, at now: Duration) {
    role = .candidate(votes: votes, end: end)
    setDeadline(min(end, now + configuration.heartbeat))
    for node in others where !votes.contains(node) {
      send(.askForVote(lastIndex: log.lastIndex, lastTerm: log.lastTerm), to: node)
    }
  }

  mutating func answerCandidate(
    _ candidate: Int, of term: UInt64, _ lastIndex: Int, _ lastTerm: UInt64, at now: Duration
  ) {
    let isFree = term == self.term && (vote.vote ?? candidate) == candidate
    // Every committed entry is in the log of one of the voters. So it has to be in the log of the one who gets the votes.
    let isUpToDate = (lastTerm, lastIndex) >= (log.lastTerm, log.lastIndex) || has(.votesForOldLog)
    guard isFree, isUpToDate, case .follower = role else { return send(.vote(isGranted: false), to: candidate) }
    if vote.vote == nil { setVote(TermAndVote(term: term, vote: candidate)) }
    if !has(.keepsElectionTimer) { beginElectionTimeout(at: now) }
    emit(.tell(.voted(term: term, candidate: candidate)))
    send(.vote(isGranted: true), to: candidate)
  }

  mutating func count(voteOf node: Int, at now: Duration) {
    guard case .candidate(var votes, let end) = role else { return }
    votes.insert(node)
    role = .candidate(votes: votes, end: end)
    guard isMajority(votes.count) else { return }
    var leadership = Leadership(firstIndex: log.lastIndex + 1)
    for other in others { leadership.copies[other] = Leadership.Copy(next: log.lastIndex + 1) }
    emit(.tell(.becameLeader(term: term, log)))
    append(LogEntry(term: term, command: .nothing))
    sendToAll(&leadership, at: now)
    role = .leader(leadership)
  }
}
