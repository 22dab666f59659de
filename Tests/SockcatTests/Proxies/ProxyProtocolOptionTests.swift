import ActorSockets
import Foundation
import TestSupport
import Testing

struct ProxyProtocolOptionTests {
  private static let required = ["--require-proxy-protocol", "127.0.0.0/8,::1", "-v"]

  @Test(arguments: ["v1", "v2"], [Family.ipv4, .ipv6])
  func `The target sees the client, not the forwarder`(version: String, family: Family) async throws {
    let (server, target) = try await Program.listening(["127.0.0.1:0", "--echo"] + Self.required)
    let (forwarder, address) = try await Program.proxying([
      family.freeEndpoint(in: Folder()), target, "--send-proxy-protocol", version, "-v",
    ])
    try await within("the line comes back") {
      let client = try await TCPConnection.connect(to: Endpoint(parsing: address))
      try await client.write(utf8: "hello\n")
      #expect(try await client.read(until: .lf) == Array("hello\n".utf8))
      let name = try #require(client.localAddress)
      try await forwarder.waitForError("sockcat: \(name): connected\n")
      try await server.waitForError("sockcat: \(name): connected, through 127.0.0.1:")
      await client.close()
    }
    for program in [forwarder, server] { try await program.stop() }
  }

  @Test(arguments: ["v1", "v2"])
  func `A client without an address in this form is served, too`(version: String) async throws {
    let folder = try Folder()
    let (server, target) = try await Program.listening(["127.0.0.1:0", "--echo"] + Self.required)
    let (forwarder, address) = try await Program.proxying([
      Family.unix.freeEndpoint(in: folder), target, "--send-proxy-protocol", version,
    ])
    try await Program.expectEcho(at: address)
    try await server.waitForError("connected, through 127.0.0.1:")
    for program in [forwarder, server] { try await program.stop() }
  }

  @Test func `Through two forwarders, the address remains that of the client`() async throws {
    let (server, target) = try await Program.listening(["127.0.0.1:0", "--echo"] + Self.required)
    let (second, middle) = try await Program.proxying(
      ["127.0.0.1:0", target, "--send-proxy-protocol", "v2"] + Self.required)
    try await Program.expectEcho(at: middle, ["--send-proxy-protocol", "v1:192.0.2.1:5678,192.0.2.2:80"])
    for program in [second, server] {
      try await program.waitForError("sockcat: 192.0.2.1:5678: connected, through 127.0.0.1:")
    }
    for program in [second, server] { try await program.stop() }
  }

  @Test(arguments: [
    ("v1:192.0.2.1:5678,192.0.2.2:80", "192.0.2.1:5678", false),
    ("v1:192.0.2.1:5678,192.0.2.2:80", "192.0.2.1:5678", true),
    ("v2:[2001:db8::1]:5,[2001:db8::2]:6", "[2001:db8::1]:5", false),
  ])
  func `connect sends the header that it is told to`(header: String, name: String, isOnly: Bool) async throws {
    let service = isOnly ? ["--echo", "--once"] : ["--echo"]
    let (server, address) = try await Program.listening(["127.0.0.1:0"] + service + Self.required)
    try await Program.expectEcho(at: address, ["--send-proxy-protocol", header])
    try await server.waitForError("sockcat: \(name): connected, through 127.0.0.1:")
    if isOnly { try await expectSuccess(server) } else { try await server.stop() }
  }

  @Test(arguments: [true, false])
  func `TLS begins behind the header, and its line has both addresses`(isOnly: Bool) async throws {
    let (server, address) = try await Encryption.tls.listening(
      (isOnly ? ["--echo", "--once"] : ["--echo"]) + Self.required)
    try await Encryption.tls.connecting(address, ["--send-proxy-protocol", "v2:192.0.2.1:5678,192.0.2.2:80"]).echo()
    try await server.waitForError("sockcat: 192.0.2.1:5678: TLS 1.3, ")
    try await server.waitForError("peer without a certificate, through 127.0.0.1:")
    if isOnly { try await expectSuccess(server) } else { try await server.stop() }
  }

  @Test func `A connection without a header is reset, and the server says why and goes on`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--echo"] + Self.required)
    for header in [nil, "v2"] {
      let options = header.map { ["--send-proxy-protocol", $0] } ?? []
      let client = try await Program(.sockcat, ["connect", address] + options, input: .pipe)
      if header != nil {
        try await client.echo()
        continue
      }
      try await client.send("hello\n")
      #expect(try await client.exitStatus() == 1)
      try await server.waitForError("PROXY header from 127.0.0.1")
    }
    try await server.stop()
  }

  @Test func `The only connection without a header ends the server with status 1`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--echo", "--once"] + Self.required)
    let client = try await Program(.sockcat, ["connect", address], input: .pipe)
    try await client.send("hello\n")
    #expect(try await client.exitStatus() == 1)
    #expect(try await server.exitStatus() == 1)
    #expect(await server.errors.lines.last?.contains("PROXY header") == true)
  }

  @Test func `The only connection is described when its header has arrived`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--echo", "--once"] + Self.required)
    try await within("the line comes back") {
      let endpoint = try Endpoint(parsing: address)
      let client = try await TCPConnection.connect(to: endpoint)
      try await eventually("the server has accepted the connection, and listens no more") {
        guard let other = try? await TCPConnection.connect(to: endpoint) else { return true }
        await other.abort()
        return false
      }
      try await client.write(utf8: "PROXY TCP4 192.0.2.1 192.0.2.2 5678 80\r\nhello\n")
      #expect(try await client.read(until: .lf) == Array("hello\n".utf8))
      await client.close()
    }
    #expect(try await server.exitStatus() == 0)
    #expect(await server.errors.lines.last?.hasPrefix("sockcat: 192.0.2.1:5678: connected, through ") == true)
  }

  @Test func `A header from another network is not believed`() async throws {
    let (server, address) = try await Program.listening(
      ["127.0.0.1:0", "--echo", "--require-proxy-protocol", "192.0.2.0/24", "-v"])
    let client = try await Program(.sockcat, ["connect", address, "--send-proxy-protocol", "v2"], input: .pipe)
    #expect(try await client.exitStatus() == 1)
    await server.kill(SIGTERM)
    _ = try await server.exitStatus()
    #expect(await server.errors.lines.last?.contains("1 connections were refused") == true)
  }
}
