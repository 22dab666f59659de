internal import SocketSystem

extension SimulatedNetwork {
  /// What a trace says about a packet.
  struct PacketEvent: CustomStringConvertible {
    let source: SocketAddress
    let destination: SocketAddress
    /// Whether the packet was lost.
    let isLost: Bool
    /// The bits of the flags as on the wire: FIN 1, SYN 2, RST 4.
    let flags: UInt8
    let sequence: Int
    let acknowledged: Int?
    /// The bytes of the program.
    let count: Int

    init(_ packet: Packet, isLost: Bool) {
      let segment = packet.segment
      source = packet.source
      destination = packet.destination
      self.isLost = isLost
      flags = (segment.isFin ? 1 : 0) | (segment.isSyn ? 2 : 0) | (segment.isReset ? 4 : 0)
      sequence = segment.sequence
      acknowledged = segment.acknowledged
      count = segment.bytes.count
    }

    /// For example `10.0.0.2:40001 > 10.0.0.1:80 FIN, 5 bytes from 1, acknowledges 9, lost`.
    var description: String {
      var parts: [String] = []
      if flags & 2 != 0 { parts.append("SYN") }
      if flags & 1 != 0 { parts.append("FIN") }
      if flags & 4 != 0 { parts.append("RST") }
      if count > 0 { parts.append("\(count) bytes from \(sequence)") }
      if let acknowledged { parts.append("acknowledges \(acknowledged)") }
      if isLost { parts.append("lost") }
      return "\(source) > \(destination) \(parts.joined(separator: ", "))"
    }
  }
}
