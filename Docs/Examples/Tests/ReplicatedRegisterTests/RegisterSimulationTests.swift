import ActorSockets
import ActorSocketsTestTraits
import ActorSocketsTesting
import Testing

@testable import ReplicatedRegister

/// A disk whose files do not wait for the disk: the bug that the simulation must find.
private struct HastyDisk: Disk {
  struct File: DiskFile {
    let file: any DiskFile

    var count: Int { get async throws { try await file.count } }
    @concurrent func read(at offset: Int, count: Int) async throws -> [UInt8] {
      try await file.read(at: offset, count: count)
    }
    @concurrent func write(_ bytes: [UInt8], at offset: Int) async throws {
      try await file.write(bytes, at: offset)
    }
    @concurrent func append(_ bytes: [UInt8]) async throws { try await file.append(bytes) }
    @concurrent func truncate(to size: Int) async throws { try await file.truncate(to: size) }
    @concurrent func synchronize() async throws {}
  }

  let disk: any Disk

  @concurrent func open(_ path: String, creation: FileCreation) async throws -> any DiskFile {
    File(file: try await disk.open(path, creation: creation))
  }
  @concurrent func rename(_ path: String, to newPath: String) async throws {
    try await disk.rename(path, to: newPath)
  }
  @concurrent func remove(_ path: String) async throws { try await disk.remove(path) }
  @concurrent func createDirectory(_ path: String) async throws { try await disk.createDirectory(path) }
  @concurrent func list(_ path: String) async throws -> [String] { try await disk.list(path) }
  @concurrent func synchronizeDirectory(_ path: String) async throws {}
}

/// The register on six hosts of a simulated network. To run a seed that fails once more: ACTORSOCKETS_SEED=….
@Suite struct RegisterSimulationTests {
  private static let port: UInt16 = 7000

  /// Starts replicas. Each time that one restarts, it has only what is on its disk.
  private func startReplicas(in simulation: Simulation, on disk: @escaping @Sendable (SimulatedDisk) -> any Disk)
    -> [SimulatedHost]
  {
    (1...3).map { number in
      let host = simulation.host("replica\(number)")
      host.start { try await serve(Replica(on: disk(host.disk)), on: TCPListener.bind(to: .port(Self.port))) }
      return host
    }
  }

  private func client(_ number: UInt64, of replicas: [SimulatedHost]) -> RegisterClient {
    let links = replicas.map { ReplicaLink(to: .host($0.name, port: Self.port), patience: .milliseconds(500)) }
    return RegisterClient(number: number, replicas: links, timeout: .seconds(120))
  }

  /// Runs a client on a host: two tasks read and write at random.
  private func use(_ number: UInt64, of replicas: [SimulatedHost], in simulation: Simulation, _ history: History)
    async throws
  {
    let host = simulation.host("client\(number)")
    do {
      try await host.run {
        let register = client(number, of: replicas)
        try await withThrowingTaskGroup { group in
          for task in 1...2 {
            group.addTask { try await use(register, "\(host.name).\(task)", in: simulation, history) }
          }
          try await group.waitForAll()
        }
        await register.close()
      }
    } catch let error as SimulationError where error.code == .crashed {
      // The operations that it had begun have no end in the history.
    }
  }

  private func use(_ register: RegisterClient, _ name: String, in simulation: Simulation, _ history: History)
    async throws
  {
    for round in 1...4 {
      try await Task.sleep(for: .milliseconds(Int.random(in: 0...300, using: &simulation.random)))
      let isRead = Int.random(in: 1...5, using: &simulation.random) > 2
      let value = isRead ? nil : "\(name).\(round)"
      let operation = Operation(
        client: name, kind: isRead ? .read : .write, value: value, start: simulation.clock.now.elapsed)
      let index = await history.begin(operation)
      if let value { try await register.write(value) }
      let result = isRead ? try await register.read() : value
      await history.end(index, result, at: simulation.clock.now.elapsed)
    }
  }

  /// Uses a register while hosts crash and links fail, and checks what the clients saw.
  private func useRegister(
    in simulation: Simulation, on disk: @escaping @Sendable (SimulatedDisk) -> any Disk = { $0 }
  ) async throws {
    simulation.defaultLink = NetworkLink(latency: .uniform(.milliseconds(1), .milliseconds(40)), loss: 0.05)
    let replicas = startReplicas(in: simulation, on: disk)
    let history = History()
    var chaos = Chaos(interval: .milliseconds(20)...(.milliseconds(400)), duration: .milliseconds(10)...(.seconds(1)))
    chaos.weights[.crash] = 7
    try await simulation.withChaos(chaos) {
      try await withThrowingTaskGroup { group in
        for number in 1...3 as ClosedRange<UInt64> {
          group.addTask { try await use(number, of: replicas, in: simulation, history) }
        }
        try await group.waitForAll()
      }
    }
    let operations = await history.all
    if !LinearizabilityCheck.passes(operations) { throw NotOneRegister(history: operations) }
  }

  @Test(.simulated(seeds: 300)) func `Whatever breaks, the clients see one register`() async throws {
    try await useRegister(in: try #require(Simulation.current))
  }

  @Test func `A simulation finds replicas that do not wait for their disks`() async throws {
    let failure = await #expect(throws: SimulationFailure.self) {
      try await Simulation.explore(seeds: 0..<1000) { try await useRegister(in: $0) { HastyDisk(disk: $0) } }
    }
    // One register could not give these results, or a replica found half an entry.
    #expect(failure?.error is NotOneRegister || failure?.error is EntryFile.Damaged)
  }

  @Test(.simulated(seeds: 20)) func `Without a majority there is no answer, and with it there is one again`()
    async throws
  {
    let simulation = try #require(Simulation.current)
    let replicas = startReplicas(in: simulation) { $0 }
    try await simulation.host("client1").run {
      let links = replicas.map { ReplicaLink(to: .host($0.name, port: Self.port)) }
      let register = RegisterClient(number: 1, replicas: links, timeout: .seconds(5))
      #expect(try await register.read() == nil)
      try await register.write("first")
      replicas[0].crash()
      try await register.write("second")
      replicas[1].crash(.process)
      let start = ContinuousClock.now
      let error = await #expect(throws: RegisterError.self) { try await register.read() }
      #expect(error?.description.hasPrefix("no majority") == true)
      #expect((Duration.seconds(4)...(.seconds(7))).contains(ContinuousClock.now - start))
      replicas[0].restart()
      #expect(try await register.read() == "second")
      await register.close()
    }
  }

  @Test func `An entry that a replica finds after its process was killed survives a power failure`() async throws {
    try await Simulation.explore(seeds: 0..<50) { simulation in
      let host = simulation.host("replica")
      let (old, new) = (Entry(number: 1, value: "old"), Entry(number: 2, value: "new"))
      try await host.run {
        try await EntryFile(disk: host.disk).save(old)
        // As `save`, until the process is killed before it synchronizes the directory.
        let file = try await host.disk.open("entry.new")
        try await file.write(Array("\(new)\n".utf8), at: 0)
        try await file.synchronize()
        try await host.disk.rename("entry.new", to: "entry")
      }
      host.crash(.process)
      host.restart()
      let found = try await host.run { try await EntryFile(disk: host.disk).load() }
      host.crash()
      host.restart()
      let left = try await host.run { try await EntryFile(disk: host.disk).load() }
      #expect(found == new && left == found)
    }
  }

  @Test func `The check knows what one register can do`() {
    func operation(_ kind: Operation.Kind, _ value: String?, _ start: Int, _ end: Int?) -> Operation {
      Operation(client: "a", kind: kind, value: value, start: .seconds(start), end: end.map { .seconds($0) })
    }
    let write = operation(.write, "new", 1, 9)
    #expect(LinearizabilityCheck.passes([]))
    #expect(LinearizabilityCheck.passes([write, operation(.read, nil, 2, 3), operation(.read, "new", 4, 5)]))
    #expect(LinearizabilityCheck.passes([write, operation(.read, "new", 2, 4), operation(.read, nil, 3, 5)]))
    #expect(!LinearizabilityCheck.passes([write, operation(.read, "new", 2, 3), operation(.read, nil, 4, 5)]))
    #expect(!LinearizabilityCheck.passes([write, operation(.read, nil, 10, 11)]))
    #expect(!LinearizabilityCheck.passes([write, operation(.read, "other", 2, 3)]))
    let crashed = operation(.write, "new", 1, nil)
    #expect(LinearizabilityCheck.passes([crashed, operation(.read, nil, 10, 11), operation(.read, "new", 12, 13)]))
    #expect(LinearizabilityCheck.passes([crashed, operation(.read, nil, 10, 11)]))
    #expect(!LinearizabilityCheck.passes([crashed, operation(.read, "new", 10, 11), operation(.read, nil, 12, 13)]))
  }
}
