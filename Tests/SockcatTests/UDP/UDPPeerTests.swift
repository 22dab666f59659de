import Foundation
import TestSupport
import Testing

struct UDPPeerTests {
  /// How socat spells an address that it exchanges datagrams with.
  private func datagrams(_ family: Family, _ address: String, in folder: Folder) -> String {
    switch family {
    case .ipv4: "UDP4-DATAGRAM:\(address)"
    case .ipv6: "UDP6-DATAGRAM:\(address)"
    case .unix: "UNIX-SENDTO:\(address.dropFirst(5)),bind=\(folder.file("socat").path)"
    }
  }

  @Test(.needs(.socat), arguments: Family.allCases)
  func `socat's datagrams arrive, and are echoed to it`(family: Family) async throws {
    let folder = try Folder()
    let (listener, address) = try await Program.udpListening([family.freeEndpoint(in: folder), "--echo"])
    let socat = try await Program(.socat, ["-", datagrams(family, address, in: folder)], input: .pipe)
    for text in ["hello", "a second one"] {
      try await socat.exchange(text)
    }
    await socat.kill(SIGKILL)
    try await listener.stop()
    #expect(await listener.linesWithoutAddress == ["5 hello", "12 a second one"])
  }

  @Test(.needs(.socat), arguments: Family.allCases)
  func `socat answers what is sent to it`(family: Family) async throws {
    let folder = try Folder()
    let listening =
      switch family {
      case .ipv4: "UDP4-LISTEN:0,bind=127.0.0.1"
      case .ipv6: "UDP6-LISTEN:0,bind=[::1]"
      case .unix: "UNIX-RECVFROM:\(folder.file("socat").path),fork"
      }
    let socat = try await Program(.socat, ["-d", "-d", "-b", "65536", listening, "PIPE"])
    var endpoint = "unix:\(folder.file("socat").path)"
    if family == .unix {
      try await socat.waitForError("receiving on")
    } else {
      _ = await socat.errors.wait { $0.contains(/listening on [^\n]*:\d+\n/) }
      let port = try #require(await socat.errors.text.firstMatch(of: /listening on [^\n]*:(\d+)\n/)).1
      endpoint = family == .ipv4 ? "127.0.0.1:\(port)" : "[::1]:\(port)"
    }
    try await Program.udpExchange([endpoint], "hello, socat\n", expecting: "\(endpoint) 12 hello, socat\n")
    await socat.kill(SIGKILL)
  }

  @Test(.needs(.socat))
  func `A sender without a name is printed, and cannot be answered`() async throws {
    let folder = try Folder()
    let (listener, address) = try await Program.udpListening(
      [Family.unix.freeEndpoint(in: folder), "--echo", "--count", "1"])
    let socat = try await Program(.socat, ["-u", "-", "UNIX-SENDTO:\(address.dropFirst(5))"], input: .pipe)
    try await socat.send("who am I?")
    #expect(try await listener.exitStatus() == 0)
    #expect(await listener.output.whole == "unix: 9 who am I?\n")
    #expect(await listener.errors.lines.count == 1)
  }

  @Test(.needs(.socat))
  func `A datagram that is longer than any over IP is cut, and marked`() async throws {
    let folder = try Folder()
    let file = folder.file("long")
    try Data(repeating: UInt8(ascii: "x"), count: 70_000).write(to: file)
    let (listener, address) = try await Program.udpListening(
      [Family.unix.freeEndpoint(in: folder), "--count", "1"])
    let socat = try await Program(
      .socat, ["-u", "-b", "70000", "-", "UNIX-SENDTO:\(address.dropFirst(5))"], input: .file(file))
    try await expectSuccess(socat, listener)
    #expect(await listener.output.whole == "unix: 65535+ " + String(repeating: "x", count: 65_535) + "\n")
  }

  @Test(.needs(.ncat), arguments: [Family.ipv4, .ipv6])
  func `ncat's datagrams arrive, and are echoed to it`(family: Family) async throws {
    let (listener, address) = try await Program.udpListening([family.freeEndpoint(in: Folder()), "--echo"])
    let port = try #require(address.split(separator: ":").last)
    let ncat = try await Program(.ncat, ["-u", family == .ipv4 ? "127.0.0.1" : "::1", "\(port)"], input: .pipe)
    try await ncat.exchange("hello")
    await ncat.kill(SIGKILL)
    try await listener.stop()
    #expect(await listener.linesWithoutAddress == ["5 hello"])
  }

  @Test(.needs(.ncat), .needs(.nsenter), .needsNamespaces)
  func `ncat answers what is sent to it`() async throws {
    // A network of its own, for ncat does not say which port it takes.
    let network = try await Namespace()
    try await network.ip("link set lo up")
    for (host, endpoint) in [("127.0.0.1", "127.0.0.1:9000"), ("::1", "[::1]:9000")] {
      let ncat = try await Program.started(.ncat, ["-v", "-u", "-l", host, "9000"], input: .pipe, in: network)
      try await ncat.waitForError("Listening on")
      let sender = try await Program.sockcat(["udp-send", endpoint, "--wait", "0.1"], input: .pipe, in: network)
      try await sender.send("question\n")
      try await ncat.waitForOutput("question")
      try await ncat.send("answer")
      try await sender.waitForOutput("\(endpoint) 6 answer\n")
      try await sender.finish()
      await ncat.kill(SIGKILL)
    }
  }
}
