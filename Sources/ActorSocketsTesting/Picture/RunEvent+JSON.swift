// Events as they stand in the picture: arrays, whose parts picture.js names.
//
// Invariants:
// - Within an element `script` of HTML no text ends it: `<` and `&` are escaped. So are control characters.
// - A byte of a packet is the character with its number, so text can be read in the file.

/// JSON that can stand in HTML.
struct JSONText {
  private(set) var bytes: [UInt8] = []

  mutating func raw(_ json: String) { bytes += json.utf8 }
  mutating func raw(_ json: [UInt8]) { bytes += json }
  mutating func number(_ value: some BinaryInteger) { bytes += "\(value)".utf8 }

  mutating func string(_ text: some StringProtocol) {
    bytes.append(UInt8(ascii: "\""))
    for byte in text.utf8 { add(byte) }
    bytes.append(UInt8(ascii: "\""))
  }

  /// Each byte becomes the character with its number.
  mutating func string(data: [UInt8]) {
    bytes.append(UInt8(ascii: "\""))
    for byte in data {
      if byte < 0x80 { add(byte) } else { bytes += String(Unicode.Scalar(byte)).utf8 }
    }
    bytes.append(UInt8(ascii: "\""))
  }

  mutating func list<Element>(_ elements: some Sequence<Element>, _ body: (inout JSONText, Element) -> Void) {
    bytes.append(UInt8(ascii: "["))
    for element in elements {
      if bytes.last != UInt8(ascii: "[") { bytes.append(UInt8(ascii: ",")) }
      body(&self, element)
    }
    bytes.append(UInt8(ascii: "]"))
  }

  /// How many bytes stand for a byte of data.
  static func size(of byte: UInt8) -> Int {
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), 0x80...: 2
    case 0..<32, 127, UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "&"): 6
    default: 1
    }
  }

  private mutating func add(_ byte: UInt8) {
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), byte]
    case 0..<32, 127, UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "&"):
      let digits = Array("0123456789abcdef".utf8)
      bytes += "\\u00".utf8
      bytes += [digits[Int(byte >> 4)], digits[Int(byte & 15)]]
    default: bytes.append(byte)
    }
  }
}

extension RunEvent {
  /// In bytes: at least what its JSON has, with the comma after it. It is quicker than the JSON of a packet, because most packets of a long
  /// run are dropped.
  var jsonSize: Int {
    guard case .packet(let packet) = content else { return json(.max).count + 1 }
    // Numbers have at most 20 digits; most packets have less.
    let numbers = 12 * 8 + 20 * (5 + packet.arrivals.count)
    return numbers + packet.bytes.reduce(0) { $0 + JSONText.size(of: $1) }
  }

  /// `number` counts the events of the run. Hosts are not among them.
  func json(_ number: Int) -> [UInt8] {
    var json = JSONText()
    json.raw("[")
    json.number(number)
    json.raw(",")
    json.number(time)
    json.raw(",")
    json.number(host)
    json.raw(",")
    switch content {
    case .host(let text): json.part("host", text)
    case .note(let text): json.part("note", text)
    case .change(let text): json.part("change", text)
    case .failure(let text): json.part("failure", text)
    case .state(let host, let condition, let text):
      json.part("state", text)
      json.raw(",")
      json.number(host)
      json.raw(",")
      json.string(condition.rawValue)
    case .link(let link):
      json.part("link", link.text)
      for number in [link.from, link.to, link.isCut ? 1 : 0] {
        json.raw(",")
        json.number(number)
      }
    case .clock: json.string("clock")
    case .end: json.string("end")
    case .waiting(let lines):
      json.string("waiting")
      json.raw(",")
      json.list(lines.prefix(200)) { $0.string(RunEvent.cut($1, to: 500)) }
    case .packet(let packet):
      json.string("packet")
      json.add(packet)
    }
    json.raw("]")
    return json.bytes
  }
}

extension JSONText {
  fileprivate mutating func part(_ kind: String, _ text: String) {
    string(kind)
    raw(",")
    string(text)
  }

  fileprivate mutating func add(_ packet: PacketView) {
    let numbers = [
      packet.from, packet.to, Int(packet.kind), packet.sourcePort, packet.destinationPort, Int(packet.flags),
      packet.sequence, packet.acknowledged ?? -1, packet.isRepeated ? 1 : 0, packet.count,
    ]
    for number in numbers {
      raw(",")
      self.number(number)
    }
    raw(",")
    list(packet.arrivals) { $0.number($1) }
    raw(",")
    string(packet.loss?.rawValue ?? "")
    raw(",")
    string(data: packet.bytes)
  }
}
