import ActorSockets
import Foundation
import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

/// What simulations record of runs that fail: the story of `explore`, the picture, and the events of each fault.
@Suite(.tags(.simulation, .crashes, .foundation)) struct RecordedRunTests {
  private struct Oops: Error {}

  /// The failure of seed 7.
  private static func failure(
    timeLimit: Duration = .seconds(86_400), _ body: @escaping @Sendable (Simulation) async throws -> Void
  ) async throws -> SimulationFailure {
    try await within("the simulations are over", seconds: 120) {
      try #require(
        await #expect(throws: SimulationFailure.self) {
          try await Simulation.explore(seeds: [7], timeLimit: timeLimit, body)
        })
    }
  }

  /// Records a run in this process.
  private static func record(_ body: @escaping @Sendable (Simulation) async throws -> Void) async throws -> RunRecord {
    let simulation = Simulation(seed: 1)
    let record = Locked(RunRecord())
    simulation.thread.trace.observer = { event in record.withLock { $0.add(event) } }
    try await within("the simulation is over") { try await simulation.run { try await body(simulation) } }
    return record.withLock { $0 }
  }

  // MARK: The story

  @Test func `The story of a run that throws ends with the error, and with what waited`() async throws {
    let failure = try await Self.failure { simulation in
      let server = simulation.host("server")
      server.start { _ = try await TCPListener.bind(to: .port(7)).accept() }
      try await simulation.host("client").run {
        simulation.note("begins")
        try await Task.sleep(for: .seconds(1))
      }
      server.pause()
      defer { simulation.note("cleans up") }
      throw Oops()
    }
    #expect(
      failure.story.prefix(5) == [
        "  0.000000 s  client  begins", "  1.000000 s  main    server is paused", "  1.000000 s  main    cleans up",
        "  1.000000 s  main    FAILS: Oops()", "these waited then:",
      ])
    #expect(failure.story.contains { $0.contains("server: ") && $0.contains("accept, for 1.0 seconds") })
    #expect(
      failure.description.contains("seed 7 fails: Oops()\nWhat happened, without packets:\n    0.000000 s  client"))
    #expect(failure.description.contains("set ACTORSOCKETS_PICTURES to a folder"))
    #expect(failure.picture == nil)
  }

  @Test func `The error of a server ends the story`() async throws {
    let failure = try await Self.failure { simulation in
      simulation.host("server").start { throw Oops() }
      try await Task.sleep(for: .seconds(1))
    }
    #expect(failure.story.first == "  0.000000 s  server  FAILS: Oops()")
  }

  @Test func `The story of a deadlock ends with what waits`() async throws {
    let failure = try await Self.failure { simulation in
      simulation.note("waits")
      _ = try await TCPListener.bind(to: .port(7)).accept()
    }
    #expect(failure.story.count > 3 && failure.story[0].hasSuffix("waits"))
    #expect(failure.story[1].contains("FAILS: the body waits, and nothing is left to run"))
    #expect(failure.story.contains { $0.contains("accept, for 0.0 seconds") }, "\(failure)")
  }

  @Test func `The story of a run that is too long ends at the time limit`() async throws {
    let failure = try await Self.failure(timeLimit: .seconds(10)) { simulation in
      while true {
        try await Task.sleep(for: .seconds(4))
        simulation.note("waits")
      }
    }
    #expect(failure.story.prefix(2).allSatisfy { $0.hasSuffix("waits") })
    #expect(failure.story[2].contains("8.000000 s  main  FAILS: the next timer is behind the time limit"))
  }

  @Test func `The story of a run that ends its process has what came before`() async throws {
    let account = await Simulation(seed: 7).account(reason: nil, hash: nil, after: 0) { simulation in
      simulation.note("begins")
      try await simulation.host("n1").run {
        try await Task.sleep(for: .seconds(1))
        simulation.note("waits")
        try await Task.sleep(for: .seconds(1))
        kill(getpid(), SIGKILL)
      }
    }
    #expect(
      account?.story == [
        "  0.000000 s  main  begins", "  1.000000 s  n1    waits",
        "  2.000000 s  n1    FAILS: the process was ended by the signal 9",
      ])
    let passes = await Simulation(seed: 7).account(reason: nil, hash: nil, after: 0) { $0.note("ends") }
    #expect(passes == nil)
  }

  @Test func `A run that does not repeat itself says so`() async throws {
    let process = getpid()
    let failure = try await Self.failure { simulation in
      simulation.note(getpid() == process ? "the first" : "the second")
      throw Oops()
    }
    #expect(failure.description.contains("a second run, which did not do the same"), "\(failure)")
    #expect(failure.story.first?.hasSuffix("the second") == true)
  }

  // MARK: The picture

  @Test func `The picture is in the folder, which is made if it is missing`() async throws {
    let folder = try Folder()
    var settings = Simulation.pictures
    settings.name = "A picture"
    settings.folder = folder.file("pictures").path
    let failure = try await Simulation.$pictures.withValue(settings) { try await Self.failure { _ in throw Oops() } }
    let path = folder.file("pictures/A-picture-seed-7.html").path
    #expect(failure.picture == path && failure.description.contains("A picture of the run: \(path)"))
    let text = try String(contentsOfFile: path, encoding: .utf8)
    #expect(text.contains("\"failure\",\"Oops()\"") && text.hasSuffix("</html>\n"))
    // Another test may have the same name.
    let second = try await Simulation.$pictures.withValue(settings) { try await Self.failure { _ in throw Oops() } }
    #expect(second.picture == folder.file("pictures/A-picture-seed-7-2.html").path)
    #expect(try String(contentsOfFile: path, encoding: .utf8) == text)
  }

  @Test func `A shorter picture replaces a longer one of an earlier process`() async throws {
    let folder = try Folder()
    var settings = Simulation.pictures
    settings.folder = folder.url.path
    let path = folder.file("simulation-seed-7.html")
    try Data(count: 2_000_000).write(to: path)
    let failure = try await Simulation.$pictures.withValue(settings) { try await Self.failure { _ in throw Oops() } }
    #expect(failure.picture == path.path)
    #expect(try String(contentsOf: path, encoding: .utf8).hasSuffix("</html>\n"))
    #expect(try Data(contentsOf: path).count < 1_000_000)
  }

  @Test func `If the picture cannot be written, the failure says why`() async throws {
    var settings = Simulation.pictures
    settings.folder = "/dev/null/pictures"
    let failure = try await Simulation.$pictures.withValue(settings) { try await Self.failure { _ in throw Oops() } }
    #expect(failure.picture == nil && failure.story.count > 0)
    #expect(failure.description.contains("The picture is missing: "), "\(failure)")
  }

  // MARK: The record

  @Test func `A recorded run has the same trace as another`() async throws {
    let hashes = Locked<[UInt64]>([])
    for isRecorded in [false, true] {
      let simulation = Simulation(seed: 3, order: .random)
      if isRecorded { simulation.thread.trace.observer = { _ in } }
      try await simulation.run {
        simulation.note("begins")
        let (host, other) = (simulation.host("n1"), simulation.host("n2"))
        host.start { try await TCPListener.bind(to: .port(7)).serve { try await $0.write(utf8: "hello") } }
        simulation.partition([host], from: [other])
        simulation.repair([host], and: [other])
        try await other.run {
          let connection = try await TCPConnection.connect(to: .host("n1", port: 7))
          _ = try await connection.read(exactly: 5)
        }
        host.crash()
      }
      hashes.withLock { $0.append(simulation.traceHash) }
    }
    #expect(hashes.withLock { $0[0] == $0[1] })
  }

  @Test func `A record has each fault with its hosts, in order`() async throws {
    let record = try await Self.record { simulation in
      let (one, two) = (simulation.host("n1"), simulation.host("n2"))
      one.crash(.process)
      one.restart()
      one.crash()
      two.pause()
      two.resume()
      simulation.partition([one], from: [two])
      simulation.repair([one], and: [two])
      simulation.setLink(NetworkLink(latency: .fixed(.seconds(1))), from: two, to: one)
    }
    let contents = record.others.map(\.event.content)
    func link(_ from: Int, _ to: Int, _ text: String, _ isCut: Bool) -> RunEvent.Content {
      .link(LinkView(from: from, to: to, text: text, isCut: isCut))
    }
    let slow = "a latency of 1.0 seconds"
    #expect(
      contents == [
        .state(of: 1, .killed, change: "n1 crashes"), .state(of: 1, .running, change: "n1 restarts"),
        .state(of: 1, .withoutPower, change: "n1 crashes"), .state(of: 2, .paused, change: "n2 is paused"),
        .state(of: 2, .running, change: "n2 continues"), .change("the links between n1 and n2 are cut"),
        link(1, 2, "a cut", true), link(2, 1, "a cut", true),
        .change("the links between n1 and n2 are repaired"), link(1, 2, "", false), link(2, 1, "", false),
        .change("the link from n2 to n1 has \(slow)"), link(2, 1, slow, false),
      ])
    #expect(record.hosts == ["main", "n1", "n2"])
  }

  @Test func `A record has the faults of disks, and no call that succeeds`() async throws {
    let record = try await Self.record { simulation in
      let host = simulation.host("n1")
      let disk = host.disk
      try await host.run {
        let file = try await disk.open("log")
        try await file.append([UInt8](repeating: 1, count: 100))
        try await disk.synchronizeDirectory("")
        disk.properties.latentErrors = 1
        try await file.append([1])
        disk.properties = DiskProperties()
        _ = try? await file.read(at: 0, count: 1)
        try disk.flipBit(of: "log", at: 0)
        try disk.damage("log", at: 0)
        disk.failNext(.synchronize)
        _ = try? await file.synchronize()
        try await file.truncate(to: 0)
        try await file.write([1], at: 0)
        disk.properties.corruptReads = 1
        _ = try await file.read(at: 0, count: 1)
        _ = try? await disk.open("none", creation: .never)
      }
    }
    let texts = record.others.compactMap { element -> String? in
      guard case .change(let text) = element.event.content, element.event.host == 1 else { return nil }
      return text.hasPrefix("the disk of") || text.hasPrefix("on the disk of") ? nil : text
    }
    #expect(texts.count == 6, "\(texts)")
    let starts = [
      "the sector at 100 of \"log\" cannot be read", "read at 0 of \"log\" fails", "bit 0 at 0 of \"log\" is flipped",
      "the sector at 0 of \"log\" is damaged", "fails to synchronize \"log\"", "reads 1 bytes at 0 of \"log\", some",
    ]
    for (text, start) in zip(texts, starts) { #expect(text.hasPrefix(start), "\(text)") }
  }

  @Test func `The story says what a power failure took from a disk`() async throws {
    var found = false
    for seed in 0..<20 as Range<UInt64> {
      let failure = try await within("the simulation is over") {
        try #require(
          await #expect(throws: SimulationFailure.self) {
            try await Simulation.explore(seeds: [seed]) { simulation in
              let host = simulation.host("n1")
              try await host.run { _ = try await host.disk.open("log") }
              host.crash()
              throw Oops()
            }
          })
      }
      if failure.story.contains(where: { $0.hasSuffix("n1    lost the creation of \"log\"") }) { found = true }
    }
    #expect(found)
  }

  @Test func `Only the first failure has a record of its waiting calls, and large notes displace nothing`() async throws
  {
    let record = try await Self.record { simulation in
      simulation.note("before")
      simulation.note(String(repeating: "x", count: 2_000_000))
      for _ in 0..<3 { _ = simulation.recordFailure("fails") }
    }
    let contents = record.others.map(\.event.content)
    let waiting = contents.count { if case .waiting = $0 { true } else { false } }
    let failures = contents.count { $0 == .failure("fails") }
    #expect(waiting == 1 && failures == 3 && contents.first == .note("before") && record.droppedOthers == 0)
  }

  @Test func `A record has each packet with its bytes and its fate`() async throws {
    let record = try await Self.record { simulation in
      let (one, two) = (simulation.host("n1"), simulation.host("n2"))
      try await one.run {
        let endpoint = try UDPEndpoint.bind()
        func send(_ text: String) async throws {
          try await endpoint.send(Array(text.utf8), to: .host("n2", port: 7))
        }
        try await send("arrives")
        simulation.setLink(NetworkLink(loss: 1), from: one, to: two)
        try await send("is lost")
        var link = NetworkLink()
        link.rejection = .hostUnreachable
        simulation.setLink(link, from: one, to: two)
        try await send("is rejected")
        simulation.setLink(NetworkLink(duplication: 1), from: one, to: two)
        try await send(String(repeating: "x", count: 300))
        simulation.partition([one], from: [two])
        try await send("is cut")
        await endpoint.close()
      }
    }
    let packets = record.packets.compactMap { element -> PacketView? in
      if case .packet(let packet) = element.event.content, packet.kind == 17 { packet } else { nil }
    }
    #expect(packets.map(\.loss) == [nil, .chance, .rejected, nil, .cut])
    #expect(packets.map(\.arrivals.count) == [1, 0, 0, 2, 0])
    #expect(packets[0].arrivals == [1_000_000] && packets[0].from == 1 && packets[0].to == 2)
    #expect(packets[0].bytes == Array("arrives".utf8) && packets[0].destinationPort == 7)
    #expect(packets[3].count == 300 && packets[3].bytes.count == PacketView.keptBytes)
  }
}
