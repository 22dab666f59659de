import ActorSockets
import ActorSocketsTesting
import Testing

/// A server on a host of a simulation that answers in capitals, and its clients.
enum UppercaseEcho {
  @Sendable static func server() async throws { try await serve(.port(80)) }

  /// Answers each line with the same line in capitals.
  static func serve(_ endpoint: Endpoint) async throws {
    try await TCPListener.bind(to: endpoint).serve { connection in
      for try await line in connection.lines { try await connection.write(utf8: line.uppercased() + "\n") }
    }
  }

  @Sendable static func client(_ lines: Int, to server: String = "server", port: UInt16 = 80) async throws {
    try await client(lines, to: .host(server, port: port))
  }

  /// Sends lines to the server, and checks its answers.
  static func client(_ lines: Int, to endpoint: Endpoint) async throws {
    let connection = try await TCPConnection.connect(to: endpoint)
    for number in 0..<lines { try await ask(connection, "line \(number)") }
    await connection.close()
  }

  static func ask(_ connection: TCPConnection, _ line: String = "hello", timeout: Timeout? = nil) async throws {
    try await connection.write(utf8: line + "\n")
    let answer = try await connection.read(until: .lf, timeout: timeout)
    try #require(answer == Array("\(line.uppercased())\n".utf8))
  }

  @Sendable static func connected() async throws -> TCPConnection {
    try await TCPConnection.connect(to: .host("10.0.0.2", port: 80))
  }
}

extension Simulation {
  /// The host `server`, on which the server runs.
  func echoHost() -> SimulatedHost {
    let server = host("server")
    server.start(UppercaseEcho.server)
    return server
  }
}
