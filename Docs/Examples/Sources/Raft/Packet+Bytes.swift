extension Packet {
  var bytes: [UInt8] {
    var writer = ByteWriter()
    switch self {
    case .message(let sender, let term, let message):
      writer.write(kind: 0)
      writer.write(sender)
      writer.write(term)
      writer.write(message)
    case .request(.put(let key, let value, let session)):
      writer.write(kind: 1)
      writer.write(key)
      writer.write(value)
      writer.write(session)
    case .request(.get(let key)):
      writer.write(kind: 2)
      writer.write(key)
    case .answer(.value(let value)):
      writer.write(kind: value == nil ? 3 : 4)
      if let value { writer.write(value) }
    case .answer(.notLeader(let leader)):
      writer.write(kind: 5)
      writer.write(leader ?? 0)
    }
    return writer.bytes
  }

  init(_ bytes: [UInt8]) throws {
    var reader = ByteReader(bytes)
    switch try reader.kind() {
    case 0: self = .message(from: try reader.index(), term: try reader.number(), try reader.message())
    case 1: self = .request(.put(key: try reader.field(), value: try reader.field(), try reader.session()))
    case 2: self = .request(.get(key: try reader.field()))
    case 3: self = .answer(.value(nil))
    case 4: self = .answer(.value(try reader.field()))
    case 5:
      let leader = try reader.index()
      self = .answer(.notLeader(leader: leader == 0 ? nil : leader))
    default: throw ByteReader.Malformed()
    }
    if !reader.isAtEnd { throw ByteReader.Malformed() }
  }
}

extension ByteWriter {
  fileprivate mutating func write(_ message: RaftMessage) {
    switch message {
    case .askForVote(let index, let term):
      write(kind: 0)
      write(index)
      write(term)
    case .vote(let isGranted): write(kind: isGranted ? 1 : 2)
    case .append(let append):
      write(kind: 3)
      write(append.previous)
      write(append.previousTerm)
      write(append.commit)
      write(append.stamp)
      write(append.entries.count)
      for entry in append.entries { write(entry) }
    case .matches(let index, let stamp):
      write(kind: 4)
      write(index)
      write(stamp)
    case .differs(let previous, let last, let stamp):
      write(kind: 5)
      write(previous)
      write(last)
      write(stamp)
    }
  }

  private mutating func write(_ stamp: Stamp) {
    write(stamp.round)
    write(stamp.sent)
  }
}

extension ByteReader {
  fileprivate mutating func message() throws -> RaftMessage {
    switch try kind() {
    case 0: return .askForVote(lastIndex: try index(), lastTerm: try number())
    case 1: return .vote(isGranted: true)
    case 2: return .vote(isGranted: false)
    case 3:
      let (previous, term, commit, stamp) = (try index(), try number(), try index(), try stamp())
      let entries = try (0..<index()).map { _ in try entry() }
      return .append(.init(previous: previous, previousTerm: term, entries: entries, commit: commit, stamp: stamp))
    case 4: return .matches(index: try index(), try stamp())
    case 5: return .differs(previous: try index(), last: try index(), try stamp())
    default: throw Malformed()
    }
  }

  private mutating func stamp() throws -> Stamp { Stamp(round: try number(), sent: try time()) }
}
