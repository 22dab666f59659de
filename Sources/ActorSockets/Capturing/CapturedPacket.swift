// The IP and TCP headers of a captured packet: RFC 791, RFC 8200, RFC 9293. The network never had these packets, so the headers
// contain only what programs that read captures need. The checksums are right.

/// A TCP segment without its bytes.
struct CapturedPacket {
  /// The flags of a TCP header.
  struct Flags: OptionSet {
    let rawValue: UInt8
    static let finish = Flags(rawValue: 1)
    static let synchronize = Flags(rawValue: 2)
    static let reset = Flags(rawValue: 4)
    static let push = Flags(rawValue: 8)
    static let acknowledge = Flags(rawValue: 16)
  }

  var source: CapturedEnd
  var destination: CapturedEnd
  var sequence: UInt32
  /// The next byte that is expected from the other side. Not sent without the flag `acknowledge`.
  var acknowledgement: UInt32
  var flags: Flags

  /// The number of bytes of the largest packet, IP header included.
  static let largest = 65_535
  private static let tcpHeader = 20

  /// The largest number of bytes that a packet between addresses of this length carries.
  static func largestPayload(addressLength: Int) -> Int { largest - ipHeader(addressLength) - tcpHeader }

  private static func ipHeader(_ addressLength: Int) -> Int { addressLength == 4 ? 20 : 40 }

  /// Encodes the packet.
  func encoded(_ payload: Span<UInt8>) -> [UInt8] {
    let options = flags.contains(.synchronize) ? handshakeOptions : []
    let length = Self.tcpHeader + options.count + payload.count
    var packet: [UInt8] = []
    packet.reserveCapacity(Self.ipHeader(source.address.count) + length)
    appendIPHeader(to: &packet, length)
    let start = packet.count
    packet.append(big: source.port)
    packet.append(big: destination.port)
    packet.append(big: sequence)
    packet.append(big: flags.contains(.acknowledge) ? acknowledgement : 0)
    // The length of the header in words of 4 bytes.
    packet.append(UInt8((Self.tcpHeader + options.count) / 4) << 4)
    packet.append(flags.rawValue)
    // The largest window. The options scale it to 1 GiB, so that no segment is beyond it.
    packet.append(big: UInt16.max)
    packet.append(big: 0 as UInt16)
    packet.append(big: 0 as UInt16)
    packet.append(copying: options.span)
    packet.append(copying: payload)
    // The pseudo header: the addresses, the protocol and the length.
    var sum = UInt64(6 + length)
    sum += Self.sum(of: source.address.span) + Self.sum(of: destination.address.span)
    sum += Self.sum(of: packet.span.extracting(start..<packet.count))
    packet.set(big: Self.checksum(sum), at: start + 16)
    return packet
  }

  private func appendIPHeader(to packet: inout [UInt8], _ length: Int) {
    if source.address.count == 4 {
      // Version 4, 5 words, no service class.
      packet.append(big: 0x4500 as UInt16)
      packet.append(big: UInt16(20 + length))
      // No identification, because "don't fragment" is set: RFC 6864.
      packet.append(big: 0x0000_4000 as UInt32)
      // 64 hops, TCP, and the checksum, which is set below.
      packet.append(big: 0x4006_0000 as UInt32)
      packet += source.address + destination.address
      packet.set(big: Self.checksum(Self.sum(of: packet.span)), at: 10)
    } else {
      packet.append(big: 0x6000_0000 as UInt32)
      packet.append(big: UInt16(length))
      // TCP, 64 hops.
      packet.append(big: 0x0640 as UInt16)
      packet += source.address + destination.address
    }
  }

  /// The maximum segment size, and a window scale of 14, the largest: RFC 7323.
  private var handshakeOptions: [UInt8] {
    let size = Self.largestPayload(addressLength: source.address.count)
    return [2, 4, UInt8(size >> 8), UInt8(size & 0xff), 1, 3, 3, 14]
  }

  /// The sum of the 16-bit words, the last of which may lack a byte: RFC 1071.
  private static func sum(of bytes: Span<UInt8>) -> UInt64 {
    var sum: UInt64 = 0
    var index = 0
    while index + 1 < bytes.count {
      sum += UInt64(bytes[index]) << 8 | UInt64(bytes[index + 1])
      index += 2
    }
    return index < bytes.count ? sum + UInt64(bytes[index]) << 8 : sum
  }

  private static func checksum(_ sum: UInt64) -> UInt16 {
    var sum = sum
    while sum > 0xffff { sum = sum >> 16 + sum & 0xffff }
    return ~UInt16(sum)
  }
}

extension [UInt8] {
  fileprivate mutating func append(big number: UInt16) {
    append(UInt8(number >> 8))
    append(UInt8(number & 0xff))
  }

  fileprivate mutating func append(big number: UInt32) {
    append(big: UInt16(number >> 16))
    append(big: UInt16(truncatingIfNeeded: number))
  }

  fileprivate mutating func set(big number: UInt16, at index: Int) {
    self[index] = UInt8(number >> 8)
    self[index + 1] = UInt8(number & 0xff)
  }
}
