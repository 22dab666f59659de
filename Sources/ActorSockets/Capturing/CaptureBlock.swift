// The blocks of a pcapng file: draft-ietf-opsawg-pcapng. All numbers are little-endian.
//
// A block is its type, its length, its body, options, and its length again. Bodies and options are padded to multiples of 4 bytes.

package enum CaptureBlock {
  /// The first two bits of epb_flags.
  package enum Direction: UInt32 {
    case inbound = 1
    case outbound = 2
  }

  /// A Section Header Block and an Interface Description Block.
  package static var header: [UInt8] {
    var section: [UInt8] = []
    section.append(little: 0x1a2b_3c4d as UInt32)
    section.append(little: 1 as UInt16)
    section.append(little: 0 as UInt16)
    // The length of the section is not known.
    section.append(little: UInt64.max)
    section.append(option: 4, Array("ActorSockets".utf8))

    var interface: [UInt8] = []
    // LINKTYPE_RAW: packets begin with the IP header.
    interface.append(little: 101 as UInt16)
    interface.append(little: 0 as UInt16)
    interface.append(little: UInt32(CapturedPacket.largest))
    interface.append(option: 2, Array("ActorSockets".utf8))
    // if_tsresol: times are in units of 10^-9 seconds.
    interface.append(option: 9, [9])
    return block(0x0a0d_0d0a, section) + block(1, interface)
  }

  /// An Enhanced Packet Block. The time is in nanoseconds since 1970. The comment is a text for people; it is cut after 65,535 bytes.
  package static func packet(_ packet: [UInt8], at time: Int64, _ direction: Direction, comment: String?) -> [UInt8] {
    var body: [UInt8] = []
    body.reserveCapacity(packet.count + 64 + (comment?.utf8.count ?? 0))
    body.append(little: 0 as UInt32)
    body.append(time: time)
    body.append(little: UInt32(packet.count))
    body.append(little: UInt32(packet.count))
    body.append(copying: packet.span)
    body.pad()
    if let comment { body.append(option: 1, Array(comment.prefix(utf8: Int(UInt16.max)).utf8)) }
    var flags: [UInt8] = []
    flags.append(little: direction.rawValue)
    body.append(option: 2, flags)
    return block(6, body)
  }

  /// An Interface Statistics Block, which always has the same length. The time is in nanoseconds since 1970.
  static func statistics(recorded: Int, dropped: Int, at time: Int64) -> [UInt8] {
    var body: [UInt8] = []
    body.append(little: 0 as UInt32)
    body.append(time: time)
    var number: [UInt8] = []
    number.append(little: UInt64(recorded + dropped))
    body.append(option: 4, number)
    number = []
    number.append(little: UInt64(dropped))
    body.append(option: 5, number)
    return block(5, body)
  }

  /// Encodes a block whose body ends with an option.
  private static func block(_ type: UInt32, _ body: [UInt8]) -> [UInt8] {
    var block: [UInt8] = []
    // The type, the length twice, and opt_endofopt.
    let length = UInt32(body.count + 16)
    block.reserveCapacity(Int(length))
    block.append(little: type)
    block.append(little: length)
    block.append(copying: body.span)
    block.append(little: 0 as UInt32)
    block.append(little: length)
    return block
  }
}

extension String {
  /// The longest beginning of whole Unicode scalars that has at most this many bytes in UTF-8.
  func prefix(utf8 count: Int) -> Substring {
    var end = utf8.index(startIndex, offsetBy: count, limitedBy: endIndex) ?? endIndex
    while end.samePosition(in: unicodeScalars) == nil { utf8.formIndex(before: &end) }
    return self[..<end]
  }
}

extension [UInt8] {
  fileprivate mutating func append<Number: FixedWidthInteger>(little number: Number) {
    for byte in 0..<(Number.bitWidth / 8) { append(UInt8(truncatingIfNeeded: number >> Number(8 * byte))) }
  }

  /// The upper half goes first.
  fileprivate mutating func append(time: Int64) {
    append(little: UInt32(truncatingIfNeeded: time >> 32))
    append(little: UInt32(truncatingIfNeeded: time))
  }

  fileprivate mutating func append(option code: UInt16, _ value: [UInt8]) {
    append(little: code)
    append(little: UInt16(value.count))
    append(copying: value.span)
    pad()
  }

  fileprivate mutating func pad() { while count % 4 != 0 { append(0) } }
}
