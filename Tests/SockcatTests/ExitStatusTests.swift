import Foundation
import TestSupport
import Testing

struct ExitStatusTests {
  @Test func `Help and version go to standard output`() async throws {
    let help = try await Program(.sockcat, ["--help"])
    #expect(try await help.exitStatus() == 0)
    #expect(await help.output.whole.contains("sockcat connect ENDPOINT"))
    #expect(await help.errors.whole == "")
    let version = try await Program(.sockcat, ["--version"])
    #expect(try await version.exitStatus() == 0)
    #expect(await version.output.whole == "sockcat 0.1.0-dev\n")
  }

  @Test(arguments: [
    ([], 2, "say what to do"), (["connect", "localhost"], 2, "the port is missing"),
    (["connect", "localhost:0"], 2, "port 0"), (["connect", "unix:/nonexistent/socket"], 1, "No such file"),
    (["listen", "unix:/nonexistent/socket"], 1, "No such file"), (["listen", "192.0.2.1:0"], 1, "192.0.2.1"),
  ])
  func `A failure is one line and a status`(arguments: [String], status: Int32, part: String) async throws {
    let program = try await Program(.sockcat, arguments)
    try await program.expectFailure(status, part)
  }

  @Test(arguments: ["connect unix:", "listen unix:", "listen :0 --capture "])
  func `A name that is not UTF-8 is refused, and no file with another name is made`(command: String) async throws {
    let folder = try Folder()
    let program = try await Program(
      .bash, ["-c", "cd \"$1\"; exec \"$0\" \(command)$'caf\\xe9'", Tool.sockcat.url.path, folder.url.path])
    try await program.expectFailure(
      2, "the argument \"\(command.hasSuffix(":") ? "unix:" : "")caf\\u{FFFD}\" is not UTF-8")
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path).isEmpty)
  }

  @Test(arguments: [Family.ipv4, .ipv6])
  func `A port on which no socket listens is refused with status 1`(family: Family) async throws {
    let (server, address) = try await Program.listening([family.freeEndpoint(in: Folder()), "--echo"])
    try await server.stop()
    let client = try await Program(.sockcat, ["connect", address])
    try await client.expectFailure(1, "no process listens at this address")
  }

  @Test func `An address in use is refused with status 1`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--echo"])
    let second = try await Program(.sockcat, ["listen", address, "--echo"])
    try await second.expectFailure(1, "another socket uses this address")
    await server.kill(SIGTERM)
  }

  @Test(.needs(.socat))
  func `Connecting that takes too long ends with status 4`() async throws {
    // A stopped server with a full backlog does not answer.
    let (server, endpoint) = try await Program.socatListening(.ipv4, in: Folder(), options: ",backlog=0", "-")
    await server.kill(SIGSTOP)
    let filler = try await Program(.socat, ["-d", "-d", "-u", Family.ipv4.socat(endpoint), "-"])
    try await filler.waitForError("successfully connected")
    let client = try await Program(.sockcat, ["connect", endpoint, "--timeout", "0.3"])
    try await client.expectFailure(4, "connect")
  }

  @Test(arguments: [["--once", "--echo"], []])
  func `Waiting in vain for a connection ends with status 4`(options: [String]) async throws {
    let (server, _) = try await Program.listening(["127.0.0.1:0", "--timeout", "0.2"] + options)
    #expect(try await server.exitStatus() == 4)
    #expect(await server.errors.lines.last == "sockcat: no client connected within 0.2 s")
    #expect(await server.errors.lines.count == 2)
  }

  @Test(.needs(.openssl), arguments: Encryption.allCases)
  func `A connection that moves nothing ends with status 4 on the side that minds`(encryption: Encryption) async throws
  {
    let (server, address) = try await encryption.listening(["--echo", "--once", "--idle-timeout", "0.4"])
    let client = try await encryption.connecting(address)
    try await client.exchange("hello")
    #expect(try await server.exitStatus() == 4)
    #expect(await server.errors.lines.last == "sockcat: nothing was moved for 0.4 s")
    try await client.finishInput()
    // An encrypted end without notice is a failure.
    let status = try await client.exitStatus()
    #expect(status == 0 || encryption == .tls)
  }

  @Test func `A server of many ends its idle connections and goes on`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--echo", "--idle-timeout", "0.3"])
    for _ in 0..<2 {
      let client = try await Program(.sockcat, ["connect", address, "--idle-timeout", "20"], input: .pipe)
      try await client.exchange("hello")
      let quiet = try await Program(.sockcat, ["connect", address, "--idle-timeout", "0.1"], input: .pipe)
      #expect(try await quiet.exitStatus() == 4)
      try await client.finish()
    }
    try await server.stopQuietly()
  }

  @Test(.needs(.bash))
  func `Output that no program reads any more ends with status 1`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--echo"])
    let script = "yes 2>/dev/null | '\(Tool.sockcat.url.path)' connect \(address) | head -n 1; exit ${PIPESTATUS[1]}"
    let pipeline = try await Program(.bash, ["-c", script])
    #expect(try await pipeline.exitStatus() == 1)
    #expect(await pipeline.output.whole == "y\n")
    #expect(await pipeline.errors.whole == "sockcat: standard output cannot be written: Broken pipe\n")
    try await server.stop()
  }

  @Test(.needs(.bash))
  func `Input that cannot be read ends with status 1`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--echo"])
    let client = try await Program(.bash, ["-c", "'\(Tool.sockcat.url.path)' connect \(address) < /"])
    try await client.expectFailure(1, "standard input cannot be read: Is a directory")
    try await server.stop()
  }

  @Test func `The demo shows everything and checks it`() async throws {
    let demo = try await Program(.sockcat, ["demo"])
    #expect(try await demo.exitStatus() == 0)
    #expect(await demo.output.whole.hasSuffix("Everything worked as expected.\n"))
    #expect(await demo.errors.whole == "")
  }
}
