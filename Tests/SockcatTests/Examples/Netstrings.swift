import ActorSockets

/// A netstring: the length in decimal digits, a colon, the bytes, and a comma.
struct Netstring: Hashable, Sendable, WritableMessage {
  struct Malformed: Error {}

  var bytes: [UInt8]

  func append(to bytes: inout [UInt8]) {
    bytes += "\(self.bytes.count):".utf8
    bytes += self.bytes
    bytes.append(UInt8(ascii: ","))
  }

  static func parse(_ bytes: Span<UInt8>) throws -> ParseResult<Netstring> {
    var length = 0
    for index in bytes.indices {
      let byte = bytes[index]
      if index > 0, byte == UInt8(ascii: ":") {
        let comma = index + 1 + length
        if bytes.count <= comma { return .incomplete(missing: comma + 1 - bytes.count) }
        if bytes[comma] != UInt8(ascii: ",") { throw Malformed() }
        return .message(Netstring(bytes: Array(copying: bytes.extracting(index + 1..<comma))), length: comma + 1)
      }
      let hasLeadingZero = index > 0 && length == 0
      guard UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte, index < 9, !hasLeadingZero else { throw Malformed() }
      length = length * 10 + Int(byte - UInt8(ascii: "0"))
    }
    return .incomplete()
  }
}

func echoNetstrings(_ connection: some ByteStream) async throws {
  for try await netstring in connection.messages(of: .parsing(maximumLength: 100_000, Netstring.parse)) {
    try await connection.write(message: netstring)
  }
}
