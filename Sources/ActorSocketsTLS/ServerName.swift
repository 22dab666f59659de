internal import SocketSystem

enum ServerName: Hashable, Sendable {
  /// In lower case, without a dot at the end.
  case host(String)
  /// The bytes in network order, and the address as text.
  case address([UInt8], String)

  init(parsing text: String) throws(TLSError) {
    if let address = IPv4Address(text) {
      let value = address.rawValue
      let bytes = [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> UInt32($0)) }
      self = .address(bytes, address.description)
    } else if text.utf8.contains(UInt8(ascii: ":")), let address = IPv6Address(Self.withoutScope(text)) {
      self = .address(address.bytes, address.description)
    } else {
      self = .host(try Self.host(text))
    }
  }

  /// A wildcard is returned without its `*.`.
  static func pattern(_ text: String) throws(TLSError) -> (name: ServerName, isWildcard: Bool) {
    let isWildcard = text.utf8.starts(with: "*.".utf8)
    let rest = String(decoding: text.utf8.dropFirst(isWildcard ? 2 : 0), as: UTF8.self)
    return (try ServerName(parsing: rest), isWildcard)
  }

  /// Sessions are stored under this text, and errors show it.
  var text: String {
    switch self {
    case .host(let name): name
    case .address(_, let text): text
    }
  }

  /// Certificates do not contain the scope (the interface) of an address.
  static func withoutScope(_ text: String) -> String {
    String(decoding: text.utf8.prefix { $0 != UInt8(ascii: "%") }, as: UTF8.self)
  }

  private static func host(_ text: String) throws(TLSError) -> String {
    func invalid(_ detail: String) -> TLSError {
      TLSError(.invalidServerName, detail: "\(AddressError.quote(text)) is not the name of a server: \(detail)")
    }
    var bytes = Array(text.utf8)
    // With a leading dot OpenSSL would accept every host below the name, and with an empty name it would check no name.
    // Both are refused below.
    if bytes.last == UInt8(ascii: ".") { bytes.removeLast() }
    guard !bytes.isEmpty else { throw invalid("it is empty") }
    guard bytes.count <= 253 else { throw invalid("it has more than 253 bytes") }
    guard bytes.allSatisfy({ $0 < 0x80 }) else {
      throw invalid("it has characters outside of ASCII, write it in its \"xn--\" form")
    }
    guard bytes.allSatisfy(Self.isAllowed) else {
      throw invalid("it has a character other than letters, digits, hyphens, underscores and dots")
    }
    let labels = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard labels.allSatisfy({ !$0.isEmpty }) else { throw invalid("a part between dots is empty") }
    guard labels.allSatisfy({ $0.count <= 63 }) else { throw invalid("a part between dots has more than 63 bytes") }
    if let last = labels.last, last.allSatisfy(Self.isDigit) {
      throw invalid("it ends with a number, as an IPv4 address does, but is not an IPv4 address")
    }
    return String(decoding: bytes.map(\.lowercasedASCII), as: UTF8.self)
  }

  private static func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }

  private static func isAllowed(_ byte: UInt8) -> Bool {
    let lower = byte.lowercasedASCII
    return lower >= UInt8(ascii: "a") && lower <= UInt8(ascii: "z") || isDigit(byte) || byte == UInt8(ascii: "-")
      || byte == UInt8(ascii: "_") || byte == UInt8(ascii: ".")
  }
}
