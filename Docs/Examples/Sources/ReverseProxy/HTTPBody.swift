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
    if case .exactly(let length) = body, !isChunked { return try await pipe(exactly: length, to: destination) }
    try await forEachPiece(of: body) { try await destination.write($0, isChunked: isChunked) }
    if isChunked { try await destination.writeLastChunk() }
  }

  /// Reads a body. The next piece is read when the last one has been used.
  ///
  /// - Parameters:
  ///   - body: Where the body ends in this stream.
  ///   - use: Takes a piece of at most 64 KiB, without what divides a body into chunks.
  /// - Throws: `InvalidMessage` if chunks are not valid; the errors of this stream and of `use`.
  nonisolated func forEachPiece(of body: BodyLength, _ use: @Sendable ([UInt8]) async throws -> Void) async throws {
    switch body {
    case .empty: return
    case .exactly(let length): try await forEachPiece(exactly: length, use)
    case .untilEnd: while let piece = try await read() { try await use(piece) }
    case .chunked:
      while let length = try await readChunkLength() {
        try await forEachPiece(exactly: length, use)
        guard try await read(exactly: 2) == [13, 10] else { throw InvalidMessage() }
      }
      try await skipTrailer()
    }
  }

  private nonisolated func forEachPiece(
    exactly length: Int, _ use: @Sendable ([UInt8]) async throws -> Void
  ) async throws {
    var left = length
    while left > 0 {
      guard let piece = try await read(upTo: min(left, 65_536)) else {
        throw SocketError(.endOfStream, operation: "read")
      }
      left -= piece.count
      try await use(piece)
    }
  }

  nonisolated func write(_ piece: [UInt8], isChunked: Bool) async throws {
    if !isChunked { return try await write(piece) }
    try await write(contentsOf: [Array("\(String(piece.count, radix: 16))\r\n".utf8), piece, [13, 10]])
  }

  nonisolated func writeLastChunk() async throws { try await write(utf8: "0\r\n\r\n") }

  /// Reads the line in front of a chunk. Returns `nil` for the last chunk, which is empty.
  private nonisolated func readChunkLength() async throws -> Int? {
    let line = try await readLine(maximumLength: 1024)
    let digits = line.prefix { 48...57 ~= $0 || 65...70 ~= $0 || 97...102 ~= $0 }
    // An extension may follow.
    let rest = line.dropFirst(digits.count).drop { $0 == 32 || $0 == 9 }
    guard 1...15 ~= digits.count, rest.isEmpty || rest.first == UInt8(ascii: ";"),
      rest.allSatisfy({ $0 >= 0x20 || $0 == 9 }),
      let length = Int(String(decoding: digits, as: UTF8.self), radix: 16)
    else { throw InvalidMessage() }
    return length == 0 ? nil : length
  }

  /// Reads the fields behind the last chunk, through the empty line: at most 100 fields and 8 KiB.
  private nonisolated func skipTrailer() async throws {
    var left = 8192
    for _ in 0...100 where left >= 2 {
      let line = try await readLine(maximumLength: left)
      if line.isEmpty { return }
      left -= line.count + 2
    }
    throw InvalidMessage()
  }

  /// Reads a line, and returns it without its end.
  private nonisolated func readLine(maximumLength limit: Int) async throws -> ArraySlice<UInt8> {
    do {
      return try await read(until: .crlf, maximumLength: limit).dropLast(2)
    } catch SocketError.Code.limitExceeded {
      throw InvalidMessage()
    }
  }
}
