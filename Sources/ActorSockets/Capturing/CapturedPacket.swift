// The TCP header of a captured packet: RFC 9293. The network never had the packets of real connections, so their headers contain only what
// programs that read captures need. The checksums are right.

internal import SocketSystem

package struct CapturedPacket {
  package struct Flags: OptionSet {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }
    package static let finish = Flags(rawValue: 1)
    package static let synchronize = Flags(rawValue: 2)
    package static let reset = Flags(rawValue: 4)
    package static let push = Flags(rawValue: 8)
    package static let acknowledge = Flags(rawValue: 16)
  }

  package var source: CapturedEnd
  package var destination: CapturedEnd
  package var sequence: UInt32
  /// The next byte that is expected from the other side. Sent as 0 without the flag `acknowledge`.
  package var acknowledgement: UInt32
  package var flags: Flags
  /// In units of the scale. The largest window by default, so that no segment is beyond it.
  package var window: UInt16
  /// Announced by a SYN: later windows count in units of 2 to the power of this, RFC 7323.
  package var windowScale: UInt8
  /// The most bytes of a segment, announced by a SYN; `nil` for what fits into the largest packet.
  package var segmentSize: UInt16?

  /// In bytes, with the IP header.
  static let largest = 65_535
  private static let tcpHeader = 20

  package init(
    source: CapturedEnd, destination: CapturedEnd, sequence: UInt32, acknowledgement: UInt32, flags: Flags,
    window: UInt16 = .max, windowScale: UInt8 = 14, segmentSize: UInt16? = nil
  ) {
    self.source = source
    self.destination = destination
    self.sequence = sequence
    self.acknowledgement = acknowledgement
    self.flags = flags
    self.window = window
    self.windowScale = windowScale
    self.segmentSize = segmentSize
  }

  static func largestPayload(addressLength: Int) -> Int { largest - CapturedIPHeader.length(addressLength) - tcpHeader }

  package func encoded(_ payload: Span<UInt8>) -> [UInt8] {
    let options = flags.contains(.synchronize) ? handshakeOptions : []
    let header = CapturedIPHeader(source: source.address, destination: destination.address, protocolNumber: 6)
    var packet = header.encoded(Self.tcpHeader + options.count + payload.count)
    let start = packet.count
    packet.reserveCapacity(start + Self.tcpHeader + options.count + payload.count)
    packet += source.port.bigEndianBytes + destination.port.bigEndianBytes
    packet += sequence.bigEndianBytes
    packet += (flags.contains(.acknowledge) ? acknowledgement : 0).bigEndianBytes
    // The length of the header in words of 4 bytes.
    packet += [UInt8((Self.tcpHeader + options.count) / 4) << 4, flags.rawValue]
    packet += window.bigEndianBytes
    // The checksum, which is set below, and no urgent data.
    packet += [0, 0, 0, 0]
    packet.append(copying: options.span)
    packet.append(copying: payload)
    let checksum = header.checksum(of: packet.span.extracting(start..<packet.count))
    packet.replaceSubrange(start + 16..<start + 18, with: checksum.bigEndianBytes)
    return packet
  }

  /// The maximum segment size, and the window scale.
  private var handshakeOptions: [UInt8] {
    let size = segmentSize ?? UInt16(Self.largestPayload(addressLength: source.address.count))
    return [2, 4] + size.bigEndianBytes + [1, 3, 3, windowScale]
  }
}
