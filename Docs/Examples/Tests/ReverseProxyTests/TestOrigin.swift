import ActorSockets
import ExampleSupport
import Synchronization

/// An origin in this process, which answers as a test says. It serves until the process ends.
final class TestOrigin: Sendable, CustomStringConvertible {
  /// Answers a request. Returns whether the connection stays open.
  typealias Answer = @Sendable (_ connection: TCPConnection, _ head: String) async throws -> Bool

  let address: SocketAddress
  var description: String { "\(address)" }
  private let listener: TCPListener
  private let state = Mutex((heads: [String](), connections: 0, isWell: true))

  /// The heads of the requests, without those of checks.
  var heads: [String] { state.withLock { $0.heads } }
  /// The number of connections on which a request has arrived that was no check.
  var connections: Int { state.withLock { $0.connections } }
  /// Whether checks succeed.
  var isWell: Bool {
    get { state.withLock { $0.isWell } }
    set { state.withLock { $0.isWell = newValue } }
  }

  init(at endpoint: Endpoint = .host("127.0.0.1", port: 0), _ answer: @escaping Answer) throws {
    listener = try TCPListener.bind(to: endpoint)
    address = listener.localAddresses[0]
    Task { [self] in
      try await listener.serve(.init(onFailure: { _ in })) { connection in
        var isFirst = true
        while let bytes = try await connection.read(.message(until: "\r\n\r\n")) {
          let head = String(decoding: bytes, as: UTF8.self)
          if head.hasPrefix("GET /health ") {
            let status = self.isWell ? "200 OK" : "500 Oh"
            return try await connection.write(utf8: "HTTP/1.1 \(status)\r\nContent-Length: 0\r\n\r\n")
          }
          self.note(head, isFirst)
          isFirst = false
          guard try await answer(connection, head) else { return }
        }
      }
    }
  }

  private func note(_ head: String, _ isFirst: Bool) {
    state.withLock {
      $0.heads.append(head)
      if isFirst { $0.connections += 1 }
    }
  }

  /// Answers every request with a text.
  static func saying(_ text: String) throws -> TestOrigin {
    try TestOrigin { connection, _ in
      try await connection.write(utf8: "HTTP/1.1 200 OK\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)")
      return true
    }
  }

  /// Answers every request with its head, and with its body in the form in which it arrived.
  static func echo() throws -> TestOrigin {
    try TestOrigin { connection, head in
      var body: [UInt8] = []
      if let length = head.firstMatch(of: /Content-Length: (\d+)/).flatMap({ Int($0.1) }) {
        if head.contains("100-continue") { try await connection.write(utf8: "HTTP/1.1 100 Continue\r\n\r\n") }
        body = try await connection.read(exactly: length)
      } else if head.contains("Transfer-Encoding: chunked") {
        while !body.suffix(5).elementsEqual("0\r\n\r\n".utf8) { body += try await connection.read(upTo: 65_536) ?? [] }
      }
      let text = Array(head.utf8) + body
      try await connection.write(
        contentsOf: [Array("HTTP/1.1 200 OK\r\nContent-Length: \(text.count)\r\n\r\n".utf8), text])
      return true
    }
  }
}
