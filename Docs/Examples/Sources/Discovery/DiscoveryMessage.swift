import ByteText

/// What a program offers to others.
struct DiscoveredService: Hashable, Sendable {
  var name: String
  var port: UInt16
  var properties: [String: String] = [:]
}

/// A datagram of the protocol.
///
/// ```
/// 4 bytes   DSC1
/// 1 byte    the kind: 1 query, 2 announcement, 3 goodbye
/// 8 bytes   the number of the sender, which it chooses at random when it starts
/// 2 bytes   for how many seconds the others may remember an announcement
/// fields    of an announcement: a byte with the tag, a byte with the length, the content
/// ```
///
/// The tags are 1 for the name, 2 for the port, and 3 for a property as `key=value`. Other tags are skipped, so that later versions may
/// add some. Numbers have the highest byte first.
struct DiscoveryMessage: Hashable, Sendable {
  enum Kind: UInt8, Sendable { case query = 1, announcement, goodbye }

  /// The largest number of bytes: a datagram of this length is not fragmented on any usual network.
  static let largest = 1200
  static let mostProperties = 32
  private static let magic = Array("DSC1".utf8)

  var kind: Kind
  var sender: UInt64
  var lifetime: UInt16 = 0
  /// The service; `nil` unless this is an announcement.
  var service: DiscoveredService?

  /// Returns the datagram; `nil` if the service does not fit.
  var bytes: [UInt8]? {
    var bytes = Self.magic + [kind.rawValue] + Self.bytes(of: sender) + Self.bytes(of: lifetime)
    if let service {
      guard Self.isName(service.name), service.port > 0, service.properties.count <= Self.mostProperties else {
        return nil
      }
      var fields: [(tag: UInt8, content: [UInt8])] = [(1, Array(service.name.utf8)), (2, Self.bytes(of: service.port))]
      for (key, value) in service.properties.sorted(by: { $0.key < $1.key }) {
        guard Self.isName(key), !ByteText(key).has("="), Self.isText(value) else { return nil }
        fields.append((3, Array("\(key)=\(value)".utf8)))
      }
      for field in fields {
        guard field.content.count <= 255 else { return nil }
        bytes += [field.tag, UInt8(field.content.count)] + field.content
      }
    }
    return bytes.count <= Self.largest ? bytes : nil
  }

  /// Parses a datagram. `nil` if it is no message, or if its parts contradict each other.
  init?(parsing bytes: [UInt8]) {
    guard bytes.count <= Self.largest, bytes.count >= 15, bytes.starts(with: Self.magic),
      let kind = Kind(rawValue: bytes[4])
    else { return nil }
    self.kind = kind
    sender = bytes[5..<13].reduce(0) { $0 << 8 | UInt64($1) }
    lifetime = UInt16(bytes[13]) << 8 | UInt16(bytes[14])
    var (name, port, properties) = (String?.none, UInt16(0), [String: String]())
    var rest = bytes[15...]
    while !rest.isEmpty {
      guard let (tag, content) = Self.field(&rest) else { return nil }
      switch tag {
      case 1:
        guard name == nil, let text = String(validating: content, as: UTF8.self), Self.isName(text) else { return nil }
        name = text
      case 2:
        guard content.count == 2, port == 0 else { return nil }
        port = content.reduce(0) { $0 << 8 | UInt16($1) }
      case 3:
        guard let parts = ByteText(validating: Array(content))?.cut(at: "=") else { return nil }
        let (key, value) = (parts.before.description, parts.after.description)
        guard Self.isName(key), Self.isText(value), properties[key] == nil, properties.count < Self.mostProperties
        else {
          return nil
        }
        properties[key] = value
      default: break
      }
    }
    if kind == .announcement {
      guard let name, port > 0, lifetime > 0 else { return nil }
      service = DiscoveredService(name: name, port: port, properties: properties)
    }
  }

  init(_ kind: Kind, from sender: UInt64, lifetime: UInt16 = 0, service: DiscoveredService? = nil) {
    (self.kind, self.sender, self.lifetime, self.service) = (kind, sender, lifetime, service)
  }

  /// Takes a field from the front. `nil` if its length says more than there is.
  private static func field(_ rest: inout ArraySlice<UInt8>) -> (tag: UInt8, content: ArraySlice<UInt8>)? {
    guard rest.count >= 2, let tag = rest.popFirst(), let length = rest.popFirst(), rest.count >= Int(length) else {
      return nil
    }
    defer { rest = rest.dropFirst(Int(length)) }
    return (tag, rest.prefix(Int(length)))
  }

  private static func isName(_ text: String) -> Bool { (1...63).contains(text.utf8.count) && isText(text) }

  /// Whether a text can be printed: others would act on control characters in a terminal or a log.
  private static func isText(_ text: String) -> Bool {
    text.unicodeScalars.allSatisfy { $0.value >= 32 && !(127..<160).contains($0.value) }
  }

  private static func bytes(of number: some FixedWidthInteger) -> [UInt8] {
    stride(from: number.bitWidth - 8, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> $0) }
  }
}
