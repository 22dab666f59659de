import ActorSockets
import Testing

/// A server on a host of a simulation that answers in capitals, and its clients.
enum UppercaseEcho {
  /// A server that answers each line with the same line in capitals.
  @Sendable static func server() async throws {
    let listener = try TCPListener.bind(to: .port(80))
    try await listener.serve { connection in
      for try await line in connection.lines { try await connection.write(utf8: line.uppercased() + "\n") }
    }
  }

  /// Sends lines to the server, and checks its answers.
  @Sendable static func client(_ lines: Int, to server: String = "server", port: UInt16 = 80) async throws {
    let connection = try await TCPConnection.connect(to: .host(server, port: port))
    for number in 0..<lines {
      try await connection.write(utf8: "line \(number)\n")
      let answer = try await connection.read(until: .lf)
      try #require(answer == Array("LINE \(number)\n".utf8))
    }
    await connection.close()
  }

  @Sendable static func connected() async throws -> TCPConnection {
    try await TCPConnection.connect(to: .host("10.0.0.2", port: 80))
  }
}
