import Foundation
import TestSupport
import Testing

@Suite(.needs(.socat)) struct ChatTests {
  @Test(arguments: Family.allCases)
  func `Three clients hear each other and who comes and goes`(family: Family) async throws {
    let folder = try Folder()
    let (server, address) = try await Program.listening([family.freeEndpoint(in: folder), "--chat"])
    let first = try await Program(.socat, ["-", family.socat(address)], input: .pipe)
    try await first.waitForOutput("* you are guest1; nobody else is here\n")
    let second = try await Program(.sockcat, ["connect", address], input: .pipe)
    try await second.waitForOutput("* you are guest2; here: guest1\n")
    try await first.waitForOutput("* guest2 joined\n")
    let third = try await Program(.socat, ["-", family.socat(address)], input: .pipe)
    try await second.waitForOutput("* guest3 joined\n")

    try await second.send("hel")
    try await second.send("lo\r\n")
    try await first.waitForOutput("guest2: hello\n")
    try await third.waitForOutput("guest2: hello\n")
    try await first.send("no \u{1B}[31mcolour\n")
    try await second.waitForOutput("guest1: no [31mcolour\n")

    try await second.send("the last words have no end")
    try await second.finishInput()
    try await third.waitForOutput("guest2: the last words have no end\n* guest2 left\n")
    #expect(try await second.exitStatus() == 0)
    #expect(!(await second.output.whole.contains("guest2:")))

    await server.kill(SIGTERM)
    try await first.waitForOutput("* the room closes\n")
    try await first.finishInput()
    try await third.finishInput()
    try await expectSuccess(first, third)
    #expect(try await server.exitStatus() == 0)
    #expect(await server.errors.lines.count == 1)
  }

  @Test func `A reader that stops reading is dropped and holds up no other client`() async throws {
    let folder = try Folder()
    let (server, address) = try await Program.listening([Family.unix.freeEndpoint(in: folder), "--chat"])
    let slow = try await Program(.socat, ["-", Family.unix.socat(address)], input: .pipe)
    try await slow.waitForOutput("* you are guest1")
    await slow.kill(SIGSTOP)

    let flood = folder.file("flood")
    let line = String(repeating: "x", count: 1023) + "\n"
    try Data(String(repeating: line, count: 4096).utf8).write(to: flood)
    let talker = try await Program(.sockcat, ["connect", address], input: .file(flood))
    try await talker.waitForOutput("* guest1 was too slow and is gone\n")
    #expect(try await talker.exitStatus() == 0)

    let late = try await Program(.sockcat, ["connect", address], input: .pipe)
    try await late.waitForOutput("* you are guest3; nobody else is here\n")
    try await late.finish()
    try await server.stopQuietly()
  }

  @Test func `Lines that cannot be passed on are told so`() async throws {
    let folder = try Folder()
    let (server, address) = try await Program.listening([Family.unix.freeEndpoint(in: folder), "--chat"])
    let bad = folder.file("bad")
    try Data([0xFF, 0x0A]).write(to: bad)
    let client = try await Program(.sockcat, ["connect", address], input: .file(bad))
    try await client.waitForOutput("* that line was not UTF-8, so it was not sent\n")
    #expect(try await client.exitStatus() == 0)
    try Data(repeating: 0x78, count: 10_000).write(to: bad)
    let long = try await Program(.sockcat, ["connect", address], input: .file(bad))
    try await long.waitForOutput("* that line is longer than 4096 bytes, good bye\n")
    #expect(try await long.exitStatus() == 0)
    try await server.stop()
  }
}
