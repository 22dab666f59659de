internal import SocketSystem

// Destinations that have no room.

extension SendQueue {
  /// A destination has no room. Datagrams to it wait until it is time to try again, or until an event.
  ///
  /// - Parameters:
  ///   - address: The destination; `nil` for the peer.
  ///   - now: The time.
  ///   - isAnnounced: Whether an event announces that there is room.
  mutating func full(_ address: SocketAddress?, at now: Int64, isAnnounced: Bool) {
    lines.full(line(of: address), at: now, isAnnounced: isAnnounced)
  }

  /// Makes the lines of an entry's destinations ready, because the entry has no time to wait.
  mutating func forceAttempt(_ id: UInt64) {
    guard !lines.isEmpty, let index = entries.index(of: id), case .datagrams(let datagrams) = entries[index].content
    else {
      return
    }
    for datagram in datagrams { lines.makeReady(line(of: datagram.remoteAddress)) }
  }
}
