import Foundation
import SocketSystem
import Testing

@testable import ActorSockets

/// A packet of a capture, taken apart again.
struct ParsedPacket {
  let bytes: [UInt8]
  let sourcePort: UInt16
  let destinationPort: UInt16
  let sequence: UInt32
  let acknowledgement: UInt32
  let flags: CapturedPacket.Flags
  let payload: [UInt8]
  let source: [UInt8]
  let destination: [UInt8]
  /// A packet of UDP, which has no numbers and no flags.
  let isDatagram: Bool

  /// Fails the test if lengths or checksums are wrong.
  init(_ bytes: [UInt8]) throws {
    self.bytes = bytes
    let isIPv4 = bytes[0] >> 4 == 4
    let start = isIPv4 ? 20 : 40
    source = Array(isIPv4 ? bytes[12..<16] : bytes[8..<24])
    destination = Array(isIPv4 ? bytes[16..<20] : bytes[24..<40])
    let number = isIPv4 ? bytes[9] : bytes[6]
    isDatagram = number == 17
    #expect(isDatagram || number == 6)
    if isIPv4 {
      #expect(Int(Self.number(bytes[2..<4])) == bytes.count)
      #expect(Self.sum(Array(bytes[..<20])) == 0xffff, "the checksum of the IP header")
    } else {
      #expect(Int(Self.number(bytes[4..<6])) == bytes.count - 40)
    }
    let segment = Array(bytes[start...])
    let length = UInt16(segment.count)
    let pseudo = source + destination + [0, number, UInt8(length >> 8), UInt8(length & 0xff)]
    #expect(Self.sum(pseudo + segment) == 0xffff, "the checksum of the TCP segment, or the datagram")
    sourcePort = UInt16(Self.number(segment[0..<2]))
    destinationPort = UInt16(Self.number(segment[2..<4]))
    if isDatagram {
      #expect(Int(Self.number(segment[4..<6])) == segment.count)
      (sequence, acknowledgement, flags, payload) = (0, 0, [], Array(segment[8...]))
      return
    }
    sequence = UInt32(Self.number(segment[4..<8]))
    acknowledgement = UInt32(Self.number(segment[8..<12]))
    flags = CapturedPacket.Flags(rawValue: segment[13])
    payload = Array(segment[(Int(segment[12] >> 4) * 4)...])
  }

  private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }

  /// The sum of RFC 1071, with the carries added again: all ones if a checksum within is right.
  private static func sum(_ bytes: [UInt8]) -> UInt32 {
    var sum: UInt32 = 0
    for index in bytes.indices {
      sum += index % 2 == 0 ? UInt32(bytes[index]) << 8 : UInt32(bytes[index])
      if sum > 0xffff { sum = sum & 0xffff + 1 }
    }
    return sum
  }
}

/// A pcapng file, taken apart again.
struct CaptureFile {
  struct Packet {
    let time: UInt64
    let isOutbound: Bool
    let comment: String?
    let parsed: ParsedPacket
  }

  private(set) var packets: [Packet] = []
  /// isb_ifrecv and isb_ifdrop, if the file has statistics.
  private(set) var statistics: (received: UInt64, dropped: UInt64)?

  /// Reads a file. The times of one that is simulated begin in 1970.
  init(path: String, isSimulated: Bool = false) throws {
    try self.init([UInt8](try Data(contentsOf: URL(fileURLWithPath: path))), isSimulated: isSimulated)
  }

  /// Fails the test if a block is not whole.
  init(_ bytes: [UInt8], isSimulated: Bool = false) throws {
    var rest = bytes[...]
    var types: [UInt64] = []
    while rest.count >= 12 {
      let length = Int(Self.number(rest.dropFirst(4).prefix(4)))
      try #require(length % 4 == 0 && length >= 12 && length <= rest.count, "a block is torn")
      let block = Array(rest.prefix(length))
      #expect(Int(Self.number(block.suffix(4))) == length)
      let type = Self.number(block.prefix(4))
      types.append(type)
      if type == 6 { packets.append(try Self.packet(block)) }
      if type == 5 {
        let options = Self.options(block[20..<length - 4])
        statistics = (Self.number(options[4, default: []][...]), Self.number(options[5, default: []][...]))
      }
      rest = rest.dropFirst(length)
    }
    #expect(rest.isEmpty, "the file ends within a block")
    #expect(types.prefix(2) == [0x0a0d_0d0a, 1])
    #expect(packets.allSatisfy { isSimulated || $0.time > 1_600_000_000_000_000_000 })
  }

  /// The payloads of the packets that a side sent, joined.
  func bytes(outbound: Bool) -> [UInt8] { packets.filter { $0.isOutbound == outbound }.flatMap(\.parsed.payload) }

  /// The flags of the packets that open a connection.
  static let handshake: [CapturedPacket.Flags] = [.synchronize, [.synchronize, .acknowledge], .acknowledge]

  /// The flags of all packets.
  var flags: [CapturedPacket.Flags] { packets.map(\.parsed.flags) }

  private static func packet(_ block: [UInt8]) throws -> Packet {
    let time = number(block[12..<16]) << 32 | number(block[16..<20])
    let length = Int(number(block[20..<24]))
    #expect(length == Int(number(block[24..<28])))
    let options = options(block[(28 + (length + 3) / 4 * 4)..<(block.count - 4)])
    return Packet(
      time: time, isOutbound: options[2] == [2, 0, 0, 0],
      comment: options[1].map { String(decoding: $0, as: UTF8.self) },
      parsed: try ParsedPacket(Array(block[28..<28 + length])))
  }

  private static func options(_ bytes: ArraySlice<UInt8>) -> [UInt64: [UInt8]] {
    var options: [UInt64: [UInt8]] = [:]
    var rest = bytes
    while rest.count >= 4 {
      let (code, length) = (number(rest.prefix(2)), Int(number(rest.dropFirst(2).prefix(2))))
      if code == 0 { break }
      options[code] = Array(rest.dropFirst(4).prefix(length))
      rest = rest.dropFirst(4 + (length + 3) / 4 * 4)
    }
    return options
  }

  /// Little-endian.
  private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
    bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }
}
