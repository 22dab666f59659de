internal import SocketSystem

extension SendQueue {
  /// Datagrams to the destination wait until it is time to try again, or until an event. The address is `nil` for the peer.
  mutating func full(_ address: SocketAddress?, at now: Int64, isAnnounced: Bool) {
    lines.full(line(of: address), at: now, isAnnounced: isAnnounced)
  }

  /// An entry has no time to wait: makes the lines of its destinations ready.
  mutating func mustNotWait(_ id: UInt64) {
    immediate.append(id)
    guard !lines.isEmpty, let index = entries.index(of: id), case .datagrams(let datagrams) = entries[index].content
    else {
      return
    }
    for datagram in datagrams { lines.makeReady(line(of: datagram.remoteAddress)) }
  }

  /// Returns each entry once. They expire when nothing more can be sent at once.
  mutating func takeImmediate() -> [UInt64] {
    if immediate.isEmpty { return [] }
    defer { immediate = [] }
    return immediate
  }
}
