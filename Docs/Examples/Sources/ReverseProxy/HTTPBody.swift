import ActorSockets

/// Where the body of a message ends: RFC 9112, section 6.
enum BodyLength: Hashable, Sendable {
  /// There is no body, or it has no bytes.
  case empty
  case exactly(Int)
  /// Each chunk has its length in front, and the last one is empty.
  case chunked
  /// The body ends with the connection.
  case untilEnd
}

extension ByteStream {
  /// Moves a body to another stream. At most 64 KiB of it are in memory. The next part is read only when the other side has taken the last
  /// one, so a slow receiver slows down the sender.
  ///
  /// There is no timeout: ``TCPConnection/Liveness/idleTimeout`` ends a connection on which nothing moves.
  ///
  /// - Parameters:
  ///   - body: Where the body ends in this stream.
  ///   - destination: The other stream.
  ///   - isChunked: Whether the other stream gets chunks. The proxy makes them itself, so extensions of chunks and fields behind the last
  ///     one are not passed on.
  /// - Throws: `InvalidMessage` if chunks are not valid; the errors of both streams.
  nonisolated func move(_ body: BodyLength, to destination: some ByteStream, isChunked: Bool) async throws {
    switch body {
    case .empty: return
    case .exactly(let length): return try await pipe(exactly: length, to: destination)
    case .untilEnd:
      while let piece = try await read() { try await destination.write(piece, isChunked: isChunked) }
    case .chunked:
      while let length = try await readChunkLength() {
        var left = length
        while left > 0 {
          guard let piece = try await read(upTo: min(left, 65_536)) else {
            throw SocketError(.endOfStream, operation: "read")
          }
          left -= piece.count
          try await destination.write(piece, isChunked: isChunked)
        }
        guard try await read(exactly: 2) == [13, 10] else { throw InvalidMessage() }
      }
      try await skipTrailer()
    }
    if isChunked { try await destination.write(utf8: "0\r\n\r\n") }
  }

  private nonisolated func write(_ piece: [UInt8], isChunked: Bool) async throws {
    if !isChunked { return try await write(piece) }
    try await write(contentsOf: [Array("\(String(piece.count, radix: 16))\r\n".utf8), piece, [13, 10]])
  }

  /// Reads the line in front of a chunk. Returns `nil` for the last chunk, which is empty.
  private nonisolated func readChunkLength() async throws -> Int? {
    let line = try await read(until: .crlf, maximumLength: 1024).dropLast(2)
    let digits = line.prefix { 48...57 ~= $0 || 65...70 ~= $0 || 97...102 ~= $0 }
    // An extension may follow.
    let rest = line.dropFirst(digits.count).drop { $0 == 32 || $0 == 9 }
    guard 1...15 ~= digits.count, rest.isEmpty || rest.first == UInt8(ascii: ";"),
      rest.allSatisfy({ $0 >= 0x20 || $0 == 9 }),
      let length = Int(String(decoding: digits, as: UTF8.self), radix: 16)
    else { throw InvalidMessage() }
    return length == 0 ? nil : length
  }

  /// Reads the fields behind the last chunk, through the empty line.
  private nonisolated func skipTrailer() async throws {
    for _ in 0...100 where try await read(until: .crlf, maximumLength: 8192).count == 2 { return }
    throw InvalidMessage()
  }
}
