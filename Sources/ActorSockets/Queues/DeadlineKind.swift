package import EpollReactor

/// The kinds of deadlines, of all handlers of this package's libraries. A handler that gets a kind which it never arms stops the program.
package enum DeadlineKind: UInt8, Sendable {
  // Streams. A read or a write has the number of the operation.
  case read
  /// A sequence ends, and so does its read.
  case readEnd
  case write
  case close
  /// The time that the peer has to take the last bytes.
  case tail
  case idle
  /// More bytes may move at a limited rate.
  case pause
  /// It is time to ask again which bytes the peer has.
  case acknowledgement
  /// The time that a new connection has for its first byte, in a drain.
  case grace

  // Connecting.
  /// The time for connecting as a whole. A call that connects to a listener in memory has a number.
  case connect
  /// The plan's next step is due.
  case nextAttempt
  case tryLimit
  case nextTry
  /// The time for the header of an accepted connection.
  case header
  /// A full unix socket is tried once more.
  case probe
  case handshake
  /// The time that the peer has to finish, after this side has.
  case linger

  // Listeners and endpoints. The calls have numbers.
  case accept
  case drain
  /// It is time to try again after a shortage whose end no event announces.
  case retry
  case receive
  case receiveEnd
  case send
  /// The search for an address may go on without the answer that it waits for.
  case search
  case lookUp

  // Pools. The calls have numbers.
  case acquire
  /// An idle connection expires, a pause between two attempts to connect is over, or a drain is.
  case upkeep

  /// A reactor has not answered an inspection in time. The question has a number.
  case answer
}

extension DeadlineTag {
  @inline(__always)
  package init(_ kind: DeadlineKind, _ id: UInt64 = 0) { self.init(kind: kind.rawValue, id: id) }

  package var kind: DeadlineKind? { DeadlineKind(rawValue: number) }

  package func isUnexpected(by handler: Any.Type) -> Never {
    // Not a failed precondition: that says nothing in optimised programs.
    fatalError("\(handler) got a deadline that it never arms: \(kind.map { "\($0)" } ?? "\(number)"), \(id)")
  }
}
