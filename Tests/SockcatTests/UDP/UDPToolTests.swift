import Foundation
import TestSupport
import Testing

struct UDPToolTests {
  @Test(arguments: Family.allCases)
  func `Lines arrive as datagrams`(family: Family) async throws {
    let folder = try Folder()
    let (listener, address) = try await Program.udpListening([family.freeEndpoint(in: folder), "--count", "4"])
    try await Program.udpSend([address], "hello\n\ntab\tback\\slash\r\nlast")
    #expect(try await listener.exitStatus() == 0)
    #expect(await listener.linesWithoutAddress == ["5 hello", "0", #"15 tab\tback\\slash\r"#, "4 last"])
    #expect(await listener.errors.whole == "listening on \(address)\n")
    let sender = await listener.output.text.prefix { $0 != " " }
    let start = family == .unix ? "unix:@" : family == .ipv4 ? "127.0.0.1:" : "[::1]:"
    #expect(sender.hasPrefix(start))
  }

  @Test(arguments: Family.allCases)
  func `The sender prints the datagrams that are echoed`(family: Family) async throws {
    let folder = try Folder()
    let (listener, address) = try await Program.udpListening([family.freeEndpoint(in: folder), "--echo"])
    let sender = try await Program.sockcat(["udp-send", address, "--wait", "0.1"], input: .pipe)
    for text in ["first", "second"] {
      try await sender.send(text + "\n")
      try await sender.waitForOutput("\(address) \(text.utf8.count) \(text)\n")
    }
    try await sender.finish()
    try await listener.stop()
    #expect(await listener.linesWithoutAddress == ["5 first", "6 second"])
  }

  @Test(arguments: Family.allCases)
  func `The whole input is one datagram, as long as one can be`(family: Family) async throws {
    let folder = try Folder()
    let (listener, address) = try await Program.udpListening([family.freeEndpoint(in: folder)])
    let longest = family == .unix ? 65_535 : family == .ipv4 ? 65_507 : 65_527
    try await Program.udpSend([address, "--whole"], "two\nlines\n")
    try await Program.udpSend([address, "--whole"], String(repeating: "x", count: longest))
    let whole = "\(longest) " + String(repeating: "x", count: longest)
    try await listener.waitForOutput(whole + "\n")
    try await expectFailure(
      ["udp-send", address, "--whole"], input: String(repeating: "x", count: longest + 1),
      family == .unix
        ? "longer than a datagram can be" : "\(longest + 1) bytes are more than a datagram to this address can have")
    try await listener.stop()
    #expect(await listener.linesWithoutAddress == [#"10 two\nlines\n"#, whole])
  }

  @Test func `An endpoint for all addresses hears both families`() async throws {
    let (listener, address) = try await Program.udpListening([":0", "--count", "2", "--echo"])
    let port = try #require(address.split(separator: ":").last)
    for host in ["127.0.0.1", "[::1]"] {
      // The answer comes from where the question went to.
      let answer = "\(host):\(port) \(5 + host.utf8.count) from \(host)\n"
      try await Program.udpExchange(["\(host):\(port)"], "from \(host)\n", expecting: answer)
    }
    #expect(try await listener.exitStatus() == 0)
    #expect(await listener.output.lines.map { $0.hasPrefix("127.0.0.1:") } == [true, false])
  }

  @Test func `A datagram comes from the source that was asked for`() async throws {
    let folder = try Folder()
    let (listener, address) = try await Program.udpListening(["127.0.0.1:0", "--count", "1"])
    try await Program.udpSend([address, "--source", "127.0.0.5"], "a")
    #expect(try await listener.exitStatus() == 0)
    #expect(await listener.output.whole.hasPrefix("127.0.0.5:"))
    let path = folder.file("from here").path
    let (other, there) = try await Program.udpListening([Family.unix.freeEndpoint(in: folder), "--count", "1"])
    try await Program.udpSend([there, "--source", "unix:\(path)"], "b")
    #expect(try await other.exitStatus() == 0)
    #expect(await other.output.whole == "unix:\(path.replacing(" ", with: "\\x20")) 1 b\n")
    // The files went with their sockets.
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path).isEmpty)
  }

  @Test(arguments: [SIGTERM, SIGINT])
  func `A signal ends listening, and takes the socket's file along`(signal: Int32) async throws {
    let folder = try Folder()
    let (listener, address) = try await Program.udpListening([Family.unix.freeEndpoint(in: folder)])
    try await Program.udpSend([address], "hello")
    try await listener.waitForOutput("5 hello")
    await listener.kill(signal)
    #expect(try await listener.exitStatus() == 0)
    #expect(await listener.errors.lines.count == 1)
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path).isEmpty)
  }

  @Test func `Waiting in vain for datagrams ends with status 4`() async throws {
    let (listener, _) = try await Program.udpListening(["127.0.0.1:0", "--idle-timeout", "0.2"])
    #expect(try await listener.exitStatus() == 4)
    #expect(await listener.errors.lines.last == "sockcat: nothing arrived for 0.2 s")
  }

  @Test func `An address in use is refused with status 1`() async throws {
    let (listener, address) = try await Program.udpListening(["127.0.0.1:0"])
    try await expectFailure(["udp-listen", address], input: "", "another socket uses this address")
    try await listener.stop()
  }

  @Test(arguments: [Family.ipv4, .ipv6], [[], ["--wait", "20"]])
  func `A refusal that is reported ends sending with status 1`(family: Family, options: [String]) async throws {
    let (listener, address) = try await Program.udpListening([family.freeEndpoint(in: Folder())])
    try await listener.stop()
    try await expectFailure(["udp-send", address] + options, input: "hello\n", "no process listens at this address")
  }

  @Test(arguments: [
    (["udp-send", "nobody.invalid:9"], 1, "\"nobody.invalid\""),
    (["udp-send", "unix:@nobody is here"], 1, "no process listens at this address"),
    (["udp-send", "unix:/nonexistent/socket"], 1, "the socket does not exist"),
    (["udp-send", "127.255.255.255:9"], 1, "a broadcast address needs --broadcast"),
    (["udp-send", "239.1.2.3:9", "--interface", "nowhere"], 1, "no interface \"nowhere\""),
    (["udp-send", "127.0.0.1:9", "--source", "192.0.2.77"], 1, "192.0.2.77"),
    (["udp-send", "-6", "127.0.0.1:9"], 2, "127.0.0.1:9"), (["udp-send", "127.0.0.1:0"], 2, "port 0"),
    (["udp-listen", "192.0.2.77:0"], 1, "192.0.2.77"),
    (["udp-listen", "[::1]:0", "--join", "239.1.2.3"], 1, "receives no IPv4"),
    (["udp-listen", "0.0.0.0:0", "--join", "239.1.2.3", "--interface", "nowhere"], 1, "no interface \"nowhere\""),
  ])
  func `A failure is one line and a status`(arguments: [String], status: Int32, part: String) async throws {
    try await expectFailure(arguments, input: "hello\n", part, status: status)
  }

  @Test(arguments: UDPCommandTests.nonsense)
  func `Nonsense is one line and status 2`(words: [String]) async throws {
    try await expectFailure(words, input: "", "see sockcat --help", status: 2)
  }

  private func expectFailure(_ arguments: [String], input: String, _ part: String, status: Int32 = 1) async throws {
    let file = try Folder()
    try Data(input.utf8).write(to: file.file("input"))
    try await Program(.sockcat, arguments, input: .file(file.file("input"))).expectFailure(status, part)
  }
}
