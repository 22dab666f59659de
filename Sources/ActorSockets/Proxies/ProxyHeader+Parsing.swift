internal import SocketSystem

// Reads a PROXY header. Every prefix of a valid header is `.incomplete`, and no byte after it is looked at.

extension ProxyHeader {
  enum Beginning: Equatable {
    case incomplete
    case header(ProxyHeader, count: Int)
    case other
  }

  struct Fault: Error {
    let reason: String
    init(_ reason: String) { self.reason = reason }
  }

  /// `limit` is the most bytes that a header of version 2 may have.
  static func beginning(of bytes: [UInt8], limit: Int) throws(Fault) -> Beginning {
    if bytes.starts(with: signature) { return try binary(bytes, limit) }
    if bytes.starts(with: word) { return try text(bytes) }
    let mayBecomeOne = signature.starts(with: bytes) || word.starts(with: bytes)
    return mayBecomeOne ? .incomplete : .other
  }

  /// Whether bytes certainly are the beginning of a header.
  static func isBegun(by bytes: [UInt8]) -> Bool { bytes.starts(with: signature) || bytes.starts(with: word) }

  // MARK: Version 1

  private static func text(_ bytes: [UInt8]) throws(Fault) -> Beginning {
    let shown = bytes.prefix(longestLine)
    guard let end = shown.firstIndex(of: UInt8(ascii: "\n")) else {
      if shown.count == longestLine { throw Fault("the line is longer than \(longestLine) bytes") }
      return .incomplete
    }
    guard bytes[end - 1] == UInt8(ascii: "\r") else { throw Fault("the line does not end with CR LF") }
    let words = bytes[word.count..<end - 1].split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
    if words[0].elementsEqual("UNKNOWN".utf8) { return .header(ProxyHeader(.v1), count: end + 1) }
    let isIPv4 = words[0].elementsEqual("TCP4".utf8)
    guard isIPv4 || words[0].elementsEqual("TCP6".utf8) else {
      throw Fault("the protocol \(quote(words[0])) is unknown")
    }
    guard words.count == 5 else { throw Fault("the line has \(words.count) words after PROXY instead of 5") }
    let source = try address(words[1], port: words[3], isIPv4)
    let destination = try address(words[2], port: words[4], isIPv4)
    return .header(ProxyHeader(.v1, source: source, destination: destination), count: end + 1)
  }

  private static func quote(_ word: ArraySlice<UInt8>) -> String {
    AddressError.quote(String(decoding: word, as: UTF8.self))
  }

  private static func address(
    _ word: ArraySlice<UInt8>, port digits: ArraySlice<UInt8>, _ isIPv4: Bool
  ) throws(Fault) -> SocketAddress {
    guard let port = UInt16(decimalDigits: digits), digits.count == 1 || digits.first != UInt8(ascii: "0") else {
      throw Fault("\(quote(digits)) is not a port")
    }
    let text = String(decoding: word, as: UTF8.self)
    if isIPv4, let address = IPv4Address(text) { return .ipv4(address, port: port) }
    // A scope would name an interface of the balancer.
    if !isIPv4, !text.utf8.contains(UInt8(ascii: "%")), let address = IPv6Address(text) {
      return .ipv6(address, port: port)
    }
    throw Fault("\(quote(word)) is not an IPv\(isIPv4 ? 4 : 6) address")
  }

  // MARK: Version 2

  private static func binary(_ bytes: [UInt8], _ limit: Int) throws(Fault) -> Beginning {
    guard bytes.count > 12 else { return .incomplete }
    let (version, command) = (bytes[12] >> 4, bytes[12] & 15)
    if version != 2 { throw Fault("version \(version) is unknown") }
    if command > 1 { throw Fault("the command \(command) is unknown") }
    guard bytes.count >= 16 else { return .incomplete }
    let count = 16 + Int(bigEndianBytes: bytes[14...15])
    if count > limit { throw Fault("the header has \(count) bytes; at most \(limit) are accepted") }
    guard bytes.count >= count else { return .incomplete }
    return .header(command == 0 ? ProxyHeader(.v2) : try proxied(bytes[..<count]), count: count)
  }

  /// Reads a whole header whose command is PROXY. After the command LOCAL, the rest of the header is ignored.
  private static func proxied(_ bytes: ArraySlice<UInt8>) throws(Fault) -> ProxyHeader {
    var header = ProxyHeader(.v2)
    let (family, transport) = (bytes[13] >> 4, bytes[13] & 15)
    if family > 3 || transport > 2 { throw Fault("the family \(family) or the transport \(transport) is unknown") }
    switch (family, transport) {
    case (1...3, 1):
      let length = [0, 12, 36, 216][Int(family)]
      guard bytes.count >= 16 + length else { throw Fault("the header is too short for its addresses") }
      (header.source, header.destination) = addresses(bytes[16..<16 + length], family: family)
      try header.readFields(bytes, from: 16 + length)
    case (0, _):
      // The rest may be fields, or addresses to be ignored.
      var withFields = header
      if (try? withFields.readFields(bytes, from: 16)) != nil { header = withFields }
    // Datagrams have no connection, so their addresses are not those of this one.
    default: break
    }
    return header
  }

  private static func addresses(_ bytes: ArraySlice<UInt8>, family: UInt8) -> (SocketAddress?, SocketAddress?) {
    let bytes = Array(bytes)
    switch family {
    case 1:
      func address(_ at: Int, _ port: Int) -> SocketAddress {
        .ipv4(
          IPv4Address(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]),
          port: UInt16(bigEndianBytes: bytes[port...port + 1]))
      }
      return (address(0, 8), address(4, 10))
    case 2:
      func address(_ at: Int, _ port: Int) -> SocketAddress? {
        IPv6Address(bytes: bytes[at..<at + 16]).map { .ipv6($0, port: UInt16(bigEndianBytes: bytes[port...port + 1])) }
      }
      return (address(0, 32), address(16, 34))
    default: return (unixAddress(bytes[..<108]), unixAddress(bytes[108...]))
    }
  }

  /// The name of a unix socket ends with a zero; that of an abstract one also begins with a zero. `nil` if it is empty or not valid.
  private static func unixAddress(_ bytes: ArraySlice<UInt8>) -> SocketAddress? {
    let isAbstract = bytes.first == 0
    let name = (isAbstract ? bytes.dropFirst() : bytes).prefix { $0 != 0 }
    if name.isEmpty { return nil }
    return (try? UnixPath(bytes: (isAbstract ? [0] : []) + name)).map { .unix($0) }
  }

  private static let mostFields = 100

  private mutating func readFields(_ bytes: ArraySlice<UInt8>, from start: Int) throws(Fault) {
    var rest = bytes[start...]
    while !rest.isEmpty {
      guard rest.count >= 3 else { throw Fault("a field is cut off") }
      let kind = Field.Kind(rawValue: rest[rest.startIndex])
      let length = Int(bigEndianBytes: rest[rest.startIndex + 1...rest.startIndex + 2])
      let value = rest.dropFirst(3).prefix(length)
      guard value.count == length else { throw Fault("a field is cut off") }
      switch kind {
      case .padding: break
      case .checksum: try verify(bytes, value)
      default:
        fields.append(Field(kind, Array(value)))
        if fields.count > Self.mostFields { throw Fault("the header has more than \(Self.mostFields) fields") }
      }
      rest = rest.dropFirst(3 + length)
    }
  }

  private mutating func verify(_ bytes: ArraySlice<UInt8>, _ value: ArraySlice<UInt8>) throws(Fault) {
    guard value.count == 4 else { throw Fault("the checksum has \(value.count) bytes instead of 4") }
    if hasChecksum { throw Fault("the header has two checksums") }
    var zeroed = Array(bytes)
    for index in value.indices { zeroed[index] = 0 }
    guard crc32c(zeroed) == UInt32(bigEndianBytes: value) else { throw Fault("the checksum is wrong") }
    hasChecksum = true
  }
}
