import ActorSockets
import ByteText
import Foundation

/// A method of a service: its name, and the types of its argument and of its value.
struct RPCMethod<Argument: Codable & Sendable, Value: Codable & Sendable>: Sendable {
  let name: String
  /// Whether a call may be carried out twice. If so, it is sent again when the connection is lost before its answer.
  let isRepeatable: Bool

  init(_ name: String, isRepeatable: Bool = false) { (self.name, self.isRepeatable) = (name, isRepeatable) }
}

/// The reason why a call has no value. Services throw it, and add codes of their own.
struct RPCFailure: Error, Codable, Hashable, CustomStringConvertible {
  struct Code: RawRepresentable, Codable, Hashable, Sendable {
    let rawValue: String

    init(rawValue: String) { self.rawValue = rawValue }
    init(_ name: String) { rawValue = name }

    // Names are compared as bytes, like those of methods.
    static func == (left: Code, right: Code) -> Bool { ByteText(left.rawValue) == ByteText(right.rawValue) }
    func hash(into hasher: inout Hasher) { hasher.combine(ByteText(rawValue)) }

    static let unknownMethod = Code("unknownMethod")
    static let invalidArgument = Code("invalidArgument")
    /// The method has thrown an error that says nothing to the caller.
    static let failed = Code("failed")
    static let timedOut = Code("timedOut")
    static let cancelled = Code("cancelled")
    /// More calls at a time than allowed.
    static let busy = Code("busy")
    /// An argument or a value that does not fit into a message.
    static let tooLong = Code("tooLong")
    /// The server has not carried out the call, because it stops.
    static let unavailable = Code("unavailable")
    /// The server speaks another version of the protocol.
    static let version = Code("version")
  }

  var code: Code
  var message: String

  init(_ code: Code, _ message: String) { (self.code, self.message) = (code, message) }

  var description: String { "\(code.rawValue): \(message)" }
}

/// The part of a message that does not depend on the method.
///
/// On the wire, a message is its length in four bytes, the highest first, and then JSON such as
/// `{"head":{"call":{"id":1,"method":"sum","milliseconds":5000}},"content":[1,2]}`.
enum RPCHead: Codable, Hashable {
  static let version = 1

  /// The first message of each side: how many calls at a time, and how many bytes of a message, it takes.
  case hello(version: Int, calls: Int, length: Int)
  /// The content is the argument. Each id of a connection is larger than the one before. The time is what is left of the deadline.
  case call(id: UInt64, method: String, milliseconds: Int64)
  /// The client no longer waits. The call is answered nevertheless, with a failure or a value.
  case cancel(id: UInt64)
  /// The content is the value.
  case answer(id: UInt64)
  case failure(id: UInt64, reason: RPCFailure)
  /// The server stops. Calls with a larger id than the last one are not carried out.
  case goodbye(last: UInt64)
}

/// A message to be sent.
struct RPCMessage: WritableMessage, Sendable {
  var head: RPCHead
  /// The argument or the value, in JSON.
  var content: [UInt8]

  init(_ head: RPCHead, content: [UInt8] = Array("null".utf8)) { (self.head, self.content) = (head, content) }

  /// Returns the message with its length. Throws `RPCFailure` with the code `.tooLong`.
  func encoded(atMost limit: Int = .max) throws -> [UInt8] {
    let json = try Array(#"{"head":"#.utf8) + JSONEncoder().encode(head) + Array(#","content":"#.utf8) + content + [125]
    guard json.count <= limit, let length = UInt32(exactly: json.count) else {
      throw RPCFailure(.tooLong, "the message has \(json.count) bytes, and may have \(limit)")
    }
    return [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: length >> $0) } + json
  }

  func append(to bytes: inout [UInt8]) throws { bytes += try encoded() }
}

/// A message that has arrived. Its content is decoded when its type is known.
struct RPCPacket: Sendable {
  let head: RPCHead
  private let json: Data

  private struct Envelope: Decodable { let head: RPCHead }
  private struct Content<Value: Decodable>: Decodable { let content: Value }

  init(parsing bytes: [UInt8]) throws {
    json = Data(bytes)
    do {
      head = try JSONDecoder().decode(Envelope.self, from: json).head
    } catch {
      throw SocketError(.invalidMessage, operation: "read", detail: "not a message: \(error)", underlyingError: error)
    }
  }

  func content<Value: Decodable>(as type: Value.Type) throws -> Value {
    try JSONDecoder().decode(Content<Value>.self, from: json).content
  }

  /// Waits for a message. Returns `nil` at the end of the stream, or when the server stops.
  ///
  /// These are two reads, because a connection may be idle for long, but a message that has begun must be completed in time.
  ///
  /// - Parameters:
  ///   - connection: The connection.
  ///   - limits: The longest message, and how long it may take from its first byte.
  ///   - idle: How long to wait for the first byte; `nil` for any time.
  /// - Returns: The message.
  /// - Throws: `SocketError`, for bytes that are no message, too; `CancellationError`.
  static func read(
    from connection: some ByteStream, _ limits: RPCLimits, idle: Timeout? = nil
  ) async throws -> RPCPacket? {
    guard try await connection.peek(upTo: 1, timeout: idle) != nil else { return nil }
    let request: ReadRequest<[UInt8]?> = .message(lengthPrefix: .uint32(.big), maximumLength: limits.length)
    return try await connection.read(request, timeout: .after(limits.message)).map { try RPCPacket(parsing: $0) }
  }

  /// The error for a message that is not allowed where it is. `serve` counts it as the peer's.
  static func violation(_ detail: String) -> SocketError {
    SocketError(.invalidMessage, operation: "read", detail: detail)
  }
}

/// What one side lets the other one use.
struct RPCLimits: Sendable {
  /// The largest number of bytes of a message, without its length.
  var length = 1 << 20
  /// The largest number of calls of a connection at a time.
  var calls = 64
  /// The longest time for the hello.
  var hello: Duration = .seconds(10)
  /// The longest time for a message, from its first byte.
  var message: Duration = .seconds(30)
  /// The longest time for sending an answer to a client that does not read.
  var write: Duration = .seconds(30)
  /// The longest time for a call, whatever its deadline is.
  var call: Duration = .seconds(600)

  var greeting: RPCMessage { RPCMessage(.hello(version: RPCHead.version, calls: calls, length: length)) }
}
