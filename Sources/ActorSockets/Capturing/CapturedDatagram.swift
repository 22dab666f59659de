internal import SocketSystem

/// The UDP header of a captured packet: RFC 768.
package struct CapturedDatagram {
  package var source: CapturedEnd
  package var destination: CapturedEnd
  package var hopLimit: UInt8
  package var trafficClass: UInt8

  private static let udpHeader = 8

  package init(source: CapturedEnd, destination: CapturedEnd, hopLimit: UInt8 = 64, trafficClass: UInt8 = 0) {
    self.source = source
    self.destination = destination
    self.hopLimit = hopLimit
    self.trafficClass = trafficClass
  }

  /// The most bytes that fit into one packet of a capture.
  var largestPayload: Int {
    CapturedPacket.largest - CapturedIPHeader.length(source.address.count) - Self.udpHeader
  }

  package func encoded(_ payload: Span<UInt8>) -> [UInt8] {
    var header = CapturedIPHeader(source: source.address, destination: destination.address, protocolNumber: 17)
    header.hopLimit = hopLimit
    header.trafficClass = trafficClass
    let length = Self.udpHeader + payload.count
    var packet = header.encoded(length)
    let start = packet.count
    packet.reserveCapacity(start + length)
    packet += source.port.bigEndianBytes + destination.port.bigEndianBytes + UInt16(length).bigEndianBytes + [0, 0]
    packet.append(copying: payload)
    let checksum = header.checksum(of: packet.span.extracting(start..<packet.count))
    // Zero would mean that the datagram has no checksum.
    packet.replaceSubrange(start + 6..<start + 8, with: (checksum == 0 ? .max : checksum).bigEndianBytes)
    return packet
  }
}
