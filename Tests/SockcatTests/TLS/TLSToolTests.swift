import Foundation
import TestSupport
import Testing

/// sockcat against itself, encrypted.
@Suite(.needs(.openssl))
struct TLSToolTests {
  /// What a client needs to trust the test's servers.
  private func trust(_ family: Family = .ipv4) async throws -> [String] {
    // The path of a unix socket is no name.
    ["--tls", "--ca", try await TestCertificates.shared.authority]
      + (family == .unix ? ["--server-name", "unix.test"] : [])
  }

  private func listening(
    _ options: [String], _ endpoint: String = "127.0.0.1:0", input: Program.Input = .nothing
  ) async throws -> (Program, String) {
    try await Program.listening([endpoint, "--tls"] + TestCertificates.shared.server + options, input: input)
  }

  @Test(arguments: Family.allCases, ["pool", "reactor"])
  func `Megabytes come back from an echo as they were sent`(family: Family, place: String) async throws {
    let folder = try Folder()
    let sample = Data((0..<4_000_000).map { UInt8(truncatingIfNeeded: $0 &* 2_654_435_761 >> 13) })
    try sample.write(to: folder.file("sample"))
    let (server, address) = try await listening(
      ["--echo", "--once", "--on", place], family.freeEndpoint(in: folder))
    let client = try await Program(
      .sockcat, ["connect", address] + trust(family), input: .file(folder.file("sample")),
      outputTo: folder.file("back"))
    #expect(try await client.exitStatus() == 0)
    #expect(try await server.exitStatus() == 0)
    #expect(try Data(contentsOf: folder.file("back")) == sample)
    #expect(await client.errors.whole == "")
    #expect(await server.errors.lines.count == 1)
  }

  @Test
  func `A joined connection ends in each direction by itself`() async throws {
    let (server, address) = try await listening([], input: .pipe)
    let client = try await Program(.sockcat, ["connect", address] + trust(), input: .pipe)
    try await client.send("question")
    try await client.finishInput()
    try await server.waitForOutput("question")
    try await server.send("answer")
    try await client.waitForOutput("answer")
    try await server.finishInput()
    #expect(try await server.exitStatus() == 0)
    #expect(try await client.exitStatus() == 0)
  }

  @Test
  func `Each side says what was agreed on`() async throws {
    let (server, address) = try await listening(["--echo", "--alpn", "b,a", "-v"])
    let client = try await Program(.sockcat, ["connect", address, "--alpn", "a,b", "-v"] + trust())
    #expect(try await client.exitStatus() == 0)
    let agreed = "TLS 1.3, TLS_AES_256_GCM_SHA384, ALPN \"b\", peer"
    #expect(await client.errors.whole == "sockcat: \(address): \(agreed) \"CN=server\", verified\n")
    try await server.waitForError("\(agreed) without a certificate\n")
    await server.kill(SIGTERM)
    #expect(try await server.exitStatus() == 0)
  }

  @Test
  func `A client's certificate is verified and shown`() async throws {
    let certificates = try await TestCertificates.shared
    let (server, address) = try await listening(["--discard", "--once", "-v", "--client-ca", certificates.authority])
    let client = try await Program(.sockcat, ["connect", address] + certificates.client + trust())
    #expect(try await client.exitStatus() == 0)
    #expect(try await server.exitStatus() == 0)
    #expect(await server.errors.lines.last?.hasSuffix("no ALPN, peer \"CN=client\", verified") == true)
  }

  @Test
  func `Lines of a chat are passed on among encrypted connections`() async throws {
    let (server, address) = try await listening(["--chat"])
    let first = try await Program(.sockcat, ["connect", address] + trust(), input: .pipe)
    try await first.waitForOutput("you are guest1")
    let second = try await Program(.sockcat, ["connect", address] + trust(), input: .pipe)
    try await second.waitForOutput("here: guest1")
    try await second.send("hello\n")
    try await first.waitForOutput("guest2: hello\n")
    await server.kill(SIGTERM)
    for client in [first, second] {
      try await client.waitForOutput("the room closes")
      try await client.finishInput()
      #expect(try await client.exitStatus() == 0)
    }
    #expect(try await server.exitStatus() == 0)
  }

  @Test
  func `A client that verifies nothing says so and goes on`() async throws {
    let (server, address) = try await listening(["--echo", "--once"])
    let client = try await Program(.sockcat, ["connect", address, "--tls", "--insecure", "-v"], input: .pipe)
    try await client.send("hello")
    try await client.waitForOutput("hello")
    try await client.finishInput()
    #expect(try await client.exitStatus() == 0)
    #expect(try await server.exitStatus() == 0)
    let lines = await client.errors.lines
    #expect(lines.first?.hasPrefix("sockcat: warning: --insecure verifies nothing") == true)
    #expect(lines.last?.hasSuffix("peer \"CN=server\", NOT verified: unknownAuthority") == true)
  }

  @Test
  func `A second signal aborts encrypted connections and says so`() async throws {
    let (server, address) = try await listening(["--echo"])
    let client = try await Program(.sockcat, ["connect", address] + trust(), input: .pipe)
    try await client.send("hello")
    try await client.waitForOutput("hello")
    await server.kill(SIGTERM)
    await server.kill(SIGINT)
    #expect(try await server.exitStatus() == 1)
    #expect(await server.errors.lines.last == "sockcat: 1 of 1 connections were aborted unfinished")
    #expect(try await client.exitStatus() == 1)
    #expect(await client.errors.whole.contains("the peer reset the connection"))
  }

  @Test
  func `A web server that stops closes encrypted connections that wait for a request`() async throws {
    let (server, address) = try await listening(["--http"])
    let client = try await Program(.sockcat, ["connect", address] + trust(), input: .pipe)
    try await client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    try await client.waitForOutput("It works")
    await server.kill(SIGTERM)
    #expect(try await server.exitStatus() == 0)
    try await client.finishInput()
    #expect(try await client.exitStatus() == 0)
  }

  @Test
  func `Further encrypted connections wait when the most are being served`() async throws {
    let (server, address) = try await listening(["--echo", "--max-connections", "1"])
    let first = try await Program(.sockcat, ["connect", address] + trust(), input: .pipe)
    try await first.send("first")
    try await first.waitForOutput("first")
    let second = try await Program(.sockcat, ["connect", address, "--timeout", "0.3"] + trust())
    #expect(try await second.exitStatus() == 4)
    try await first.finishInput()
    #expect(try await first.exitStatus() == 0)
    let third = try await Program(.sockcat, ["connect", address] + trust())
    #expect(try await third.exitStatus() == 0)
    await server.kill(SIGTERM)
    #expect(try await server.exitStatus() == 0)
  }

  @Test
  func `A signal lets encrypted connections finish`() async throws {
    let (server, address) = try await listening(["--echo"])
    let client = try await Program(.sockcat, ["connect", address] + trust(), input: .pipe)
    try await client.send("before ")
    try await client.waitForOutput("before ")
    await server.kill(SIGTERM)
    try await client.send("after")
    try await client.waitForOutput("before after")
    try await client.finishInput()
    #expect(try await client.exitStatus() == 0)
    #expect(try await server.exitStatus() == 0)
  }
}
