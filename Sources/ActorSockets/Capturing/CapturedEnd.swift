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
    if let local = local?.unmapped, let remote = remote?.unmapped {
      let isSame = local.isIPv4 == remote.isIPv4
      if let local = CapturedEnd(isSame ? local : local.mapped),
        let remote = CapturedEnd(isSame ? remote : remote.mapped)
      {
        return (local, remote)
      }
    }
    let (connecting, accepting) = (standIn(1, number), standIn(2, number))
    return isAccepted ? (accepting, connecting) : (connecting, accepting)
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
