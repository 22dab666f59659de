import Foundation
import TestSupport
import Testing

@Suite(.needs(.openssl)) struct TLSToolTests {
  @Test(arguments: Family.allCases, ["pool", "reactor"])
  func `Megabytes come back from an echo as they were sent`(family: Family, place: String) async throws {
    let folder = try Folder()
    let sample = Data((0..<4_000_000).map { UInt8(truncatingIfNeeded: $0 &* 2_654_435_761 >> 13) })
    try sample.write(to: folder.file("sample"))
    let (server, address) = try await Encryption.tls.listening(
      ["--echo", "--once", "--on", place], at: family.freeEndpoint(in: folder))
    let client = try await Encryption.tls.connecting(
      address, input: .file(folder.file("sample")), outputTo: folder.file("back"))
    try await expectSuccess(client, server)
    #expect(try Data(contentsOf: folder.file("back")) == sample)
    #expect(await client.errors.whole == "")
    #expect(await server.errors.lines.count == 1)
  }

  @Test func `A joined connection ends in each direction by itself`() async throws {
    let (server, address) = try await Encryption.tls.listening([], input: .pipe)
    let client = try await Encryption.tls.connecting(address)
    try await client.send("question")
    try await client.finishInput()
    try await server.waitForOutput("question")
    try await server.send("answer")
    try await client.waitForOutput("answer")
    try await server.finish()
    #expect(try await client.exitStatus() == 0)
  }

  @Test func `Each side says what was agreed on`() async throws {
    let (server, address) = try await Encryption.tls.listening(["--echo", "--alpn", "b,a", "-v"])
    let client = try await Encryption.tls.connecting(address, ["--alpn", "a,b", "-v"], input: .nothing)
    #expect(try await client.exitStatus() == 0)
    let agreed = "TLS 1.3, TLS_AES_256_GCM_SHA384, ALPN \"b\", peer"
    #expect(await client.errors.whole == "sockcat: \(address): \(agreed) \"CN=server\", verified\n")
    try await server.waitForError("\(agreed) without a certificate\n")
    try await server.stop()
  }

  @Test func `A client's certificate is verified and shown`() async throws {
    let certificates = try TestCertificates.shared
    let (server, address) = try await Encryption.tls.listening([
      "--discard", "--once", "-v", "--client-ca", certificates.authority,
    ])
    let client = try await Encryption.tls.connecting(address, certificates.client, input: .nothing)
    try await expectSuccess(client, server)
    #expect(await server.errors.lines.last?.hasSuffix("no ALPN, peer \"CN=client\", verified") == true)
  }

  @Test func `Lines of a chat are passed on among encrypted connections`() async throws {
    let (server, address) = try await Encryption.tls.listening(["--chat"])
    let first = try await Encryption.tls.connecting(address)
    try await first.waitForOutput("you are guest1")
    let second = try await Encryption.tls.connecting(address)
    try await second.waitForOutput("here: guest1")
    try await second.send("hello\n")
    try await first.waitForOutput("guest2: hello\n")
    await server.kill(SIGTERM)
    for client in [first, second] {
      try await client.waitForOutput("the room closes")
      try await client.finish()
    }
    #expect(try await server.exitStatus() == 0)
  }

  @Test func `A client that verifies nothing says so and goes on`() async throws {
    let (server, address) = try await Encryption.tls.listening(["--echo", "--once"])
    let client = try await Program(.sockcat, ["connect", address, "--tls", "--insecure", "-v"], input: .pipe)
    try await client.echo("hello")
    #expect(try await server.exitStatus() == 0)
    let lines = await client.errors.lines
    #expect(lines.first?.hasPrefix("sockcat: warning: --insecure verifies nothing") == true)
    #expect(lines.last?.hasSuffix("peer \"CN=server\", NOT verified: unknownAuthority") == true)
  }

  @Test func `A web server that stops closes encrypted connections that wait for a request`() async throws {
    let (server, address) = try await Encryption.tls.listening(["--http"])
    let client = try await Encryption.tls.connecting(address)
    try await client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    try await client.waitForOutput("It works")
    try await server.stop()
    try await client.finish()
  }
}
