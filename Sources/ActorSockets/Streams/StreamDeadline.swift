// The reactor stores a number, the tag, with each deadline. The tag says what the deadline is for. Each kind of handler has one
// enum for its tags, so that all its numbers are assigned in one place. A number that the enum does not know stops the program
// (`EventHandler`).

/// The tags of a stream's deadlines.
package enum StreamDeadline: RawRepresentable, Hashable, Sendable {
  case read(UInt64)
  case write(UInt64)
  case close
  case tail
  case idle
  case acknowledgement
  case grace

  package var rawValue: UInt64 {
    switch self {
    case .close: 0
    case .read(let id): id << 2 | 1
    case .write(let id): id << 2 | 2
    case .tail: 4
    case .idle: 8
    case .acknowledgement: 12
    case .grace: 16
    }
  }

  package init?(rawValue: UInt64) {
    switch (rawValue & 3, rawValue) {
    case (1, _): self = .read(rawValue >> 2)
    case (2, _): self = .write(rawValue >> 2)
    case (_, 0): self = .close
    case (_, 4): self = .tail
    case (_, 8): self = .idle
    case (_, 12): self = .acknowledgement
    case (_, 16): self = .grace
    default: return nil
    }
  }
}

/// The tags of the deadlines of a connection: those of its stream, and its own.
package enum ConnectionDeadline<Own: RawRepresentable<UInt64> & Hashable & Sendable>: RawRepresentable, Hashable,
  Sendable
{
  case stream(StreamDeadline)
  case own(Own)

  package var rawValue: UInt64 {
    switch self {
    case .stream(let deadline): deadline.rawValue
    case .own(let deadline): deadline.rawValue << 2 | 3
    }
  }

  package init?(rawValue: UInt64) {
    if rawValue & 3 == 3 {
      guard let own = Own(rawValue: rawValue >> 2) else { return nil }
      self = .own(own)
    } else {
      guard let stream = StreamDeadline(rawValue: rawValue) else { return nil }
      self = .stream(stream)
    }
  }
}
