import Foundation
import TestSupport
import Testing

@Suite(.needs(.openssl)) struct TLSPeerTests {
  @Test(arguments: ["-tls1_2", "-tls1_3"])
  func `openssl s_client gets its echo`(version: String) async throws {
    let certificates = try TestCertificates.shared
    let (server, address) = try await Program.listening(
      ["127.0.0.1:0", "--echo", "--tls", "--alpn", "echo", "-v"] + certificates.server)
    let verifying = ["-CAfile", certificates.authority, "-verify_return_error", "-verify_ip", "127.0.0.1"]
    let client = try await Program(
      .openssl, ["s_client", "-connect", address, version, "-alpn", "echo", "-ign_eof"] + verifying, input: .pipe)
    try await client.exchange("hello\n")
    #expect(await client.output.text.contains("ALPN protocol: echo"))
    try await server.waitForError(version == "-tls1_2" ? "TLS 1.2, " : "TLS 1.3, ")
    await client.kill(SIGKILL)
    try await server.stop()
  }

  @Test(arguments: ["-tls1_2", "-tls1_3"])
  func `openssl s_server is verified and answers`(version: String) async throws {
    let certificates = try TestCertificates.shared
    let server = try await Program(
      .openssl,
      [
        "s_server", "-accept", "127.0.0.1:0", version, "-naccept", "1", "-rev", "-cert",
        certificates.path("server.pem"),
      ]
        + ["-key", certificates.path("server.key"), "-Verify", "1", "-CAfile", certificates.authority],
      input: .pipe)
    let address = try await Self.address(of: server)
    let client = try await Program(
      .sockcat, ["connect", address, "--tls", "--ca", certificates.authority, "-v"] + certificates.client,
      input: .pipe)
    try await client.send("stressed\n")
    try await client.waitForOutput("desserts\n")
    let name = version == "-tls1_2" ? "TLS 1.2" : "TLS 1.3"
    try await client.waitForError("peer \"CN=server\", verified\n")
    #expect(await client.errors.text.hasPrefix("sockcat: \(address): \(name), "))
    #expect(await client.errors.text.hasSuffix("peer \"CN=server\", verified\n"))
    try await client.finish()
    #expect(try await server.exitStatus() == 0)
  }

  private static func address(of server: Program) async throws -> String {
    _ = await server.output.wait { $0.contains(/ACCEPT [^\n]*:\d+\n/) }
    guard let match = await server.output.text.firstMatch(of: /ACCEPT [^\n]*:(\d+)\n/) else {
      throw Program.Disappointment(description: "\(server) does not listen: \(await server.errors.text)")
    }
    return "127.0.0.1:\(match.1)"
  }

  @Test(.needs(.curl), arguments: [Family.ipv4, .ipv6], ["pool", "reactor"])
  func `curl gets 200 twice over one encrypted connection`(family: Family, place: String) async throws {
    let certificates = try TestCertificates.shared
    let (server, address) = try await Program.listening(
      [family.freeEndpoint(in: Folder()), "--http", "--on", place, "--alpn", "http/1.1", "--tls"] + certificates.server)
    let url = "https://\(address)/a/path?and=more"
    let client = try await Program(
      .curl,
      ["-s", "-g", "--cacert", certificates.authority, "-w", "[%{http_code} %{num_connects} %{ssl_verify_result}]"]
        + ["--max-time", "10", url, url])
    #expect(try await client.exitStatus() == 0)
    let page = "It works: this is sockcat.\n"
    #expect(await client.output.whole == "\(page)[200 1 0]\(page)[200 0 0]")
    try await server.stopQuietly()
  }

  @Test(.needs(.curl))
  func `curl shows its certificate where one is demanded`() async throws {
    let certificates = try TestCertificates.shared
    let (server, address) = try await Program.listening(
      ["127.0.0.1:0", "--http", "--tls", "--client-ca", certificates.authority] + certificates.server)
    let arguments = ["-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", certificates.authority]
    let good = try await Program(
      .curl, arguments + ["--cert", certificates.path("client-and-key.pem"), "https://\(address)/"])
    #expect(try await good.exitStatus() == 0)
    #expect(await good.output.whole == "200")
    let bad = try await Program(.curl, arguments + ["-S", "https://\(address)/"])
    #expect(try await bad.exitStatus() != 0)
    #expect(await bad.errors.whole.contains("alert certificate required"))
    try await server.stop()
  }
}
