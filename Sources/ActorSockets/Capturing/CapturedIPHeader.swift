internal import SocketSystem

/// RFC 791, RFC 8200. The checksums of the protocols above IP need the addresses, too.
package struct CapturedIPHeader {
  package var source: [UInt8]
  package var destination: [UInt8]
  /// 6 for TCP, 17 for UDP.
  package var protocolNumber: UInt8
  package var hopLimit: UInt8 = 64
  package var trafficClass: UInt8 = 0

  /// Both addresses have the same length.
  package init(source: [UInt8], destination: [UInt8], protocolNumber: UInt8) {
    self.source = source
    self.destination = destination
    self.protocolNumber = protocolNumber
  }

  static func length(_ addressLength: Int) -> Int { addressLength == 4 ? 20 : 40 }

  /// `length` is the number of bytes after the header.
  package func encoded(_ length: Int) -> [UInt8] {
    if source.count == 16 {
      let first = 6 << 28 | UInt32(trafficClass) << 20
      let rest = UInt16(length).bigEndianBytes + [protocolNumber, hopLimit]
      return first.bigEndianBytes + rest + source + destination
    }
    // Version 4, 5 words.
    var header: [UInt8] = [0x45, trafficClass]
    header += UInt16(20 + length).bigEndianBytes
    // No identification, because "don't fragment" is set: RFC 6864.
    header += [0, 0, 0x40, 0]
    header += [hopLimit, protocolNumber, 0, 0] + source + destination
    header.replaceSubrange(10..<12, with: Self.checksum(Self.sum(of: header.span)).bigEndianBytes)
    return header
  }

  /// The checksum of the bytes after the header and of a pseudo header: the addresses, the protocol and the length.
  package func checksum(of bytes: Span<UInt8>) -> UInt16 {
    let pseudo =
      UInt64(protocolNumber) + UInt64(bytes.count) + Self.sum(of: source.span) + Self.sum(of: destination.span)
    return Self.checksum(pseudo + Self.sum(of: bytes))
  }

  package static func checksum(of bytes: Span<UInt8>) -> UInt16 { checksum(sum(of: bytes)) }

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
