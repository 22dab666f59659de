/// A question: name, type and class, without the parts of a message that differ from client to client. Equal questions have equal answers.
struct DNSQuestion: Hashable, Sendable {
  /// Name, type and class, with the name in lower case.
  let bytes: [UInt8]
  /// Whether the client wants DNSSEC records: the DO bit.
  let wantsSignatures: Bool
  let isCheckingDisabled: Bool

  /// Returns the message for a server.
  ///
  /// - Parameter id: A number that others cannot guess.
  /// - Returns: The message.
  func message(id: UInt16) -> [UInt8] {
    let flags: DNSFlags = isCheckingDisabled ? [.recursionDesired, .checkingDisabled] : .recursionDesired
    return DNSHeader(id: id, flags: flags, questions: 1, additional: 1).bytes + bytes
      + DNSHeader.options(wantsSignatures: wantsSignatures)
  }
}

/// The first twelve bytes of a message.
struct DNSHeader: Sendable {
  var id: UInt16
  var flags: DNSFlags
  var questions: UInt16 = 0
  var answers: UInt16 = 0
  var authorities: UInt16 = 0
  var additional: UInt16 = 0

  /// The number of bytes that this program receives over UDP. Packets of this size are not fragmented anywhere.
  static let payloadSize: UInt16 = 1232

  var bytes: [UInt8] {
    [id, flags.rawValue, questions, answers, authorities, additional].flatMap { [UInt8($0 >> 8), UInt8($0 & 255)] }
  }

  /// Returns the pseudo-record of EDNS.
  static func options(wantsSignatures: Bool) -> [UInt8] {
    let size = [UInt8(payloadSize >> 8), UInt8(payloadSize & 255)]
    return [0, 0, UInt8(DNSRecord.options)] + size + [0, 0, wantsSignatures ? 0x80 : 0, 0, 0, 0]
  }
}

extension DNSReader {
  mutating func header() -> DNSHeader? {
    guard let id = integer(), let flags = integer(), let questions = integer(), let answers = integer(),
      let authorities = integer(), let additional = integer()
    else { return nil }
    return DNSHeader(
      id: id, flags: DNSFlags(rawValue: flags), questions: questions, answers: answers, authorities: authorities,
      additional: additional)
  }
}

/// A client's message.
struct DNSQuery: Sendable {
  let id: UInt16
  let flags: DNSFlags
  /// Name, type and class as the client has spelled them.
  let spelling: [UInt8]
  let question: DNSQuestion
  /// Whether the client supports EDNS.
  let hasOptions: Bool
  /// The number of bytes that the client receives over UDP.
  let payloadSize: Int

  /// Parses a message.
  ///
  /// - Parameter message: The message.
  /// - Throws: `Refusal` with the answer that the client gets.
  init(parsing message: [UInt8]) throws(Refusal) {
    var reader = DNSReader(message)
    // An answer to an answer could begin an endless conversation.
    guard let header = reader.header(), !header.flags.contains(.response) else { throw Refusal(answer: nil) }
    if header.flags.opcode != 0 { throw Refusal(.notImplemented, header) }
    guard header.questions == 1, header.answers == 0, header.authorities == 0, let spelling = reader.question() else {
      throw Refusal(.formatError, header)
    }
    var options: DNSRecord?
    for _ in 0..<header.additional {
      guard let record = reader.record() else { throw Refusal(.formatError, header) }
      if record.type == DNSRecord.options {
        if options != nil { throw Refusal(.formatError, header) }
        options = record
      }
    }
    id = header.id
    flags = header.flags
    self.spelling = spelling
    hasOptions = options != nil
    payloadSize = options.map { Int(min(max($0.family, 512), DNSHeader.payloadSize)) } ?? 512
    question = DNSQuestion(
      bytes: spelling.lowercased, wantsSignatures: (options?.lifetime ?? 0) & 0x8000 != 0,
      isCheckingDisabled: header.flags.contains(.checkingDisabled))
  }

  /// A message that is not forwarded.
  struct Refusal: Error {
    /// The answer; `nil` if the client gets no answer.
    let answer: [UInt8]?

    fileprivate init(answer: [UInt8]?) { self.answer = answer }

    fileprivate init(_ status: DNSStatus, _ header: DNSHeader) {
      let kept = header.flags.rawValue & 0x7900
      answer = DNSHeader(id: header.id, flags: DNSFlags(rawValue: 0x8000 | kept | status.rawValue)).bytes
    }
  }

  /// Returns an answer that has only a status.
  func answer(_ status: DNSStatus, truncated: Bool = false) -> [UInt8] {
    var flags = flags.intersection([.recursionDesired, .checkingDisabled]).union([.response, .recursionAvailable])
    if truncated { flags.insert(.truncated) }
    let header = DNSHeader(
      id: id, flags: DNSFlags(rawValue: flags.rawValue | status.rawValue), questions: 1, additional: hasOptions ? 1 : 0)
    return header.bytes + spelling
      + (hasOptions ? DNSHeader.options(wantsSignatures: question.wantsSignatures) : [])
  }
}

extension [UInt8] {
  /// A question with its name in lower case, as names are compared. Lengths of labels are less than 64, and so are types and classes that
  /// are used. So these bytes are no capital letters. The last four bytes are kept in any case.
  var lowercased: [UInt8] {
    dropLast(4).map { 65...90 ~= $0 ? $0 | 32 : $0 } + suffix(4)
  }
}
