// What a follower does with the entries of its leader.

extension RaftMachine {
  mutating func answerLeader(_ leader: Int, of term: UInt64, _ append: RaftMessage.Append, at now: Duration) {
    guard term == self.term else {
      // A leader of an earlier term. It learns the term of this node.
      if term < self.term { send(.differs(previous: append.previous, last: log.lastIndex, append.stamp), to: leader) }
      return
    }
    follow(leader, in: term, at: now)
    hasHeardLeader(at: now)
    guard hasEntry(before: append) else {
      return send(.differs(previous: append.previous, last: log.lastIndex, append.stamp), to: leader)
    }
    let confirmed = append.previous + append.entries.count
    store(append)
    send(.matches(index: confirmed, append.stamp), to: leader)
    // Entries after these may be those of an earlier leader.
    commit(upTo: has(.commitsUnconfirmed) ? append.commit : min(append.commit, confirmed))
  }

  private func hasEntry(before append: RaftMessage.Append) -> Bool {
    if has(.acceptsGap), append.previous == log.lastIndex + 1 { return true }
    return log.term(at: append.previous) == append.previousTerm
  }

  private mutating func store(_ append: RaftMessage.Append) {
    if has(.truncatesOnStaleAppend) {
      if append.previous < log.lastIndex { removeEntries(after: append.previous) }
    }
    for (offset, entry) in append.entries.enumerated() {
      let index = append.previous + 1 + offset
      // An entry with the same index and term is the same one, and so are all before it.
      if log.term(at: index) == entry.term { continue }
      // The rest is of an earlier leader, which has not committed it.
      if index <= log.lastIndex { removeEntries(after: index - 1) }
      self.append(entry)
    }
  }
}
