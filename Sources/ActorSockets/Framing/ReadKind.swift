/// What a read asks for.
package enum ReadKind: Sendable {
  /// What there is, at least one byte.
  case any(upTo: Int)
  /// The same, left in the buffer.
  case peek(upTo: Int)
  /// So many bytes. `orEnd`: the end of the stream in place of the first one is no error.
  case exactly(Int, orEnd: Bool = false)
  /// Everything through a delimiter. `orEnd` as above.
  case until(Delimiter, maximumLength: Int, orEnd: Bool = false)
  /// A line of text; the ending is taken off.
  case line(LineEnding, maximumLength: Int)
  /// A message with its length in front, which is taken off.
  case message(LengthPrefix, maximumLength: Int)
  /// As many of these as there are, at least one.
  indirect case batch(of: ReadKind)
  /// The right to look at the bytes, as soon as there are more than so many.
  case borrow(moreThan: Int)
}

/// What a read brought.
package enum ReadOutcome: Sendable {
  /// Bytes.
  case bytes([UInt8])
  /// A batch of messages.
  case messages([[UInt8]])
  /// A batch of lines.
  case lines([String])
  /// The end of the stream, where that is no error.
  case endOfStream
  /// The right to look at the bytes.
  case borrow
}

extension ReadOutcome {
  /// What it counts for in the share of a connection: a line in a batch is a sixteenth of one that is read by itself.
  var cost: Int {
    switch self {
    case .messages(let messages): (messages.count + 15) / 16
    case .lines(let lines): (lines.count + 15) / 16
    case .bytes, .endOfStream, .borrow: 1
    }
  }
}

/// What came of an operation of either queue.
package enum OperationOutcome: Sendable {
  /// What a read brought.
  case read(ReadOutcome)
  /// A write is done.
  case written
  /// What a receive brought; nothing if it may look at what there is.
  case datagrams([Datagram])
}

extension ReadKind {
  /// Throws `.invalidArgument` for what can never succeed.
  func validate() throws(SocketError) {
    switch self {
    case .any(let limit), .peek(let limit):
      if limit <= 0 { throw .invalid("read", "up to \(limit) bytes is nothing, ask for at least one") }
    case .exactly(let length, let orEnd):
      // Messages of no bytes would come for ever.
      if length < (orEnd ? 1 : 0) { throw .invalid("read", "\(length) is not a length") }
    case .until(let delimiter, let maximum, _):
      if delimiter.bytes.isEmpty { throw .invalid("read", "the delimiter is empty") }
      if maximum < delimiter.bytes.count {
        throw .invalid("read", "the maximum of \(maximum) has no room for a delimiter")
      }
    case .line(let ending, let maximum):
      if maximum < (ending == .crlf ? 2 : 1) {
        throw .invalid("read", "the maximum of \(maximum) has no room for a line")
      }
    case .message(_, let maximum):
      if maximum < 0 { throw .invalid("read", "\(maximum) is not a maximum length") }
    case .batch(let kind):
      switch kind {
      case .any, .peek, .borrow, .batch: throw .invalid("read", "a batch is one of lines or messages")
      // Of no bytes there are as many as one likes.
      case .exactly(0, _): throw .invalid("read", "a batch of nothing has no end")
      case .exactly, .until, .line, .message: try kind.validate()
      }
    case .borrow:
      break
    }
  }
}
