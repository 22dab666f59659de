internal import SocketSystem

extension SimulatedNetwork {
  struct PacketEvent {
    /// The numbers are those on the wire.
    enum Kind: UInt8 {
      case icmp = 1, tcp = 6, udp = 17
    }

    let source: SocketAddress
    let destination: SocketAddress
    let kind: Kind
    /// How often it arrives: 0 if the link loses it.
    let copies: Int
    /// Of TCP, as on the wire: FIN 1, SYN 2, RST 4.
    var flags: UInt8 = 0
    var sequence = 0
    var acknowledged: Int?
    /// The bytes of the program; of ICMP, the `errno`.
    let count: Int
    /// Of the bytes, and of what else the packet has that is not above.
    let hash: UInt64

    init(_ packet: Packet, copies: Int) {
      source = packet.source
      destination = packet.destination
      self.copies = copies
      var rest = TraceHash()
      switch packet.content {
      case .segment(let segment):
        kind = .tcp
        flags = (segment.isFin ? 1 : 0) | (segment.isSyn ? 2 : 0) | (segment.isReset ? 4 : 0)
        sequence = segment.sequence
        acknowledged = segment.acknowledged
        count = segment.bytes.count
        rest.mix(segment.bytes.span)
        rest.mix(UInt64(segment.window))
        for block in segment.blocks { rest.mix(UInt64(block.lowerBound) << 32 ^ UInt64(block.upperBound)) }
      case .datagram(let datagram):
        kind = .udp
        count = datagram.bytes.count
        rest.mix(datagram.bytes.span)
        rest.mix(UInt64(datagram.hopLimit) << 8 | UInt64(datagram.trafficClass))
      case .report(let report):
        kind = .icmp
        count = Int(report.errno)
        rest.mix(report.flow.local)
        rest.mix(report.flow.remote)
        rest.mix(UInt64(bitPattern: Int64(report.sequence ?? -1)))
        rest.mix(UInt64(report.wire.type) << 8 | UInt64(report.wire.code))
      }
      hash = rest.value
    }

    /// For example `client:40001 > server:80 FIN, 5 bytes from 1, acknowledges 9, lost`. Addresses of other hosts than these are numbers.
    func text(_ hosts: [String]) -> String {
      var parts: [String] = []
      switch kind {
      case .tcp:
        if flags & 2 != 0 { parts.append("SYN") }
        if flags & 1 != 0 { parts.append("FIN") }
        if flags & 4 != 0 { parts.append("RST") }
        if count > 0 { parts.append("\(count) bytes from \(sequence)") }
        if let acknowledged { parts.append("acknowledges \(acknowledged)") }
      case .udp: parts.append("a datagram of \(count) bytes")
      case .icmp: parts.append("reports error \(count)")
      }
      if copies == 0 { parts.append("lost") }
      if copies == 2 { parts.append("arrives twice") }
      let ends = [source, destination].map { address in
        let host = HostAddresses.number(of: address).flatMap { hosts.indices.contains($0) ? hosts[$0] : nil }
        return host.map { "\($0):\(address.port ?? 0)" } ?? "\(address)"
      }
      return "\(ends[0]) > \(ends[1]) \(parts.joined(separator: ", "))"
    }
  }
}
