import Foundation
import TestSupport
import Testing

@Suite(.needs(.tshark), .needs(.socat)) struct CaptureTests {
  private let folder: Folder
  private let file: String

  init() throws {
    folder = try Folder()
    file = folder.file("capture").path
  }

  /// The lines that tshark prints about the file. It must find nothing wrong with it.
  private func tshark(_ arguments: [String]) async throws -> [String] {
    let program = try await Program(.tshark, ["-n", "-r", file] + arguments)
    let lines = await program.output.lines
    let errors = await program.errors.lines
      // Of this it warns the superuser.
      .filter { !$0.hasPrefix("Running as user") && !$0.isEmpty }
    #expect(errors.isEmpty)
    #expect(try await program.exitStatus() == 0)
    return lines
  }

  /// The bytes of a stream, those of the side that connected and those of the other side, as tshark follows it.
  private func followed(_ stream: Int = 0) async throws -> (client: String, server: String) {
    let lines = try await tshark(["-q", "-z", "follow,tcp,raw,\(stream)"])
    let data = lines.drop { !$0.hasPrefix("Node 1") }.dropFirst().prefix { !$0.hasPrefix("=") }
    let server = data.filter { $0.hasPrefix("\t") }
    return (Self.text(data.filter { !$0.hasPrefix("\t") }), Self.text(server.map { String($0.dropFirst()) }))
  }

  private static func text(_ lines: [String]) -> String {
    let digits = Array(lines.joined().utf8)
    let bytes = stride(from: 0, to: digits.count - 1, by: 2).compactMap {
      UInt8(String(decoding: digits[$0...$0 + 1], as: UTF8.self), radix: 16)
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Packets that tshark finds odd: wrong checksums, bytes that are missing, doubled or out of order, torn packets.
  private func oddities() async throws -> [String] {
    let checks = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
    let filter = "tcp.checksum.status == 0 || ip.checksum.status == 0 || tcp.analysis.flags || _ws.malformed"
    return try await tshark(checks + ["-Y", filter])
  }

  private func flags() async throws -> [String] {
    try await tshark(["-T", "fields", "-e", "tcp.flags.str"]).map { $0.filter(\.isLetter) }
  }

  @Test(arguments: Family.allCases)
  func `tshark follows the stream of a server`(family: Family) async throws {
    let (server, address) = try await Program.listening([
      family.freeEndpoint(in: folder), "--once", "--echo", "--capture", file,
    ])
    let client = try await Program(.socat, ["-t", "20", "-", family.socat(address)], input: .pipe)
    try await client.echo("hello\n")
    #expect(try await server.exitStatus() == 0)
    let (sent, answered) = try await followed()
    #expect(sent == "hello\n" && answered == "hello\n")
    #expect(try await oddities().isEmpty)
    // The handshake, a packet each way, and both ends.
    #expect(try await flags() == ["S", "AS", "A", "AP", "AP", "AF", "AF"])
    let comments = try await tshark(["-T", "fields", "-e", "frame.comment", "-c", "1"])
    #expect(comments.first?.hasPrefix("connection ") == true)
    let directions = try await tshark(["-T", "fields", "-e", "frame.packet_flags_direction"])
    #expect(directions.map { Int($0.suffix(1)) } == [1, 2, 1, 1, 2, 1, 2])
  }

  @Test(arguments: [Family.ipv4, .ipv6])
  func `200,000 bytes are whole, with the real addresses and times`(family: Family) async throws {
    let input = folder.file("input")
    let text = String(repeating: "0123456789\n", count: 18_182).prefix(200_000)
    try Data(text.utf8).write(to: input)
    let (server, address) = try await Program.listening([family.freeEndpoint(in: folder), "--once", "--echo"])
    let start = Date().timeIntervalSince1970
    let client = try await Program(
      .sockcat, ["connect", address, "--capture", file], input: .file(input), outputTo: folder.file("output"))
    try await expectSuccess(client, server)
    let (sent, answered) = try await followed()
    #expect((sent == text) == true && (answered == text) == true)
    #expect(try await oddities().isEmpty)
    let fields = ["ip.dst", "ipv6.dst", "tcp.dstport", "frame.time_epoch"].flatMap { ["-e", $0] }
    let first = try await tshark(["-c", "1", "-T", "fields"] + fields)[0].split(separator: "\t").map(String.init)
    #expect("\(family == .ipv4 ? first[0] : "[\(first[0])]"):\(first[1])" == address)
    let time = try #require(Double(first[2]))
    #expect(time >= start - 0.001 && time < start + 60)
  }

  @Test func `Of TLS, tshark shows the plain text of a request`() async throws {
    let certificates = try TestCertificates.shared
    let (server, address) = try await Program.listening(
      ["127.0.0.1:0", "--http", "--capture", file, "--tls"] + certificates.server)
    let client = try await Program(
      .curl, ["-s", "--cacert", certificates.authority, "--max-time", "20", "https://\(address)/a/secret/path"])
    #expect(try await client.exitStatus() == 0)
    try await server.stop()
    let (request, answer) = try await followed()
    #expect(request.hasPrefix("GET /a/secret/path HTTP/1.1\r\n"))
    #expect(answer.hasPrefix("HTTP/1.1 200 ") && answer.hasSuffix("It works: this is sockcat.\n"))
    let port = try #require(address.split(separator: ":").last)
    let requests = try await tshark(
      ["-d", "tcp.port==\(port),http", "-Y", "http.request", "-T", "fields", "-e", "http.request.uri"])
    #expect(requests == ["/a/secret/path"])
    #expect(try await oddities().isEmpty)
  }

  @Test func `With STARTTLS, the plain dialogue and the decrypted bytes are one stream`() async throws {
    let script = [Turn.says("* OK\r\n"), .hears("a STARTTLS\r\n"), .says("a OK begin\r\n")]
    _ = try await Turn.joined(script, "imap", in: folder, ["--capture", file])
    let (sent, answered) = try await followed()
    #expect(sent == "a STARTTLS\r\na secret\n")
    #expect(answered == "* OK\r\na OK begin\r\nyou said: a secret\n")
    #expect(try await oddities().isEmpty)
    let flags = try await flags()
    #expect(flags.prefix(3) == ["S", "AS", "A"] && flags.suffix(2) == ["AF", "AF"])
  }

  @Test func `Several connections of a server are several streams`() async throws {
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--echo", "--capture", file])
    for text in ["one\n", "two\n", "three\n"] {
      let client = try await Program(.sockcat, ["connect", address], input: .pipe)
      try await client.send(text)
      try await client.finish()
    }
    try await server.stop()
    for (index, text) in ["one\n", "two\n", "three\n"].enumerated() {
      let (sent, answered) = try await followed(index)
      #expect(sent == text && answered == text)
    }
    #expect(try await oddities().isEmpty)
  }

  @Test func `A capture that cannot be written fails at once, or is told of at the end`() async throws {
    let refused = try await Program(.sockcat, ["connect", "127.0.0.1:1", "--capture", "/nonexistent/capture"])
    #expect(try await refused.exitStatus() == 1)
    #expect(await refused.errors.whole.hasPrefix("sockcat: capture to \"/nonexistent/capture\": "))
    let (server, address) = try await Program.listening(["127.0.0.1:0", "--once", "--echo"])
    let client = try await Program(.sockcat, ["connect", address, "--capture", "/dev/full"], input: .pipe)
    try await client.echo("hello\n")
    #expect(
      await client.errors.whole == "sockcat: capture to \"/dev/full\": write failed (No space left on device)\n")
    #expect(try await server.exitStatus() == 0)
  }
}
