/// A server's answer, in the form in which it is kept and sent to any number of clients.
struct DNSResponse: Sendable {
  /// The message without the pseudo-record of EDNS, which concerns one client and one server only.
  private let bytes: [UInt8]
  private let header: DNSHeader
  /// Where the times are for which records may be cached.
  private let lifetimeOffsets: [Int]
  /// The number of seconds for which the answer may be cached; 0 if it may not be cached.
  let lifetime: UInt32

  /// The longest time for which an answer is cached, in seconds.
  private static let longestLifetime: UInt32 = 86_400

  var isTruncated: Bool { header.flags.contains(.truncated) }
  var status: DNSStatus? { header.flags.status }

  /// Parses a message. `nil` if it is no answer to the question.
  ///
  /// - Parameters:
  ///   - message: The message.
  ///   - question: The question.
  ///   - id: The number in the question's message.
  init?(_ message: [UInt8], to question: DNSQuestion, id: UInt16) {
    var reader = DNSReader(message)
    guard var header = reader.header(), header.id == id, header.flags.contains(.response), header.flags.opcode == 0,
      header.questions == 1, let asked = reader.question(), asked.lowercased == question.bytes
    else { return nil }
    var (offsets, lifetimes, negative) = ([Int](), [UInt32](), UInt32?.none)
    var end = message.count
    // The records of a truncated answer may be incomplete. They are not read.
    let isTruncated = header.flags.contains(.truncated)
    let sections = isTruncated ? [] : [Int(header.answers), Int(header.authorities), Int(header.additional)]
    for (section, count) in sections.enumerated() {
      for _ in 0..<count {
        guard let record = reader.record() else { return nil }
        if record.type == DNSRecord.options {
          // It belongs to the additional records, and is the last of them in practice. If it were not, removing it would move the data
          // that later records point to.
          if section == 2, reader.offset == message.count {
            end = record.bytes.lowerBound
            header.additional -= 1
          }
          continue
        }
        offsets.append(record.lifetimeOffset)
        // RFC 2181, section 8: a time with the highest bit set is zero.
        let lifetime = record.lifetime >> 31 == 1 ? 0 : record.lifetime
        lifetimes.append(lifetime)
        if section == 1, record.type == DNSRecord.startOfAuthority, record.data.count >= 20 {
          // The last number in the data is the time for which the zone lets others know that a name does not exist.
          var last = DNSReader(message, at: record.data.upperBound - 4)
          negative = min(lifetime, last.longInteger() ?? 0)
        }
      }
    }
    bytes = Array(message[..<end])
    self.header = header
    lifetimeOffsets = offsets
    let longest =
      switch header.flags.status {
      case .noError? where header.answers > 0: lifetimes.min() ?? 0
      // RFC 2308: that there is nothing may be cached if the zone says for how long.
      case .noError?, .nameError?: negative ?? 0
      default: 0 as UInt32
      }
    lifetime = isTruncated ? 0 : min(longest, Self.longestLifetime)
  }

  /// Returns the message for a client.
  ///
  /// - Parameters:
  ///   - query: The client's message.
  ///   - age: The number of seconds since the answer has arrived.
  ///   - limit: The largest number of bytes. An answer that is longer is only a note that the client should ask over TCP.
  /// - Returns: The message.
  func message(to query: DNSQuery, age: UInt32, limit: Int) -> [UInt8] {
    let kept = header.flags.rawValue & 15
    let flags = query.flags.intersection([.recursionDesired, .checkingDisabled]).union([.response, .recursionAvailable])
    var header = header
    header.id = query.id
    header.flags = DNSFlags(rawValue: flags.rawValue | kept)
    if query.hasOptions { header.additional += 1 }
    var message = bytes
    message.replaceSubrange(0..<12, with: header.bytes)
    message.replaceSubrange(12..<12 + query.spelling.count, with: query.spelling)
    for offset in lifetimeOffsets {
      let lifetime = message[offset..<offset + 4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
      let rest = lifetime > age ? lifetime - age : 0
      for (index, shift) in zip(offset..<offset + 4, [24, 16, 8, 0]) { message[index] = UInt8(rest >> shift & 255) }
    }
    if query.hasOptions { message += DNSHeader.options(wantsSignatures: query.question.wantsSignatures) }
    return message.count <= limit ? message : query.answer(status ?? .serverFailure, truncated: true)
  }
}
