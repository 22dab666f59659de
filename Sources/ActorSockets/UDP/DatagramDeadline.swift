/// The tags of a datagram endpoint's deadlines.
package enum DatagramDeadline: RawRepresentable, Hashable, Sendable {
  case receive(UInt64)
  case send(UInt64)
  case close
  /// It is time to try to send again after a shortage whose end no event announces.
  case retry
  /// The search for an address may go on without the answer that it waits for.
  case search(UInt64)

  package var rawValue: UInt64 {
    switch self {
    case .close: 0
    case .receive(let id): id << 2 | 1
    case .send(let id): id << 2 | 2
    case .retry: 4
    case .search(let id): id << 2 | 3
    }
  }

  package init?(rawValue: UInt64) {
    switch (rawValue & 3, rawValue) {
    case (1, _): self = .receive(rawValue >> 2)
    case (2, _): self = .send(rawValue >> 2)
    case (3, _): self = .search(rawValue >> 2)
    case (_, 0): self = .close
    case (_, 4): self = .retry
    default: return nil
    }
  }
}
