import Foundation
import TestSupport
import Testing

struct ListenTests {
  @Test func `Every address is announced, with one port for all`() async throws {
    let (server, address) = try await Program.listening(["localhost:0", "--echo"])
    let port = address.split(separator: ":").last ?? ""
    try await server.waitForError("listening on 127.0.0.1:\(port)\n")
    try await server.stop()
    let lines = await server.errors.lines
    #expect(lines.allSatisfy { $0.hasPrefix("listening on ") && $0.hasSuffix(":\(port)") })
  }

  @Test func `Only one connection is served if one is asked for`() async throws {
    let folder = try Folder()
    let (server, address) = try await Program.listening([Family.unix.freeEndpoint(in: folder), "--echo", "--once"])
    let first = try await Program(.sockcat, ["connect", address], input: .pipe)
    try await first.exchange("hello")
    let second = try await Program(.sockcat, ["connect", address])
    #expect(try await second.exitStatus() == 1)
    try await first.finish()
    #expect(try await server.exitStatus() == 0)
  }

  @Test(.needs(.openssl), arguments: Encryption.allCases)
  func `Further connections wait when the most are being served`(encryption: Encryption) async throws {
    let (server, address) = try await encryption.listening(["--echo", "--max-connections", "1"])
    let first = try await encryption.connecting(address)
    try await first.exchange("first")
    // The kernel has accepted the second one: only its handshake waits, if it has one.
    let second = try await encryption.connecting(address, ["--timeout", "0.3", "--idle-timeout", "0.3"])
    try await second.send("second")
    #expect(try await second.exitStatus() == 4)
    #expect(await second.output.whole == "")
    let third = try await encryption.connecting(address)
    try await third.send("third")
    try await first.finishInput()
    try await third.waitForOutput("third")
    try await third.finish()
    try await server.stop()
  }

  @Test(.needs(.openssl), arguments: [SIGTERM, SIGINT], Encryption.allCases)
  func `A signal lets connections finish`(signal: Int32, encryption: Encryption) async throws {
    let folder = try Folder()
    let (server, address) = try await encryption.listening(["--echo"], at: Family.unix.freeEndpoint(in: folder))
    let client = try await encryption.connecting(address)
    try await client.exchange("before ")
    await server.kill(signal)
    try await client.send("after")
    try await client.waitForOutput("before after")
    try await client.finish()
    #expect(try await server.exitStatus() == 0)
    #expect(await server.errors.lines.count == 1)
  }

  @Test(.needs(.openssl), arguments: Encryption.allCases)
  func `A second signal aborts what is unfinished and says so`(encryption: Encryption) async throws {
    let (server, address) = try await encryption.listening(["--echo"])
    let client = try await encryption.connecting(address)
    try await client.exchange("hello")
    await server.kill(SIGTERM)
    await server.kill(SIGINT)
    #expect(try await server.exitStatus() == 1)
    #expect(await server.errors.lines.last == "sockcat: 1 of 1 connections were aborted unfinished")
    try await client.expectFailure(1, "the peer reset the connection", printing: "hello")
  }

  @Test func `A signal ends a program that waits for its first connection`() async throws {
    for options in [[], ["--once", "--echo"]] {
      let (server, _) = try await Program.listening(["127.0.0.1:0"] + options)
      try await server.stopQuietly()
    }
  }

  @Test func `A signal ends the input of a joined connection, and the peer may finish`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0"], input: .pipe)
    let client = try await Program(.sockcat, ["connect", address], input: .pipe)
    try await server.send("hello")
    try await client.waitForOutput("hello")
    await server.kill(SIGTERM)
    try await client.send("good bye")
    try await client.finishInput()
    #expect(try await server.exitStatus() == 0)
    #expect(await server.output.whole == "good bye")
    #expect(try await client.exitStatus() == 0)
  }
}
