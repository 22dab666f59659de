import Foundation
import TestSupport
import Testing

/// What scripts learn of failures.
@Suite(.needs(.openssl))
struct TLSExitStatusTests {
  @Test(arguments: [
    (["--ca", "stranger.pem"], 3, "does not lead to a trusted root"), ([], 3, "does not lead to a trusted root"),
    (["--ca", "ca.pem", "--server-name", "example.org"], 3, "not for \"example.org\""),
    (["--ca", "ca.pem", "--alpn", "c"], 1, "none of the application protocols"),
    (["--ca", "nowhere.pem"], 1, "nowhere.pem"), (["--ca", "server.key"], 1, "server.key"),
    (["--ca", "ca.pem", "--cert", "client.pem", "--key", "server.key"], 1, "key"),
    (["--ca", "ca.pem", "--server-name", ".example.org"], 2, "\".example.org\" is not the name of a server"),
  ])
  func `A server that is not accepted is one line and a status`(
    arguments: [String], status: Int32, part: String
  ) async throws {
    let certificates = try await TestCertificates.shared
    let (server, address) = try await Program.listening(
      ["127.0.0.1:0", "--echo", "--tls", "--alpn", "a,b"] + certificates.server)
    let words = arguments.map { $0.hasSuffix(".pem") || $0.hasSuffix(".key") ? certificates.path($0) : $0 }
    let client = try await Program(.sockcat, ["connect", address, "--tls"] + words)
    #expect(try await client.exitStatus() == status)
    try await expectOneLine(client, part)
    await server.kill(SIGTERM)
    #expect(try await server.exitStatus() == 0)
    #expect(await server.errors.lines.count == 1)
  }

  @Test
  func `A client without a certificate is refused, with status 3 on both sides`() async throws {
    let certificates = try await TestCertificates.shared
    let (server, address) = try await Program.listening(
      ["127.0.0.1:0", "--echo", "--once", "--tls", "--client-ca", certificates.authority] + certificates.server)
    let client = try await Program(.sockcat, ["connect", address, "--tls", "--ca", certificates.authority])
    #expect(try await client.exitStatus() == 3)
    try await expectOneLine(client, "it requires a client certificate, and this side sent none")
    #expect(try await server.exitStatus() == 3)
    #expect(await server.errors.lines.last?.contains("the server requires a client certificate") == true)
  }

  @Test
  func `A server of many says why a handshake failed, if asked to, and goes on`() async throws {
    let certificates = try await TestCertificates.shared
    let (server, address) = try await Program.listening(
      ["127.0.0.1:0", "--echo", "--tls", "-v"] + certificates.server)
    let bad = try await Program(.sockcat, ["connect", address, "--tls", "--ca", certificates.stranger])
    #expect(try await bad.exitStatus() == 3)
    try await server.waitForError("it does not know the authority of this side's certificate")
    let good = try await Program(.sockcat, ["connect", address, "--tls", "--ca", certificates.authority])
    #expect(try await good.exitStatus() == 0)
    await server.kill(SIGTERM)
    #expect(try await server.exitStatus() == 0)
  }

  @Test(arguments: [
    (["--cert", "nowhere.pem"], 1, "nowhere.pem"), (["--cert", "server.pem"], 1, "server.pem"),
    (["--cert", "server.pem", "--key", "client.key"], 1, "key"),
    (["--cert", "server.pem", "--key", "server.key", "--client-ca", "client.key"], 1, "client.key"),
  ])
  func `A server that cannot use its files does not begin`(
    arguments: [String], status: Int32, part: String
  ) async throws {
    let certificates = try await TestCertificates.shared
    let words = arguments.map { $0.hasPrefix("--") ? $0 : certificates.path($0) }
    let server = try await Program(.sockcat, ["listen", "127.0.0.1:0", "--echo", "--tls"] + words)
    #expect(try await server.exitStatus() == status)
    try await expectOneLine(server, part)
  }

  @Test
  func `A server that is not encrypted is told from one that is`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--echo", "--once"])
    let client = try await Program(.sockcat, ["connect", address, "--tls", "--insecure"])
    #expect(try await client.exitStatus() == 1)
    #expect(await client.errors.lines.last?.contains("TLS") == true)
    _ = try await server.exitStatus()
  }

  @Test
  func `A handshake that does not get on ends with status 4`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--discard"])
    let client = try await Program(.sockcat, ["connect", address, "--tls", "--timeout", "0.3"])
    #expect(try await client.exitStatus() == 4)
    try await expectOneLine(client, "the TLS handshake was not complete within 0.3 s")
    await server.kill(SIGTERM)
    #expect(try await server.exitStatus() == 0)
  }

  @Test
  func `An encrypted connection that moves nothing ends with status 4 on the side that minds`() async throws {
    let certificates = try await TestCertificates.shared
    let (server, address) = try await Program.listening(
      ["127.0.0.1:0", "--echo", "--once", "--tls", "--idle-timeout", "0.4"] + certificates.server)
    let client = try await Program(
      .sockcat, ["connect", address, "--tls", "--ca", certificates.authority], input: .pipe)
    try await client.send("hello")
    try await client.waitForOutput("hello")
    #expect(try await server.exitStatus() == 4)
    #expect(await server.errors.lines.last == "sockcat: nothing was moved for 0.4 s")
    try await client.finishInput()
    _ = try await client.exitStatus()
  }

  @Test
  func `A stream that is cut off is an error, behind what came before`() async throws {
    let certificates = try await TestCertificates.shared
    let (server, address) = try await Program.listening(
      ["127.0.0.1:0", "--tls"] + certificates.server, input: .pipe)
    let client = try await Program(
      .sockcat, ["connect", address, "--tls", "--ca", certificates.authority], input: .pipe)
    try await server.send("the beginning")
    try await client.waitForOutput("the beginning")
    await server.kill(SIGKILL)
    #expect(try await client.exitStatus() == 1)
    #expect(await client.output.whole == "the beginning")
    try await expectOneLine(client, "the connection ended without a close_notify alert")
  }

  private func expectOneLine(_ program: Program, _ part: String) async throws {
    let lines = await program.errors.lines
    #expect(lines.count == 1)
    #expect(lines.first?.hasPrefix("sockcat: ") == true)
    #expect(lines.first?.contains(part) == true, "\(lines)")
  }
}
