// Events as lines of text: a copy of the process sends them through a pipe.
//
// Invariants:
// - A line has no byte 10, and ends with one. Its fields are separated by tabs. In texts, tabs, line feeds and backslashes are escaped.
// - `RunEvent(line:)` returns the event that made the line. A line that was cut off, because the process ended, is not an event or a wrong
//   one; so the reader drops what follows the last line feed.

internal import SocketSystem

extension RunEvent {
  /// Without the line feed.
  var line: [UInt8] {
    var fields = LineFields()
    fields.add(time)
    fields.add(host)
    switch content {
    case .host(let name): fields.add("h", name)
    case .note(let text): fields.add("n", text)
    case .change(let text): fields.add("c", text)
    case .state(let host, let condition, let text): fields.add("s", "\(host)", condition.rawValue, text)
    case .link(let link):
      fields.add("l", "\(link.from)", "\(link.to)", link.isCut ? "1" : "0", link.text)
    case .packet(let packet):
      fields.add("p")
      packet.add(to: &fields)
    case .failure(let text): fields.add("f", text)
    case .waiting(let lines):
      fields.add("w")
      for line in lines { fields.add(line) }
    case .clock: fields.add("t")
    case .end(let hash): fields.add("e", "\(hash)")
    }
    return fields.bytes
  }

  init?(line: some Sequence<UInt8>) {
    let fields = LineFields.texts(of: line)
    guard fields.count >= 3, let time = Int64(fields[0]), let host = Int(fields[1]),
      let content = Content(kind: fields[2], Array(fields[3...]))
    else { return nil }
    self.init(time: time, host: host, content: content)
  }
}

extension RunEvent.Content {
  fileprivate init?(kind: String, _ fields: [String]) {
    let first = fields.first ?? ""
    switch (kind.utf8.first, fields.count) {
    case (UInt8(ascii: "h"), 1): self = .host(first)
    case (UInt8(ascii: "n"), 1): self = .note(first)
    case (UInt8(ascii: "c"), 1): self = .change(first)
    case (UInt8(ascii: "f"), 1): self = .failure(first)
    case (UInt8(ascii: "t"), 0): self = .clock
    case (UInt8(ascii: "e"), 1):
      guard let hash = UInt64(first) else { return nil }
      self = .end(hash: hash)
    case (UInt8(ascii: "w"), _): self = .waiting(fields)
    case (UInt8(ascii: "s"), 3):
      guard let host = Int(first), let condition = HostCondition(rawValue: fields[1]) else { return nil }
      self = .state(of: host, condition, change: fields[2])
    case (UInt8(ascii: "l"), 4):
      guard let from = Int(first), let to = Int(fields[1]), let isCut = Int(fields[2]) else { return nil }
      self = .link(LinkView(from: from, to: to, text: fields[3], isCut: isCut == 1))
    case (UInt8(ascii: "p"), 13):
      guard let packet = PacketView(fields) else { return nil }
      self = .packet(packet)
    default: return nil
    }
  }
}

extension PacketView {
  fileprivate func add(to fields: inout LineFields) {
    for number in [from, to, Int(kind), sourcePort, destinationPort, Int(flags), sequence, count] { fields.add(number) }
    fields.add(acknowledged.map { "\($0)" } ?? "")
    fields.add(isRepeated ? 1 : 0)
    fields.add(loss?.rawValue ?? "")
    fields.add(arrivals.map { "\($0)" }.joined(separator: " "))
    fields.add(hexadecimal: bytes)
  }

  fileprivate init?(_ fields: [String]) {
    let numbers = fields[..<8].compactMap { Int($0) }
    guard numbers.count == 8, let kind = UInt8(exactly: numbers[2]), let flags = UInt8(exactly: numbers[5]) else {
      return nil
    }
    self.init(
      from: numbers[0], to: numbers[1], kind: kind, sourcePort: numbers[3], destinationPort: numbers[4], flags: flags,
      sequence: numbers[6], acknowledged: Int(fields[8]), isRepeated: Int(fields[9]) == 1, count: numbers[7],
      bytes: LineFields.bytes(hexadecimal: fields[12]),
      arrivals: fields[11].utf8.split(separator: UInt8(ascii: " ")).compactMap { Int64(Substring($0)) },
      loss: Loss(rawValue: fields[10]))
  }
}

private struct LineFields {
  private(set) var bytes: [UInt8] = []

  mutating func add(_ texts: String...) { for text in texts { add(text) } }

  mutating func add(_ number: some BinaryInteger) { add("\(number)") }

  mutating func add(_ text: String) {
    separate()
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "\\"): bytes += "\\\\".utf8
      case UInt8(ascii: "\t"): bytes += "\\t".utf8
      case UInt8(ascii: "\n"): bytes += "\\n".utf8
      default: bytes.append(byte)
      }
    }
  }

  mutating func add(hexadecimal data: [UInt8]) {
    separate()
    let digits = Array("0123456789abcdef".utf8)
    for byte in data { bytes += [digits[Int(byte >> 4)], digits[Int(byte & 15)]] }
  }

  /// No field is empty and first, because the time is first.
  private mutating func separate() {
    if !bytes.isEmpty { bytes.append(UInt8(ascii: "\t")) }
  }

  static func texts(of line: some Sequence<UInt8>) -> [String] {
    var fields: [[UInt8]] = [[]]
    var isEscaped = false
    for byte in line {
      if isEscaped {
        isEscaped = false
        let meaning: UInt8? =
          switch byte {
          case UInt8(ascii: "t"): UInt8(ascii: "\t")
          case UInt8(ascii: "n"): UInt8(ascii: "\n")
          default: byte
          }
        if let meaning { fields[fields.count - 1].append(meaning) }
      } else if byte == UInt8(ascii: "\\") {
        isEscaped = true
      } else if byte == UInt8(ascii: "\t") {
        fields.append([])
      } else {
        fields[fields.count - 1].append(byte)
      }
    }
    return fields.map { String(decoding: $0, as: UTF8.self) }
  }

  static func bytes(hexadecimal text: String) -> [UInt8] {
    let digits = Array(text.utf8)
    return stride(from: 0, to: digits.count - 1, by: 2).map { value(digits[$0]) << 4 | value(digits[$0 + 1]) }
  }

  private static func value(_ digit: UInt8) -> UInt8 {
    digit >= UInt8(ascii: "a") ? (digit &- UInt8(ascii: "a") &+ 10) & 15 : (digit &- UInt8(ascii: "0")) & 15
  }
}
