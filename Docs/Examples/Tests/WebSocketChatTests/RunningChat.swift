import ActorSockets
import ExampleSupport
import Foundation

@testable import WebSocketChat

extension Tool {
  static let webSocketChat = Tool(example: "WebSocketChat")
}

/// A chat in this process.
struct RunningChat: Sendable {
  let address: SocketAddress
  let listener: TCPListener
  private let serving: Task<ServeReport, any Error>

  init(
    silence: Duration = .seconds(30), request: Duration = .seconds(10), origins: [String] = []
  ) throws {
    var server = ChatServer(room: ChatRoom(), origins: origins)
    (server.limits.silence, server.limits.request) = (silence, request)
    var configuration = TCPListener.Configuration()
    configuration.connection = ChatServer.connectionConfiguration
    listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0), configuration: configuration)
    address = listener.localAddresses[0]
    serving = Task { [server, listener] in try await listener.serve { try await server.serve($0) } }
  }

  var url: String { "ws://\(address)/chat/" }

  /// Connects and upgrades, without a library.
  func member(_ name: String) async throws -> TCPConnection {
    let connection = try await TCPConnection.connect(to: .address(address))
    try await connection.write(
      utf8: "GET /chat/\(name) HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
        + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    let head = String(decoding: try await connection.read(until: "\r\n\r\n"), as: UTF8.self)
    guard head.hasPrefix("HTTP/1.1 101 "), head.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n")
    else {
      throw Overdue(description: "the answer is \(head)")
    }
    return connection
  }

  func stop() async throws -> ServeReport {
    await listener.drain(within: .seconds(20))
    return try await serving.value
  }
}

extension TCPConnection {
  /// Reads a frame of the server with less than 126 bytes.
  func readFrame() async throws -> [UInt8] {
    let head = try await read(exactly: 2)
    return head + (try await read(exactly: Int(head[1])))
  }

  /// Sends a text with less than 65,536 bytes.
  func say(_ text: String) async throws {
    let bytes = Array(text.utf8)
    let length: [UInt8] =
      bytes.count < 126 ? [0x80 | UInt8(bytes.count)] : [0xFE, UInt8(bytes.count >> 8), UInt8(bytes.count & 255)]
    try await write([0x81] + length + [0, 0, 0, 0] + bytes)
  }

  /// Reads a text with less than 65,536 bytes.
  func readText() async throws -> String {
    let head = try await read(exactly: 2)
    let count = head[1] == 126 ? Int(try await readInteger(as: UInt16.self)) : Int(head[1])
    return String(decoding: try await read(exactly: count), as: UTF8.self)
  }

  /// Reads frames until there is no text.
  func readBeyondText() async throws -> [UInt8] {
    while true {
      let frame = try await readFrame()
      if frame[0] != 0x81 { return frame }
    }
  }
}
