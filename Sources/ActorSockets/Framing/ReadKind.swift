package enum ReadKind: Sendable {
  /// The bytes that are available, at least one.
  case any(upTo: Int)
  /// The bytes that are available, which stay in the buffer.
  case peek(upTo: Int)
  /// A number of bytes. With `orEnd`, the end of the stream before the first byte is not an error.
  case exactly(Int, orEnd: Bool = false)
  /// All bytes through a delimiter. `orEnd` means the same as in `exactly`.
  case until(Delimiter, maximumLength: Int, orEnd: Bool = false)
  /// A line of text, without its ending.
  case line(LineEnding, maximumLength: Int)
  /// All bytes until the peer finishes.
  case toEnd(maximumLength: Int)
  /// A message with a length prefix, without the prefix.
  case message(LengthPrefix, maximumLength: Int)
  case parse(ErasedParser)
  /// All messages of one of these kinds that are available, at least one.
  indirect case batch(of: ReadKind)
  /// A borrow of the bytes, once more than this many are available. -1 is the borrow of an upgrade.
  case borrow(moreThan: Int)
}

package enum ReadOutcome: Sendable {
  case bytes([UInt8])
  case messages([[UInt8]])
  case lines([String])
  /// What a parser has found: a `ParsedValue`.
  case parsed(any AnyObject & Sendable)
  /// The end of the stream, in reads for which it is not an error.
  case endOfStream
  case borrow
}

extension ReadOutcome {
  /// Counted in operations of a connection's budget.
  var cost: Int {
    switch self {
    case .messages(let messages): Self.cost(ofBatch: messages.count)
    case .lines(let lines): Self.cost(ofBatch: lines.count)
    case .bytes, .parsed, .endOfStream, .borrow: 1
    }
  }

  /// A line of a batch costs a sixteenth of a line that has its own read.
  static func cost(ofBatch count: Int) -> Int { (count + 15) / 16 }
}

package enum OperationOutcome: Sendable {
  case read(ReadOutcome)
  case written
  /// The result of a receive; empty if the receive may borrow the datagrams.
  case datagrams([Datagram])
}

extension ReadKind {
  /// Whether the end of the stream before the first byte is an outcome of the read, and no error.
  var mayFindEnd: Bool {
    switch self {
    case .any, .peek, .line, .message, .parse, .borrow(moreThan: 0...): true
    // The borrow of an upgrade ends only with the stream. A read to the end needs the peer's own end: one that a drain makes up would
    // be taken for the end of the bytes.
    case .borrow, .toEnd: false
    case .exactly(_, let orEnd), .until(_, _, let orEnd): orEnd
    case .batch(let kind): kind.mayFindEnd
    }
  }

  var parses: Bool {
    switch self {
    case .parse, .batch(of: .parse): true
    default: false
    }
  }

  var canLookAhead: Bool {
    switch self {
    case .exactly, .until, .line, .message, .parse: true
    case .any, .peek, .toEnd, .borrow, .batch: false
    }
  }

  /// Whether the stream is between two messages when such a read has got no byte.
  var isFramed: Bool {
    switch self {
    case .any, .peek, .toEnd, .borrow: false
    case .exactly, .until, .line, .message, .parse, .batch: true
    }
  }

  /// Throws `.invalidArgument` for a read that can never succeed.
  func validate() throws(SocketError) {
    switch self {
    case .any(let limit), .peek(let limit):
      if limit <= 0 { throw .invalid("read", "up to \(limit) bytes is nothing, ask for at least one") }
    case .exactly(let length, let orEnd):
      // With `orEnd`, reads of 0 bytes would produce messages forever.
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
    case .message(_, let maximum), .toEnd(let maximum):
      if maximum < 0 { throw .invalid("read", "\(maximum) is not a maximum length") }
    case .parse(let parser):
      if parser.maximumLength < 1 {
        throw .invalid("read", "the maximum of \(parser.maximumLength) has no room for a message")
      }
    case .batch(let kind):
      switch kind {
      case .any, .peek, .toEnd, .borrow, .batch: throw .invalid("read", "a batch is one of lines or messages")
      // A batch of empty messages would never end.
      case .exactly(0, _): throw .invalid("read", "a batch needs elements of at least one byte")
      case .exactly, .until, .line, .message, .parse: try kind.validate()
      }
    case .borrow:
      break
    }
  }
}
