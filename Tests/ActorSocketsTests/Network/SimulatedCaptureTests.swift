import ActorSockets
import ActorSocketsTesting
import Foundation
import TestSupport
import Testing

@Suite struct SimulatedCaptureTests {
  private let folder: Folder

  init() throws { folder = try Folder() }

  private func capture(
    _ name: String, seed: UInt64 = 1, link: NetworkLink = NetworkLink(),
    _ body: @escaping @Sendable (Simulation) async throws -> Void
  ) async throws -> String {
    let path = folder.file(name).path
    let simulation = Simulation(seed: seed)
    try await within("the simulation is over") {
      try await simulation.run {
        let (server, client) = (simulation.host("server"), simulation.host("client"))
        simulation.setLink(link, between: client, and: server)
        try simulation.capture(between: client, and: server, to: path)
        try await body(simulation)
      }
    }
    return path
  }

  @Sendable private static func echo(_ simulation: Simulation, _ count: Int, over address: String = "10.0.0.2")
    async throws
  {
    let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
    let listener = try await simulation.host("server").run { try TCPListener.bind(to: .port(80)) }
    async let served: Void = {
      let connection = try await listener.accept()
      try await connection.write(try await connection.readToEnd())
      await connection.close()
    }()
    try await simulation.host("client").run {
      let connection = try await TCPConnection.connect(to: .host(address, port: 80))
      try await connection.write(bytes)
      try await connection.finishWriting()
      let answer = try await connection.readToEnd()
      try #require(answer == bytes)
      await connection.close()
    }
    try await served
    await listener.close()
    try await simulation.assertQuiet()
  }

  @Test(arguments: ["10.0.0.2", "fd00::2"])
  func `A conversation is recorded, from the handshake to the end`(address: String) async throws {
    let path = try await capture("conversation") { try await Self.echo($0, 3_000, over: address) }
    let file = try CaptureFile(path: path, isSimulated: true)
    #expect(Array(file.flags.prefix(3)) == CaptureFile.handshake)
    #expect(file.packets.prefix(3).map(\.isOutbound) == [true, false, true])
    let bytes = (0..<3_000).map { UInt8(truncatingIfNeeded: $0) }
    #expect(file.bytes(outbound: true) == bytes && file.bytes(outbound: false) == bytes)
    #expect(file.flags.count { $0.contains(.finish) } == 2)
    #expect(file.packets[0].parsed.destinationPort == 80)
    // A millisecond each way.
    let times: [UInt64] = file.packets.prefix(3).map { $0.time - file.packets[0].time }
    #expect(times == [0, 1_000_000, 2_000_000])
    #expect(file.packets.allSatisfy { $0.comment == nil })
  }

  @Test func `The same seed gives the same file, and another seed another`() async throws {
    let link = NetworkLink(latency: .uniform(.milliseconds(1), .milliseconds(30)), loss: 0.1)
    var files: [Data] = []
    for (name, seed) in [("one", 3), ("two", 3), ("three", 4)] as [(String, UInt64)] {
      let path = try await capture(name, seed: seed, link: link) { try await Self.echo($0, 30_000) }
      files.append(try Data(contentsOf: URL(fileURLWithPath: path)))
    }
    #expect(files[0].count > 60_000)
    #expect(files[0] == files[1])
    #expect(files[0] != files[2])
  }

  @Test func `Lost packets are marked`() async throws {
    let path = try await capture("lost", link: NetworkLink(loss: 0.2)) { try await Self.echo($0, 30_000) }
    let file = try CaptureFile(path: path, isSimulated: true)
    let lost = file.packets.count { $0.comment == "lost" }
    #expect(lost > 5 && lost < file.packets.count / 2)
    #expect(file.packets.filter { $0.comment == nil }.flatMap(\.parsed.payload).count >= 60_000)
  }

  @Test func `A capture that is stopped has what was sent until then, and one that cannot be made is an error`()
    async throws
  {
    let path = folder.file("stopped").path
    let simulation = Simulation()
    try await within("the simulation is over") {
      try await simulation.run {
        let (server, client) = (simulation.host("server"), simulation.host("client"))
        let capture = try simulation.capture(between: client, and: server, to: path)
        try await Self.echo(simulation, 10)
        try capture.stop()
        let before = try CaptureFile(path: path, isSimulated: true).packets.count
        #expect(before > 8)
        try await Self.echo(simulation, 10)
        try capture.stop()
        #expect(try CaptureFile(path: path, isSimulated: true).packets.count == before)
        #expect(throws: SocketError.self) {
          try simulation.capture(between: client, and: server, to: "/nonexistent/file")
        }
      }
    }
  }

  // MARK: tshark

  private func tshark(_ path: String, _ arguments: [String]) async throws -> [String] {
    let program = try await Program(.tshark, ["-n", "-r", path] + arguments)
    let lines = await program.output.lines
    #expect(try await program.exitStatus() == 0)
    return lines
  }

  private func oddities(_ path: String) async throws -> [String] {
    let checks = ["tcp", "udp", "ip"].flatMap { ["-o", "\($0).check_checksum:TRUE"] }
    let sums = ["tcp", "udp", "ip", "icmp", "icmpv6"].map { "\($0).checksum.status == 0" }.joined(separator: " || ")
    // A window that opens is an everyday event, but tshark marks it.
    let flags = "tcp.analysis.flags && !tcp.analysis.window_update"
    return try await tshark(path, checks + ["-Y", "\(sums) || (\(flags)) || _ws.malformed"])
  }

  @Test(.needs(.tshark)) func `tshark finds nothing odd in a stream without loss`() async throws {
    let path = try await capture("stream") { try await Self.echo($0, 100_000) }
    let oddities = try await oddities(path)
    #expect(oddities == [])
    let flags = try await tshark(path, ["-T", "fields", "-e", "tcp.flags.str"]).map { $0.filter(\.isLetter) }
    #expect(flags.prefix(3) == ["S", "AS", "A"])
  }

  @Test(.needs(.tshark), arguments: ["10.0.0.2", "fd00::2"])
  func `tshark sees datagrams, and the report about one that no socket receives`(address: String) async throws {
    let path = try await capture("datagrams") { simulation in
      let server = try await simulation.host("server").run { try UDPEndpoint.bind(to: .port(5_300)) }
      try await simulation.host("client").run {
        let client = try UDPEndpoint.bind()
        for port in [5_300, 5_301] as [UInt16] {
          try await client.send(Array("hello".utf8), to: Endpoint.host(address, port: port))
        }
        try await simulation.clock.sleep(for: .seconds(1))
        await client.close()
      }
      await server.close()
    }
    let oddities = try await oddities(path)
    #expect(oddities == [])
    let protocols = try await tshark(path, ["-T", "fields", "-e", "_ws.col.Protocol", "-e", "udp.dstport"])
    #expect(protocols.count == 3, "\(protocols)")
    #expect(protocols.last?.hasPrefix("ICMP") == true && protocols.last?.hasSuffix("5301") == true)
  }
}
