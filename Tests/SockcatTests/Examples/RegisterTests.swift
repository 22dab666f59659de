import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// Runs three replicas and three clients on a host each, breaks things meanwhile, and returns what the clients saw.
func useRegister(in simulation: Simulation, writesBack: Bool) async throws -> [Operation] {
  simulation.defaultLink = NetworkLink(latency: .uniform(.milliseconds(1), .milliseconds(40)), loss: 0.05)
  let servers = (1...3).map { simulation.host("replica\($0)") }
  for server in servers {
    // The replica is outside of the program, as a disk: it survives a crash.
    let replica = Replica()
    server.start { try await serve(replica, on: TCPListener.bind(to: .port(7000))) }
  }

  let history = History()
  try await withThrowingTaskGroup { group in
    for number in 1...3 {
      group.addTask {
        try await simulation.host("client\(number)").run {
          let links = servers.map { ReplicaLink(to: .host($0.name, port: 7000)) }
          let register = RegisterClient(number: number, replicas: links, writesBack: writesBack)
          try await use(register, in: simulation, history)
        }
      }
    }
    group.addTask { try await breakThings(servers, in: simulation) }
    try await group.waitForAll()
  }
  return await history.operations
}

/// Reads and writes at random, and notes what happens and when.
func use(_ register: RegisterClient, in simulation: Simulation, _ history: History) async throws {
  var random = SeededRandom(seed: simulation.seed &* 3 &+ UInt64(register.number))
  for round in 1...4 {
    try await Task.sleep(for: .milliseconds(Int.random(in: 0...100, using: &random)))
    let start = simulation.clock.now
    let kind: Operation.Kind = Int.random(in: 1...3, using: &random) == 1 ? .write : .read
    var value = "\(register.number).\(round)"
    if kind == .read { value = try await register.read() } else { try await register.write(value) }
    let operation = Operation(
      client: register.number, kind: kind, value: value, start: start, end: simulation.clock.now)
    simulation.note("\(operation)")
    await history.add(operation)
  }
  await register.close()
}

/// Breaks three things in turn, for up to a second each: a server crashes or stands still, or a client loses all servers but one.
func breakThings(_ servers: [SimulatedHost], in simulation: Simulation) async throws {
  var random = SeededRandom(seed: ~simulation.seed)
  for _ in 1...3 {
    let client = simulation.host("client\(Int.random(in: 1...3, using: &random))")
    let server = servers[Int.random(in: 0..<3, using: &random)]
    let others = servers.filter { $0 != server }
    let fault = Int.random(in: 1...3, using: &random)
    try await Task.sleep(for: .milliseconds(Int.random(in: 0...200, using: &random)))
    switch fault {
    case 1: server.crash(.process)
    case 2: server.pause()
    default: simulation.partition([client], from: others)
    }
    try await Task.sleep(for: .milliseconds(Int.random(in: 10...1_000, using: &random)))
    switch fault {
    case 1: server.restart()
    case 2: server.resume()
    default: simulation.repair([client], and: others)
    }
  }
}

/// The register of the article about distributed programs.
@Suite(.tags(.simulation)) struct RegisterTests {
  @Test func `Whatever breaks, the clients see one register`() async throws {
    try await Simulation.explore(seeds: 0..<200) { simulation in
      let history = try await useRegister(in: simulation, writesBack: true)
      try check(history)
    }
  }

  @Test func `A client gets its answer, although the server crashes and packets are lost`() async throws {
    try await Simulation.explore(seeds: 0..<100) { simulation in
      simulation.defaultLink = NetworkLink(latency: .uniform(.milliseconds(1), .milliseconds(40)), loss: 0.05)
      let server = simulation.host("server")
      server.start { try await serve(Replica(), on: TCPListener.bind(to: .port(7000))) }
      async let answer = simulation.host("client").run {
        try await ReplicaLink(to: .host("server", port: 7000)).ask("get")
      }
      try await Task.sleep(for: .milliseconds(Int(simulation.seed)))
      server.crash()
      server.restart()
      try #require(try await answer == "0 0 nothing")
    }
  }

  @Test func `A read that does not write back passes a test over loopback`() async throws {
    try await within("the clients are done") {
      let listeners = try (0..<3).map { _ in try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0))) }
      try await withThrowingTaskGroup { group in
        for listener in listeners { group.addTask { try await serve(Replica(), on: listener) } }
        let clients = (1...3).map { number in
          let links = listeners.map { ReplicaLink(to: .address($0.localAddresses[0])) }
          return RegisterClient(number: number, replicas: links, writesBack: false)
        }
        for round in 1...100 {
          let value = "value \(round)"
          try await clients[round % 3].write(value)
          for client in clients { #expect(try await client.read() == value) }
        }
        for client in clients { await client.close() }
        for listener in listeners { await listener.drain(within: .seconds(5)) }
        try await group.waitForAll()
      }
    }
  }

  @Test func `Whatever breaks, the clients see one register, also with the other seeds of a long run`() async throws {
    try await Simulation.explore(seeds: 200..<max(200, TestSupport.seeds(200, atMost: 10_000))) { simulation in
      let history = try await useRegister(in: simulation, writesBack: true)
      try check(history)
    }
  }

  @Test func `A simulation finds a read that does not write back`() async throws {
    let failure = await #expect(throws: SimulationFailure.self) {
      try await Simulation.explore(seeds: 0..<10_000) { simulation in
        let history = try await useRegister(in: simulation, writesBack: false)
        try check(history)
      }
    }
    if let failure { print("a read that does not write back: \(failure)") }
  }

  @Test func `The check knows what one register can do`() {
    func operation(_ kind: Operation.Kind, _ value: String, _ start: Int, _ end: Int) -> Operation {
      let times = [start, end].map { SimulationClock.Instant(elapsed: .seconds($0)) }
      return Operation(client: 1, kind: kind, value: value, start: times[0], end: times[1])
    }
    let write = operation(.write, "new", 1, 9)
    #expect(isLinearizable([]))
    #expect(isLinearizable([write, operation(.read, "nothing", 2, 3), operation(.read, "new", 4, 5)]))
    #expect(isLinearizable([write, operation(.read, "new", 2, 4), operation(.read, "nothing", 3, 5)]))
    #expect(!isLinearizable([write, operation(.read, "new", 2, 3), operation(.read, "nothing", 4, 5)]))
    #expect(!isLinearizable([write, operation(.read, "nothing", 10, 11)]))
    #expect(!isLinearizable([write, operation(.read, "other", 2, 3)]))
  }

  @Test func `The same seed gives the same run`() async throws {
    for seed in 0..<5 as Range<UInt64> {
      var hashes: Set<UInt64> = []
      for _ in 0..<2 {
        let simulation = Simulation(seed: seed, order: .random)
        try await simulation.run { _ = try await useRegister(in: simulation, writesBack: true) }
        hashes.insert(simulation.traceHash)
      }
      #expect(hashes.count == 1, "seed \(seed)")
    }
  }
}
