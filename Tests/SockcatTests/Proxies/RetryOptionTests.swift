import ActorSockets
import Foundation
import TestSupport
import Testing

struct RetryOptionTests {
  /// Answers as an HTTP proxy, but only the third connection. Then echoes.
  private func serveThird(of listener: TCPListener) async throws {
    for _ in 1...2 { await (try await listener.accept()).abort() }
    let connection = try await listener.accept()
    _ = try await connection.read(until: "\r\n\r\n")
    try await connection.write(utf8: "HTTP/1.1 200 OK\r\n\r\n")
    while let bytes = try await connection.read() { try await connection.write(bytes) }
    await connection.close()
  }

  @Test func `The third try succeeds`() async throws {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let proxy = "http://\(listener.localAddresses[0])"
    async let serving: Void = serveThird(of: listener)
    let client = try await Program(
      .sockcat, ["connect", "192.0.2.1:80", "--proxy", proxy, "--retry", "3"], input: .pipe)
    try await client.echo("hello\n")
    try await serving
  }

  @Test func `The last failure says how often connecting was tried`() async throws {
    let client = try await Program(.sockcat, ["connect", "unix:/nonexistent/socket", "--retry", "3"])
    #expect(try await client.exitStatus() == 1)
    #expect(await client.errors.whole.contains("tried 3 times"))
  }

  @Test func `The timeout limits all tries together`() async throws {
    let client = try await Program(
      .sockcat, ["connect", "unix:/nonexistent/socket", "--retry", "1000000", "--timeout", "0.3"])
    #expect(try await client.exitStatus() == 4)
    let lines = await client.errors.lines
    #expect(lines.count == 1 && lines.first?.contains("although tried") == true, "\(lines)")
  }

  @Test func `sockcat proxy tries again to reach its target`() async throws {
    let (forwarder, address) = try await Program.proxying(["127.0.0.1:0", "unix:/nonexistent/socket", "--retry", "2"])
    let client = try await Program(.sockcat, ["connect", address], input: .pipe)
    #expect(try await client.exitStatus() == 1)
    try await forwarder.waitForError("tried 2 times")
    try await forwarder.stop()
  }
}
