/// A message of a handshake, in records of this size.
func handshakeRecords(of message: [UInt8], size: Int) -> [UInt8] {
  stride(from: 0, to: message.count, by: size).flatMap { start in
    let piece = message[start..<min(start + size, message.count)]
    let header: [UInt8] = [22, 3, 1, UInt8(piece.count >> 8), UInt8(piece.count & 0xff)]
    return header + piece
  }
}
