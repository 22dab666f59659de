import Foundation
import TestSupport
import Testing

@Suite(.needs(.openssl)) struct TLSExitStatusTests {
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
    let certificates = try TestCertificates.shared
    let (server, address) = try await Encryption.tls.listening(["--echo", "--alpn", "a,b"])
    let words = arguments.map { $0.hasSuffix(".pem") || $0.hasSuffix(".key") ? certificates.path($0) : $0 }
    let client = try await Program(.sockcat, ["connect", address, "--tls"] + words)
    try await client.expectFailure(status, part)
    try await server.stopQuietly()
  }

  @Test func `A client without a certificate is refused, with status 3 on both sides`() async throws {
    let authority = try TestCertificates.shared.authority
    let (server, address) = try await Encryption.tls.listening(["--echo", "--once", "--client-ca", authority])
    let client = try await Encryption.tls.connecting(address, input: .nothing)
    try await client.expectFailure(3, "it requires a client certificate, and this side sent none")
    #expect(try await server.exitStatus() == 3)
    #expect(await server.errors.lines.last?.contains("the server requires a client certificate") == true)
  }

  @Test func `A server of many says why a handshake failed, if asked to, and goes on`() async throws {
    let (server, address) = try await Encryption.tls.listening(["--echo", "-v"])
    let bad = try await Program(
      .sockcat, ["connect", address, "--tls", "--ca", TestCertificates.shared.stranger])
    #expect(try await bad.exitStatus() == 3)
    try await server.waitForError("it does not know the authority of this side's certificate")
    try await Encryption.tls.connecting(address).finish()
    try await server.stop()
  }

  @Test(arguments: [
    (["--cert", "nowhere.pem"], 1, "nowhere.pem"), (["--cert", "server.pem"], 1, "server.pem"),
    (["--cert", "server.pem", "--key", "client.key"], 1, "key"),
    (["--cert", "server.pem", "--key", "server.key", "--client-ca", "client.key"], 1, "client.key"),
  ])
  func `A server that cannot use its files does not begin`(
    arguments: [String], status: Int32, part: String
  ) async throws {
    let certificates = try TestCertificates.shared
    let words = arguments.map { $0.hasPrefix("--") ? $0 : certificates.path($0) }
    let server = try await Program(.sockcat, ["listen", "127.0.0.1:0", "--echo", "--tls"] + words)
    try await server.expectFailure(status, part)
  }

  @Test func `A server that is not encrypted is told from one that is`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--echo", "--once"])
    let client = try await Program(.sockcat, ["connect", address, "--tls", "--insecure"])
    #expect(try await client.exitStatus() == 1)
    #expect(await client.errors.lines.last?.contains("TLS") == true)
    _ = try await server.exitStatus()
  }

  @Test func `A handshake that does not get on ends with status 4`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--discard"])
    let client = try await Program(.sockcat, ["connect", address, "--tls", "--timeout", "0.3"])
    try await client.expectFailure(4, "the TLS handshake was not complete within 0.3 s")
    try await server.stop()
  }

  @Test func `A stream that is cut off is an error, behind what came before`() async throws {
    let (server, address) = try await Encryption.tls.listening([], input: .pipe)
    let client = try await Encryption.tls.connecting(address)
    try await server.send("the beginning")
    try await client.waitForOutput("the beginning")
    await server.kill(SIGKILL)
    try await client.expectFailure(
      1, "the connection ended without a close_notify alert", printing: "the beginning")
  }
}
