import ActorSockets
import ByteText
import Synchronization

/// A client for one memcached. Any number of tasks may use it at the same time: their commands share one connection, without waiting for
/// each other's answers. After the connection was lost, the next command connects again.
package final class MemcachedClient: Sendable {
  package enum Failure: Error, Hashable {
    /// A key has 1 to 250 bytes, and no space or control character.
    case badKey
    case tooLarge
    case server(String)
  }

  /// The largest value, in bytes.
  package static let largest = 1 << 20

  private let connection: Mutex<TCPConnection>
  private let connect: @Sendable () -> TCPConnection
  private let timeLimit: Duration

  package init(_ server: Endpoint, timeLimit: Duration = .seconds(2)) {
    let configuration = TCPConnection.Configuration.with {
      $0.connectTimeout = timeLimit
      $0.writeBudget = 16 << 20
    }
    connect = { TCPConnection(to: server, configuration: configuration) }
    connection = Mutex(connect())
    self.timeLimit = timeLimit
  }

  /// Returns the value of a key; `nil` if there is no such key.
  package func get(_ key: String) async throws -> [UInt8]? {
    let reply = try await ask("get \(key)", key, for: .parsing(maximumLength: Self.largest + 1_024, Self.value))
    guard let reply else { throw Failure.server("the server ended the connection") }
    return try reply.get()
  }

  package func set(_ key: String, to value: [UInt8], for seconds: Int = 0) async throws {
    if value.count > Self.largest { throw Failure.tooLarge }
    let reply = try await ask("set \(key) 0 \(seconds) \(value.count)", key, value, for: .until(.crlf))
    if !reply.starts(with: "STORED".utf8) { throw Failure.server(ByteText(reply).description) }
  }

  /// Removes a key. Returns whether it was there.
  @discardableResult
  package func delete(_ key: String) async throws -> Bool {
    let reply = try await ask("delete \(key)", key, for: .until(.crlf))
    if reply.starts(with: "NOT_FOUND".utf8) { return false }
    if !reply.starts(with: "DELETED".utf8) { throw Failure.server(ByteText(reply).description) }
    return true
  }

  /// Waits for the answers to the commands that were sent.
  package func close() async { await connection.withLock { $0 }.close(after: .pendingReadsAndWrites) }

  private func ask<Answer: Sendable>(
    _ command: String, _ key: String, _ value: [UInt8]? = nil, for answer: ReadRequest<Answer>
  ) async throws -> Answer {
    // A space or a line break in the key would be another command.
    guard 1...250 ~= key.utf8.count, key.utf8.allSatisfy({ $0 > 32 && $0 != 127 }) else { throw Failure.badKey }
    let end = Delimiter.crlf.bytes
    let question = Array(command.utf8) + end + (value.map { $0 + end } ?? [])
    let connection = connection.withLock { connection in
      if connection.hasPeerFinished { connection = connect() }
      return connection
    }
    return try await connection.ask(question, for: answer, timeout: .within(timeLimit))
  }

  /// Parses `VALUE KEY FLAGS LENGTH`, the value, and `END`.
  private static func value(_ bytes: Span<UInt8>) throws -> ParseResult<Result<[UInt8]?, Failure>> {
    guard let lineEnd = bytes.firstIndex(of: Delimiter.crlf.bytes) else {
      if bytes.count > 512 { throw Failure.tooLarge }
      return .incomplete()
    }
    let line = ByteText(Array(copying: bytes.extracting(..<lineEnd)))
    let words = line.parts(at: " ")
    if words[0].equals("END") { return .message(.success(nil), length: lineEnd + 2) }
    guard words[0].equals("VALUE"), words.count >= 4, let length = words[3].number else {
      return .message(.failure(.server(line.description)), length: lineEnd + 2)
    }
    if length > largest { throw Failure.tooLarge }
    let (start, end) = (lineEnd + 2, lineEnd + 2 + length)
    if bytes.count < end + 7 { return .incomplete(missing: end + 7 - bytes.count) }
    return .message(.success(Array(copying: bytes.extracting(start..<end))), length: end + 7)
  }
}
