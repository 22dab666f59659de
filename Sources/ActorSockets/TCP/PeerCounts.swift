internal import SocketSystem

// How many connections each peer has, a pure count. A peer is an IPv4 address, or the /64 network of an IPv6 address: that much
// anybody can have for himself. Unix sockets have no peers in this sense.

struct PeerCounts {
  private enum Peer: Hashable {
    case ipv4(UInt32)
    case ipv6(network: UInt64)

    init?(_ address: SocketAddress?) {
      switch address?.unmapped {
      case .ipv4(let address, _): self = .ipv4(address.rawValue)
      case .ipv6(let address, _): self = .ipv6(network: address.high)
      case .unix, nil: return nil
      }
    }
  }

  /// The most connections of one peer; `nil` for any number, and then nothing is counted.
  private let limit: Int?
  private var counts: [Peer: Int] = [:]

  init(limit: Int?) { self.limit = limit }

  /// Whether there is a place for one more of this peer's.
  func hasRoom(for address: SocketAddress?) -> Bool {
    guard let limit, let peer = Peer(address) else { return true }
    return counts[peer, default: 0] < limit
  }

  /// A connection of this peer's began.
  mutating func enter(_ address: SocketAddress?) {
    if limit != nil, let peer = Peer(address) { counts[peer, default: 0] += 1 }
  }

  /// A connection of this peer's has gone.
  mutating func leave(_ address: SocketAddress?) {
    guard limit != nil, let peer = Peer(address), let count = counts[peer] else { return }
    counts[peer] = count > 1 ? count - 1 : nil
  }

  /// How many peers there are: those without a connection leave nothing.
  var peers: Int { counts.count }
}
