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

  init?(line: ArraySlice<UInt8>) {
    let fields = LineFields.fields(of: line)
    guard fields.count >= 3 else { return nil }
    // The bytes of a packet are no text.
    let isPacket = fields[2].first == UInt8(ascii: "p")
    let texts = fields.dropLast(isPacket ? 1 : 0).map { String(decoding: $0, as: UTF8.self) }
    guard texts.count >= 3, let time = Int64(texts[0]), let host = Int(texts[1]),
      let content = Content(kind: texts[2], Array(texts[3...]), bytes: isPacket ? fields[fields.count - 1] : [])
    else { return nil }
    self.init(time: time, host: host, content: content)
  }
}

extension RunEvent.Content {
  /// `bytes` are those of a packet.
  fileprivate init?(kind: String, _ fields: [String], bytes: [UInt8]) {
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
    case (UInt8(ascii: "p"), 12):
      guard let packet = PacketView(fields, bytes: bytes) else { return nil }
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
    fields.add(data: bytes)
  }

  fileprivate init?(_ fields: [String], bytes: [UInt8]) {
    let numbers = fields[..<8].compactMap { Int($0) }
    guard numbers.count == 8, let kind = UInt8(exactly: numbers[2]), let flags = UInt8(exactly: numbers[5]) else {
      return nil
    }
    self.init(
      from: numbers[0], to: numbers[1], kind: kind, sourcePort: numbers[3], destinationPort: numbers[4], flags: flags,
      sequence: numbers[6], acknowledged: Int(fields[8]), isRepeated: Int(fields[9]) == 1, count: numbers[7],
      bytes: bytes,
      arrivals: fields[11].utf8.split(separator: UInt8(ascii: " ")).compactMap { Int64(Substring($0)) },
      loss: Loss(rawValue: fields[10]))
  }
}

private struct LineFields {
  private(set) var bytes: [UInt8] = []

  mutating func add(_ texts: String...) { for text in texts { add(text) } }

  mutating func add(_ number: some BinaryInteger) { add("\(number)") }

  mutating func add(_ text: String) { add(data: Array(text.utf8)) }

  /// No field is empty and first, because the time is first.
  mutating func add(data: [UInt8]) {
    if !bytes.isEmpty { bytes.append(UInt8(ascii: "\t")) }
    if !data.contains(where: Self.isSpecial) {
      bytes += data
      return
    }
    for byte in data {
      switch byte {
      case UInt8(ascii: "\\"): bytes += "\\\\".utf8
      case UInt8(ascii: "\t"): bytes += "\\t".utf8
      case UInt8(ascii: "\n"): bytes += "\\n".utf8
      default: bytes.append(byte)
      }
    }
  }

  private static func isSpecial(_ byte: UInt8) -> Bool {
    byte == UInt8(ascii: "\\") || byte == UInt8(ascii: "\t") || byte == UInt8(ascii: "\n")
  }

  static func fields(of line: ArraySlice<UInt8>) -> [[UInt8]] {
    var fields: [[UInt8]] = []
    var rest = line
    while let end = rest.firstIndex(of: UInt8(ascii: "\t")) {
      fields.append(unescaped(rest[..<end]))
      rest = rest[(end + 1)...]
    }
    return fields + [unescaped(rest)]
  }

  private static func unescaped(_ field: ArraySlice<UInt8>) -> [UInt8] {
    if !field.contains(UInt8(ascii: "\\")) { return Array(field) }
    var bytes: [UInt8] = []
    var isEscaped = false
    for byte in field {
      if !isEscaped, byte == UInt8(ascii: "\\") {
        isEscaped = true
        continue
      }
      switch (isEscaped, byte) {
      case (true, UInt8(ascii: "t")): bytes.append(UInt8(ascii: "\t"))
      case (true, UInt8(ascii: "n")): bytes.append(UInt8(ascii: "\n"))
      default: bytes.append(byte)
      }
      isEscaped = false
    }
    return bytes
  }
}
