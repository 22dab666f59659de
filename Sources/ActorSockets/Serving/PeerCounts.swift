internal import SocketSystem

// Counts the connections of each peer. A peer is an IPv4 address, or the /64 network of an IPv6 address, because one host
// commonly has a whole /64. Unix sockets are not counted.

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

  /// `nil` for no limit, in which case nothing is counted.
  private let limit: Int?
  private var counts: [Peer: Int] = [:]
  /// The peer as which each connection was counted.
  private var counted: [UInt64: Peer] = [:]

  init(limit: Int?) { self.limit = limit }

  /// `others` is the number of the peer's connections that are counted elsewhere.
  func hasRoom(for address: SocketAddress?, beside others: @autoclosure () -> Int = 0) -> Bool {
    guard let limit, let peer = Peer(address) else { return true }
    return counts[peer, default: 0] + others() < limit
  }

  func connections(of address: SocketAddress?) -> Int { Peer(address).flatMap { counts[$0] } ?? 0 }

  mutating func enter(_ connection: UInt64, from address: SocketAddress?) {
    guard limit != nil, let peer = Peer(address), counted[connection] == nil else { return }
    counted[connection] = peer
    counts[peer, default: 0] += 1
  }

  mutating func leave(_ connection: UInt64) {
    guard let peer = counted.removeValue(forKey: connection), let count = counts[peer] else { return }
    counts[peer] = count > 1 ? count - 1 : nil
  }

  var peers: Int { counts.count }
}
