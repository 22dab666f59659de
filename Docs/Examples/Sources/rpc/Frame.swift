import ActorSockets
import Foundation

/// A value as a message: its length in four bytes, and then JSON.
struct Frame<Value: Encodable & Sendable>: WritableMessage {
  /// The most bytes that a value may have.
  static var maximumLength: Int { 1 << 20 }

  var value: Value

  func append(to bytes: inout [UInt8]) throws {
    let json = try JSONEncoder().encode(value)
    guard json.count <= Self.maximumLength, let length = UInt32(exactly: json.count) else {
      throw SocketError(.limitExceeded, operation: "write", detail: "the value has \(json.count) bytes of JSON")
    }
    bytes += [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: length >> $0) }
    bytes += json
  }
}

/// Reads a value from the bytes of a message.
///
/// - Throws: ``SocketError`` `.invalidMessage`, which counts as the peer's error.
func decode<Value: Decodable>(_ type: Value.Type, from json: [UInt8]) throws -> Value {
  do {
    return try JSONDecoder().decode(type, from: Data(json))
  } catch {
    throw SocketError(
      .invalidMessage, operation: "read", detail: "the JSON is not a \(type)", underlyingError: error)
  }
}

/// What a server answers to a call.
enum Reply<Answer: Codable & Sendable>: Codable, Sendable {
  case answer(Answer)
  case failure(String)
}

/// The procedure has thrown an error at the server.
struct RemoteError: Error, Equatable, CustomStringConvertible {
  let description: String
}
