import ActorSockets

extension Datagram {
  /// The only newline is the last byte, and every byte is ASCII, whatever the peer sends and whatever its address is.
  var line: [UInt8] {
    var line: [UInt8] = []
    // A unix socket without a name has no address.
    for byte in (remoteAddress?.description ?? "unix:").utf8 {
      // Names of unix sockets may have spaces.
      if byte == UInt8(ascii: " ") { line += "\\x20".utf8 } else { line.append(escaping: byte) }
    }
    line += " \(bytes.count)\(isTruncated ? "+" : "")".utf8
    if !bytes.isEmpty { line.append(UInt8(ascii: " ")) }
    for byte in bytes { line.append(escaping: byte) }
    line.append(UInt8(ascii: "\n"))
    return line
  }
}

extension [UInt8] {
  fileprivate mutating func append(escaping byte: UInt8) {
    switch byte {
    case UInt8(ascii: "\\"): self += "\\\\".utf8
    case UInt8(ascii: "\n"): self += "\\n".utf8
    case UInt8(ascii: "\r"): self += "\\r".utf8
    case UInt8(ascii: "\t"): self += "\\t".utf8
    case 0x20...0x7E: append(byte)
    default:
      let digits = String(byte, radix: 16)
      self += "\\x\(digits.utf8.count == 1 ? "0" : "")\(digits)".utf8
    }
  }
}
