import Foundation
import TestSupport
import Testing

struct ListenTests {
  @Test
  func `Every address is announced, with one port for all`() async throws {
    let (server, address) = try await Program.listening(["localhost:0", "--echo"])
    let port = address.split(separator: ":").last ?? ""
    try await server.waitForError("listening on 127.0.0.1:\(port)\n")
    await server.kill(SIGTERM)
    #expect(try await server.exitStatus() == 0)
    let lines = await server.errors.lines
    #expect(lines.allSatisfy { $0.hasPrefix("listening on ") && $0.hasSuffix(":\(port)") })
  }

  @Test
  func `Only one connection is served if one is asked for`() async throws {
    let folder = try Folder()
    let (server, address) = try await Program.listening([Family.unix.freeEndpoint(in: folder), "--echo", "--once"])
    let first = try await Program(.sockcat, ["connect", address], input: .pipe)
    try await first.send("hello")
    try await first.waitForOutput("hello")
    let second = try await Program(.sockcat, ["connect", address])
    #expect(try await second.exitStatus() == 1)
    try await first.finishInput()
    #expect(try await first.exitStatus() == 0)
    #expect(try await server.exitStatus() == 0)
  }

  @Test
  func `Further connections wait when the most are being served`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--echo", "--max-connections", "1"])
    let first = try await Program(.sockcat, ["connect", address], input: .pipe)
    try await first.send("first")
    try await first.waitForOutput("first")
    let second = try await Program(.sockcat, ["connect", address, "--idle-timeout", "0.3"], input: .pipe)
    try await second.send("second")
    #expect(try await second.exitStatus() == 4)
    #expect(await second.output.whole == "")
    let third = try await Program(.sockcat, ["connect", address], input: .pipe)
    try await third.send("third")
    try await first.finishInput()
    try await third.waitForOutput("third")
    try await third.finishInput()
    #expect(try await third.exitStatus() == 0)
    await server.kill(SIGTERM)
    #expect(try await server.exitStatus() == 0)
  }

  @Test(arguments: [SIGTERM, SIGINT])
  func `A signal lets connections finish`(signal: Int32) async throws {
    let folder = try Folder()
    let (server, address) = try await Program.listening([Family.unix.freeEndpoint(in: folder), "--echo"])
    let client = try await Program(.sockcat, ["connect", address], input: .pipe)
    try await client.send("before ")
    try await client.waitForOutput("before ")
    await server.kill(signal)
    try await client.send("after")
    try await client.waitForOutput("before after")
    try await client.finishInput()
    #expect(try await client.exitStatus() == 0)
    #expect(try await server.exitStatus() == 0)
    #expect(await server.errors.lines.count == 1)
  }

  @Test
  func `A second signal aborts what is unfinished and says so`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--echo"])
    let client = try await Program(.sockcat, ["connect", address], input: .pipe)
    try await client.send("hello")
    try await client.waitForOutput("hello")
    await server.kill(SIGTERM)
    await server.kill(SIGINT)
    #expect(try await server.exitStatus() == 1)
    #expect(await server.errors.lines.last == "sockcat: 1 of 1 connections were aborted unfinished")
    #expect(try await client.exitStatus() == 1)
    #expect(await client.errors.whole.contains("the peer reset the connection"))
    #expect(await client.errors.lines.count == 1)
  }

  @Test
  func `A signal ends a program that waits for its first connection`() async throws {
    for options in [[], ["--once", "--echo"]] {
      let (server, _) = try await Program.listening(["127.0.0.1:0"] + options)
      await server.kill(SIGTERM)
      #expect(try await server.exitStatus() == 0)
      #expect(await server.errors.lines.count == 1)
    }
  }

  @Test
  func `A signal ends the input of a joined connection, and the peer may finish`() async throws {
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
