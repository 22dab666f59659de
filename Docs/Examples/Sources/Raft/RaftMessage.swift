/// When a leader sent a message, on its own clock, and in which round of messages. The answer has the same stamp.
struct Stamp: Hashable, Sendable {
  var round: UInt64
  var sent: Duration
}

/// What a node says to another one. Each message also has the sender's term.
enum RaftMessage: Hashable, Sendable {
  /// A candidate asks for a vote. It says how far its log goes.
  case askForVote(lastIndex: Int, lastTerm: UInt64)
  case vote(isGranted: Bool)
  /// A leader sends entries that follow `previous`, perhaps no entries, and says what it has committed.
  case append(Append)
  /// All entries up to `index` are those of the leader.
  case matches(index: Int, Stamp)
  /// The entry `previous` of a leader's message is missing, or another one. The log ends with `last`.
  case differs(previous: Int, last: Int, Stamp)

  struct Append: Hashable, Sendable {
    var previous: Int
    var previousTerm: UInt64
    var entries: [LogEntry]
    var commit: Int
    var stamp: Stamp
  }
}

/// What a client asks.
enum ClientRequest: Hashable, Sendable {
  case put(key: [UInt8], value: [UInt8], Session)
  case get(key: [UInt8])
}

/// What a node answers.
enum ClientAnswer: Hashable, Sendable {
  case value([UInt8]?)
  /// This node is not the leader, or no longer. The request may be carried out nevertheless, once.
  case notLeader(leader: Int?)
}

/// A message, a request or an answer. A connection carries them, each after its length.
enum Packet: Hashable, Sendable {
  case message(from: Int, term: UInt64, RaftMessage)
  case request(ClientRequest)
  case answer(ClientAnswer)

  /// The largest number of bytes of a packet.
  static let longest = 1 << 20
  /// The largest number of bytes of a key or a value.
  static let longestField = 4_000
}
