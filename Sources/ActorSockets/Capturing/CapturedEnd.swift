package import SocketSystem

package struct CapturedEnd: Equatable {
  /// 4 bytes for IPv4, 16 bytes for IPv6. Both ends of a packet have the same length.
  package var address: [UInt8]
  package var port: UInt16
}

extension CapturedEnd {
  /// If one end has no IP address, both get stand-ins, which are addresses for documentation: RFC 3849. The end that connected has
  /// `2001:db8:0:1:` followed by the connection's number, and the port 49152. The end that accepted has `2001:db8:0:2:`, the number, and
  /// the port 49153. So each connection has addresses of its own.
  static func ends(
    local: SocketAddress?, remote: SocketAddress?, number: UInt64, isAccepted: Bool
  ) -> (local: CapturedEnd, remote: CapturedEnd) {
    if let local, let remote, let ends = ends(local, remote) { return ends }
    let (connecting, accepting) = (standIn(1, number), standIn(2, number))
    return isAccepted ? (accepting, connecting) : (connecting, accepting)
  }

  /// The ends of a datagram. Without IP addresses, the endpoint has `2001:db8:0:3:` followed by its number, and the port 49154. A peer has
  /// `2001:db8:0:4:` followed by a number that its name has in every capture, 0 for a peer without a name, and the port 49155.
  static func ends(
    ofDatagram local: SocketAddress, remote: SocketAddress?, number: UInt64
  ) -> (local: CapturedEnd, remote: CapturedEnd) {
    if let remote, let ends = ends(local, remote) { return ends }
    var name: UInt64 = 0
    if case .unix(let path)? = remote, !path.isUnnamed {
      // FNV-1a.
      name = path.bytes.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    }
    return (standIn(3, number), standIn(4, name))
  }

  /// `nil` if one of them is no IP address.
  private static func ends(_ local: SocketAddress, _ remote: SocketAddress) -> (CapturedEnd, CapturedEnd)? {
    var (local, remote) = (local.unmapped, remote.unmapped)
    if local.isIPv4 != remote.isIPv4 {
      // A socket for both families that is bound to all addresses.
      if local.isUnspecified, remote.isIPv4, let port = local.port {
        local = .ipv4(.any, port: port)
      } else {
        (local, remote) = (local.mapped, remote.mapped)
      }
    }
    guard let local = CapturedEnd(local), let remote = CapturedEnd(remote) else { return nil }
    return (local, remote)
  }

  package init?(_ address: SocketAddress) {
    switch address {
    case .ipv4(let ipv4, let port): self.init(address: ipv4.bytes, port: port)
    case .ipv6(let ipv6, let port): self.init(address: ipv6.bytes, port: port)
    case .unix: return nil
    }
  }

  private static func standIn(_ side: UInt8, _ number: UInt64) -> CapturedEnd {
    let network: [UInt8] = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, side]
    return CapturedEnd(address: network + number.bigEndianBytes, port: 49_151 + UInt16(side))
  }
}
