import ActorSockets
import ServerSupport

/// A server on ActorSockets that takes lines or messages apart, written as a user would write it, in several ways.
///
/// At the end of the stream it answers with how many there were, and the sum of their bytes.
@main
struct SwiftFraming {
  enum Mode: String {
    case lines, messages
  }

  /// What a line or message becomes: a `String` (lines only) or an array, one at a time or all that have come; or nothing but a
  /// look at its bytes.
  enum Form: String {
    case string, array, scoped, parsed
    case stringBatch = "string-batch"
    case arrayBatch = "array-batch"
  }

  static func main() async throws {
    var arguments = Arguments(
      usage: """
        swift-framing --mode lines|messages [--on reactor|pool] \
        [--form string|array|string-batch|array-batch|scoped|parsed] [PORT]
        """)
    let places: [String: HandlerExecutor] = ["reactor": .reactor, "pool": .pool]
    let place = arguments.take("--on", or: .pool) { places[$0] }
    let mode = arguments.take("--mode", or: Mode.lines)
    let form = arguments.take("--form", or: Form.array)
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: arguments.port()))
    for address in listener.localAddresses { printError("listening on \(address)") }
    try await listener.serve(.init(on: place)) { connection in
      let tally =
        switch (mode, form) {
        case (.lines, .string): try await takeStrings(connection)
        case (.lines, .array): try await takeArrays(connection.messages(until: .lf), endingBy: 1)
        case (.messages, .array), (.messages, .string):
          try await takeArrays(connection.messages(lengthPrefix: .uint32(.big)), endingBy: 0)
        case (.lines, .stringBatch): try await takeStringBatches(connection)
        case (.lines, .arrayBatch): try await takeArrayBatches(connection, of: .message(until: .lf), endingBy: 1)
        case (.messages, .arrayBatch), (.messages, .stringBatch):
          try await takeArrayBatches(connection, of: .message(lengthPrefix: .uint32(.big)), endingBy: 0)
        case (.lines, .parsed): try await takeParsed(connection, .parsing(LineParser()))
        case (.messages, .parsed): try await takeParsed(connection, .parsing(parseMessage))
        case (.lines, .scoped): try await lookAtFrames(connection, countLines)
        case (.messages, .scoped): try await lookAtFrames(connection, countMessages)
        }
      try await connection.write(Array(tally.line.utf8))
    }
  }
}

private func takeStrings(_ connection: TCPConnection) async throws -> Tally {
  var tally = Tally()
  for try await line in connection.lines {
    tally.add(line.utf8.span)
  }
  return tally
}

private func takeParsed(_ connection: TCPConnection, _ request: ReadRequest<String?>) async throws -> Tally {
  var tally = Tally()
  for try await text in connection.messages(of: request) { tally.add(text.utf8.span) }
  return tally
}

/// Finds a line as `connection.lines` does.
private struct LineParser: MessageParser {
  var searched = 0

  mutating func parse(_ bytes: Span<UInt8>) throws -> ParseResult<String> {
    guard let end = bytes.firstIndex(of: UInt8(ascii: "\n"), from: searched) else {
      searched = bytes.count
      return .incomplete()
    }
    let isPair = end > 0 && bytes[end - 1] == UInt8(ascii: "\r")
    let line = bytes.extracting(first: isPair ? end - 1 : end)
    return .message(String(copying: try UTF8Span(validating: line)), length: end + 1)
  }
}

/// Finds a text behind its length.
private func parseMessage(_ bytes: Span<UInt8>) throws -> ParseResult<String> {
  if bytes.count < 4 { return .incomplete(missing: 4 - bytes.count) }
  let end = 4 + (0..<4).reduce(0) { $0 << 8 | Int(bytes[$1]) }
  if bytes.count < end { return .incomplete(missing: end - bytes.count) }
  return .message(String(copying: try UTF8Span(validating: bytes.extracting(4..<end))), length: end)
}

/// Without the bytes that end each of them.
private func takeArrays(_ messages: StreamSequence<[UInt8]>, endingBy length: Int) async throws -> Tally {
  var tally = Tally()
  for try await message in messages {
    tally.add(message.span.extracting(first: message.count - length))
  }
  return tally
}

private func takeStringBatches(_ connection: TCPConnection) async throws -> Tally {
  var tally = Tally()
  for try await lines in connection.batches(of: .line()) {
    for line in lines { tally.add(line.utf8.span) }
  }
  return tally
}

private func takeArrayBatches(
  _ connection: TCPConnection, of request: ReadRequest<[UInt8]?>, endingBy length: Int
) async throws -> Tally {
  var tally = Tally()
  for try await messages in connection.batches(of: request) {
    for message in messages { tally.add(message.span.extracting(first: message.count - length)) }
  }
  return tally
}

/// Frames that are whole are counted where they were received.
private func lookAtFrames(
  _ connection: TCPConnection, _ count: @escaping @Sendable (inout Tally, Span<UInt8>) -> Int
) async throws -> Tally {
  var tally = Tally()
  while true {
    let before = tally
    let after = try await connection.withBytes { bytes, consumed in
      var tally = before
      consumed = count(&tally, bytes)
      return tally
    }
    guard let after else { return tally }
    tally = after
  }
}

/// Returns how many bytes are used up.
private func countLines(_ tally: inout Tally, _ bytes: Span<UInt8>) -> Int {
  var start = 0
  for index in bytes.indices where bytes[index] == UInt8(ascii: "\n") {
    tally.add(bytes.extracting(start..<index))
    start = index + 1
  }
  return start
}

/// Returns how many bytes are used up.
private func countMessages(_ tally: inout Tally, _ bytes: Span<UInt8>) -> Int {
  var start = 0
  while bytes.count - start >= 4 {
    let length = (start..<start + 4).reduce(0) { $0 << 8 | Int(bytes[$1]) }
    guard bytes.count - start - 4 >= length else { break }
    tally.add(bytes.extracting(start + 4..<start + 4 + length))
    start += 4 + length
  }
  return start
}
