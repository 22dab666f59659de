import Foundation
import TestSupport
import Testing

/// Calls that people try first, and the first line that the compiler says about each.
@Suite(.endsInTime) struct CompilerMessageTests {
  private static let tries: [(code: String, message: String?)] = [
    // Correct calls compile.
    ("_ = try await connection.read(upTo: 4)", nil),
    ("try await connection.write(utf8: \"hi\")", nil),
    ("try await connection.write([1, 2])", nil),
    ("let bytes = try await connection.read(exactly: 4); print(bytes[0])", nil),
    ("for try await line in connection.lines { print(line) }", nil),
    ("_ = try TCPListener.bind(to: .port(80))", nil),
    ("_ = try await TCPConnection.connect(to: .host(\"example.com\", port: 80))", nil),
    ("_ = try Endpoint(parsing: \"example.com:80\")", nil),
    ("try await endpoint.serve { print($0.bytes) }", nil),
    ("try await endpoint.serve { (endpoint: isolated UDPEndpoint, datagram) in print(datagram) }", nil),
    ("try await listener.serve { connection in try await connection.write(connection.read(exactly: 4)) }", nil),
    ("try await [listener].serve { try await $0.write(utf8: \"hi\") }", nil),
    ("do { _ = try await connection.read(.line()) } catch .timedOut { print(0) }", nil),
    ("_ = ConnectionPool(.with { $0.connections = 4 }) { try await TCPConnection.connect(to: .port(80)) }", nil),
    // Reading and writing.
    ("_ = try await connection.read(1024)", "'read' is unavailable: use read(upTo:)"),
    ("let n = 4; _ = try await connection.read(n)", "'read' is unavailable: use read(upTo:)"),
    ("_ = try await connection.read(\"\\n\")", "'read' is unavailable: use lines"),
    ("var buffer: [UInt8] = []; _ = try await connection.read(&buffer)", "'read' is unavailable: use read(upTo:)"),
    ("_ = try await connection.readLine()", "'readLine()' is unavailable: use lines"),
    ("_ = try await connection.readAll()", "'readAll()' is unavailable: use readToEnd(maximumLength:)"),
    ("_ = try await connection.receive(1024)", "'receive' is unavailable: use read(upTo:)"),
    ("_ = try await connection.receive()", "'receive' is unavailable: use read(upTo:)"),
    ("for try await line in connection.split(\"\\n\") { print(line) }", "'split' is unavailable: use lines"),
    ("try await connection.write(\"hi\")", "'write' is unavailable: use write(utf8:)"),
    ("let text = \"hi\"; try await connection.write(text)", "'write' is unavailable: use write(utf8:)"),
    ("_ = connection.enqueueWrite([1, 2])", nil),
    ("_ = connection.enqueueWrite(\"hi\")", "'enqueueWrite' is unavailable: use enqueueWrite(utf8:)"),
    ("_ = try await connection.ask(\"hi\", for: .line())", "'ask(_:for:)' is unavailable: use ask(utf8:for:)"),
    (
      "_ = connection.enqueueAsk(\"hi\", for: .line())",
      "'enqueueAsk(_:for:)' is unavailable: use enqueueAsk(utf8:for:)"
    ),
    ("try await connection.writeLine(\"hi\")", "'writeLine' is unavailable: use write(utf8:)"),
    ("try await connection.send([1])", "'send' is unavailable: use write(_:)"),
    ("try await connection.shutdown()", "'shutdown()' is unavailable: use finishWriting()"),
    (
      "while let bytes = try await connection.read(exactly: 4) { print(bytes) }",
      "initializer for conditional binding must have Optional type, not '[UInt8]'"
    ),
    // In a handler, the message is about the call, and not about the handler.
    (
      "try await listener.serve { connection in let bytes = try await connection.read(1024); print(bytes.count) }",
      "'read' is unavailable: use read(upTo:)"
    ),
    (
      "try await listener.serve { connection in try await connection.write(\"hi\") }",
      "'write' is unavailable: use write(utf8:)"
    ),
    // Listening and connecting.
    ("_ = try TCPListener(port: 80)", "'init(port:)' is unavailable: use TCPListener.bind(to: .port(80))"),
    ("_ = try TCPListener.bind(port: 80)", "'bind(port:)' is unavailable: use bind(to: .port(80))"),
    ("_ = try TCPListener.bind(to: 80)", "'bind(to:)' is unavailable: use bind(to: .port(80))"),
    ("try await listener.listen()", "'listen()' is unavailable: bind(to:) listens at once"),
    (
      "_ = try await TCPConnection.connect(host: \"a\", port: 80)",
      "'connect(host:port:)' is unavailable: use connect(to: .host("
    ),
    (
      "_ = try await TCPConnection.connect(to: \"a\", port: 80)",
      "'connect(to:port:)' is unavailable: use connect(to: .host("
    ),
    (
      "_ = try await TCPConnection.connect(to: \"a:80\")",
      "'connect(to:)' is unavailable: use connect(to: Endpoint(parsing:"
    ),
    ("_ = Endpoint(\"host:80\")", "'init(_:)' is unavailable: use Endpoint(parsing:)"),
    (
      "_ = ConnectionPool(connections: 4) { try await TCPConnection.connect(to: .port(80)) }",
      "'init(connections:connect:)' is unavailable: use ConnectionPool(.with { $0.connections = 4 })"
    ),
    // Datagrams.
    ("try await endpoint.send([1], to: endpoint.localAddresses[0])", nil),
    ("_ = Datagram([1, 2]).reply([3])", nil),
    ("_ = try UDPEndpoint(port: 80)", "'init(port:)' is unavailable: use UDPEndpoint.bind(to: .port(5000))"),
    ("_ = try UDPEndpoint.bind(port: 80)", "'bind(port:)' is unavailable: use bind(to: .port(5000))"),
    (
      "try await endpoint.send(\"hi\", to: endpoint.localAddresses[0])",
      "'send(_:to:)' is unavailable: use send(utf8:to:)"
    ),
    (
      "try await endpoint.send([1], host: \"a\", port: 80)",
      "'send(_:host:port:)' is unavailable: use send(_:to:)"
    ),
  ]

  @Test(arguments: [
    [], ["-default-isolation", "MainActor"], ["-enable-upcoming-feature", "NonisolatedNonsendingByDefault"],
  ])
  func `The compiler says which call is meant`(options: [String]) async throws {
    let folder = try Folder()
    let parameters = "_ connection: TCPConnection, _ listener: TCPListener, _ endpoint: UDPEndpoint"
    let lines = Self.tries.enumerated().map { "func f\($0)(\(parameters)) async throws { \($1.code) }" }
    let file = folder.file("tries.swift")
    try (["import ActorSockets"] + lines).joined(separator: "\n").write(to: file, atomically: true, encoding: .utf8)
    let modules = ownProgram.deletingLastPathComponent().appendingPathComponent("Modules").path
    let map = URL(filePath: #filePath).appending(path: "../../../Sources/CLinux/include/module.modulemap").standardized
    let compiler = try await Program(
      Tool("swiftc", package: "swift"),
      ["-typecheck", "-swift-version", "6", "-I", modules, "-Xcc", "-fmodule-map-file=\(map.path)"] + options + [
        file.path
      ])
    _ = try await compiler.exitStatus()
    let messages = await compiler.errors.text.split(separator: "\n")
    for (index, attempt) in Self.tries.enumerated() {
      let first = messages.first { $0.contains("tries.swift:\(index + 2):") && $0.contains(" error: ") }
      if let expected = attempt.message {
        #expect(first?.contains(" error: \(expected)") == true, "\(attempt.code): \(first ?? "no error")")
      } else {
        #expect(first == nil, "\(attempt.code): \(first ?? "")")
      }
    }
  }
}
