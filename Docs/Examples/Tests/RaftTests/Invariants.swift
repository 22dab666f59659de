import Synchronization

@testable import Raft

/// What Raft promises of all nodes together. It belongs to the test, so it sees the nodes before and after their crashes.
final class Invariants: Sendable {
  enum Violation: Error, Hashable {
    /// Two nodes were leaders in one term.
    case twoLeaders(term: UInt64)
    /// A leader's log lacks a committed entry, or has another one in its place.
    case incompleteLeader(term: UInt64, index: Int)
    /// Two logs have an entry of the same term at the same index, and the entries or those before them differ.
    case differentLogs(index: Int, term: UInt64)
    /// Two nodes have applied different entries with one index.
    case differentValues(index: Int)
  }

  private struct Place: Hashable {
    let index: Int
    let term: UInt64
  }

  private struct State {
    var leaders: [UInt64: Int] = [:]
    var appended: [Place: (command: Command, previousTerm: UInt64)] = [:]
    /// Each entry that a node has applied, and the lowest term in which one did.
    var applied: [Int: (entry: LogEntry, term: UInt64)] = [:]
  }

  private let state = Mutex(State())

  /// The number of entries that a node has applied.
  var applied: Int { state.withLock { $0.applied.count } }
  /// The number of terms with a leader.
  var leaders: Int { state.withLock { $0.leaders.count } }

  func observe(_ node: Int, _ event: RaftEvent) throws {
    try state.withLock { state in
      switch event {
      case .becameLeader(let term, let log):
        if state.leaders.updateValue(node, forKey: term) ?? node != node { throw Violation.twoLeaders(term: term) }
        // A leader of a later term may have committed more before this one has counted its votes.
        for (index, applied) in state.applied where applied.term < term {
          if index > log.lastIndex || log[index] != applied.entry {
            throw Violation.incompleteLeader(term: term, index: index)
          }
        }
      case .appended(let index, let entry, let previousTerm):
        let place = Place(index: index, term: entry.term)
        let known = state.appended[place] ?? (entry.command, previousTerm)
        if known != (entry.command, previousTerm) { throw Violation.differentLogs(index: index, term: entry.term) }
        state.appended[place] = known
      case .applied(let index, let entry, let term):
        let known = state.applied[index] ?? (entry, term)
        if known.entry != entry { throw Violation.differentValues(index: index) }
        state.applied[index] = (entry, min(known.term, term))
      case .askedForVotes, .voted: break
      }
    }
  }
}
