import ActorSockets

/// A question for the IPv4 addresses of a name: RFC 1035, section 4.
struct DNSQuestion {
  let id: UInt16
  /// The labels, as they are compared: without regard to case.
  let name: [[UInt8]]
  /// The datagram.
  let bytes: [UInt8]

  init(name: String, id: UInt16) throws {
    let labels = name.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    let length = labels.reduce(1) { $0 + $1.count + 1 }
    guard length <= 255, labels.allSatisfy({ 1...63 ~= $0.count }) else { throw DNSError.badName }
    self.id = id
    self.name = labels.map { $0.map(\.lowercased) }
    // Recursion is desired; one question, nothing else.
    let header: [UInt8] = [UInt8(id >> 8), UInt8(id & 0xFF), 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    let labelled = labels.flatMap { [UInt8($0.count)] + $0 }
    bytes = header + labelled + [0, 0, 1, 0, 1]
  }
}

/// The answer to a question. Whatever is in it, reading it ends, within its bytes.
struct DNSAnswer {
  private let message: [UInt8]
  private let question: DNSQuestion
  private var offset = 0

  /// `nil` if the message is not an answer to the question.
  init?(_ message: [UInt8], to question: DNSQuestion) {
    self.message = message
    self.question = question
    guard integer() == Int(question.id), let flags = integer(), flags & 0x8000 != 0, integer() == 1 else { return nil }
    offset = 12
    guard name() == question.name, integer() == 1, integer() == 1 else { return nil }
  }

  /// The addresses of the name, or of the name that it stands for (CNAME). Of a message that ends too early, those before.
  func addresses() throws -> [IPv4Address] {
    let status = message[3] & 15
    // The name does not exist: it has no addresses.
    if status == 3 { return [] }
    if status != 0 { throw DNSError.refused(status) }
    var reader = self
    var wanted = question.name
    var found: [IPv4Address] = []
    for _ in 0..<(Int(message[6]) << 8 | Int(message[7])) {
      guard let owner = reader.name(), let type = reader.integer(), let family = reader.integer(),
        reader.integer() != nil, reader.integer() != nil, let length = reader.integer(),
        reader.offset + length <= message.count
      else { return found }
      let start = reader.offset
      if owner == wanted, family == 1 {
        if type == 1, length == 4 {
          found.append(IPv4Address(message[start], message[start + 1], message[start + 2], message[start + 3]))
        } else if type == 5, let alias = reader.name() {
          wanted = alias
        }
      }
      reader.offset = start + length
    }
    return found
  }

  /// Two bytes; `nil` behind the end.
  private mutating func integer() -> Int? {
    guard offset + 2 <= message.count else { return nil }
    defer { offset += 2 }
    return Int(message[offset]) << 8 | Int(message[offset + 1])
  }

  /// Reads a name, which may continue at an earlier offset: section 4.1.4. Returns `nil` if it is invalid.
  private mutating func name() -> [[UInt8]]? {
    var labels: [[UInt8]] = []
    var length = 1
    var place = offset
    // A pointer leads to what lies before everything that was read of the name, so that the way has an end.
    var limit = offset
    var isBehindPointer = false
    while place < message.count {
      let count = Int(message[place])
      if count >= 0xC0 {
        guard place + 2 <= message.count else { return nil }
        let target = (count & 0x3F) << 8 | Int(message[place + 1])
        if !isBehindPointer { offset = place + 2 }
        isBehindPointer = true
        guard target < limit else { return nil }
        (place, limit) = (target, target)
      } else if count == 0 {
        if !isBehindPointer { offset = place + 1 }
        return labels
      } else {
        length += count + 1
        guard count <= 63, length <= 255, place + 1 + count <= message.count else { return nil }
        labels.append(message[place + 1..<place + 1 + count].map(\.lowercased))
        place += 1 + count
      }
    }
    return nil
  }
}

extension UInt8 {
  /// The small letter of a capital one, of ASCII.
  fileprivate var lowercased: UInt8 { 65...90 ~= self ? self | 32 : self }
}
