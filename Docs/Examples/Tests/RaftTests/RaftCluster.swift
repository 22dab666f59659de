import ActorSockets
import ActorSocketsTesting

@testable import Raft

/// Nodes and clients on hosts of a simulation, and what happens to them. The same for the right program and for each bug.
struct RaftCluster {
  private static let port: UInt16 = 7000
  private static let clients = 1...5
  private static let time = Duration.seconds(12)
  private static let keys = ["x", "y"]

  let simulation: Simulation
  let nodes: [SimulatedHost]
  let history = History()
  let invariants = Invariants()

  /// Starts three or five nodes. Each time that one restarts, it has only what is on its disk.
  init(in simulation: Simulation, bugs: Set<RaftBug> = []) {
    self.simulation = simulation
    let count = Bool.random(using: &simulation.random) ? 3 : 5
    var configuration = RaftConfiguration(id: 0, nodes: Array(1...count))
    configuration.entriesInMessage = Int.random(in: 1...3, using: &simulation.random)
    configuration.leasesReads = Bool.random(using: &simulation.random)
    let timeout = Duration.milliseconds(Int.random(in: 100...300, using: &simulation.random))
    configuration.electionTimeout = timeout...(timeout * 2)
    configuration.heartbeat = timeout / 4
    configuration.bugs = bugs
    simulation.defaultLink = NetworkLink(latency: .uniform(.milliseconds(1), .milliseconds(10)), loss: 0.01)
    nodes = configuration.nodes.map { simulation.host("node\($0)") }
    let endpoints = Dictionary(uniqueKeysWithValues: configuration.nodes.map { ($0, Self.endpoint($0)) })
    for (host, id) in zip(nodes, configuration.nodes) {
      host.setClock(drift: Double.random(in: -0.02...0.02, using: &simulation.random))
      configuration.id = id
      host.start { [configuration, invariants] in
        let hooks = RaftHooks(
          observe: { try invariants.observe($0, $1) }, point: { await simulation.point($0) })
        let node = try await RaftNode(configuration, on: host.disk, hooks: hooks)
        try await node.run(on: .bind(to: .port(Self.port)), others: endpoints.filter { $0.key != id })
      }
    }
  }

  private static func endpoint(_ node: Int) -> Endpoint { .host("node\(node)", port: port) }

  /// Uses the nodes while they fail, and checks what clients saw, and that a majority then makes progress.
  func check() async throws {
    let clients = Self.clients.map { simulation.host("client\($0)") }
    // Any majority, whatever has happened before.
    let core = Array(nodes.shuffled(using: &simulation.random).prefix(nodes.count / 2 + 1))
    let uses = Self.clients.dropLast().map { number in Task { try await use(number, until: Self.time) } }
    try await simulation.withChaos(chaos, among: nodes) { try await simulation.clock.sleep(for: Self.time) }
    try await simulation.requireProgress(of: core + clients, within: .seconds(20)) {
      try await use(Self.clients.upperBound, atLeast: 20)
      for use in uses { try await use.value }
    }
    try await history.check()
  }

  private var chaos: Chaos {
    var chaos = Chaos(
      interval: .milliseconds(20)...(.milliseconds(500)), duration: .milliseconds(20)...(.milliseconds(600)))
    // Either a minority fails again and again, or sometimes all.
    let canAllCrash = Bool.random(using: &simulation.random)
    chaos.weights = [.crash: canAllCrash ? 1 : 4, .partition: 4, .latency: 2, .loss: 1, .pause: 2]
    chaos.mostAtOnce = [.crash: canAllCrash ? nodes.count : nodes.count / 2, .partition: 2, .latency: 2]
    chaos.pointChance = 0.15
    chaos.latency = .milliseconds(200)
    return chaos
  }

  /// Gets and puts at random, until `end` and at least `count` times.
  private func use(_ number: Int, until end: Duration = .zero, atLeast count: Int = 0) async throws {
    let endpoints = (1...nodes.count).map { Self.endpoint($0) }
    try await simulation.host("client\(number)").run {
      var round = 0
      var client: RaftClient?
      while simulation.clock.now.elapsed < end || round < count {
        // Clients come and go, and look for the leader.
        if round % 3 == 0 {
          await client?.close()
          client = RaftClient(
            number: UInt64(number * 1_000 + round), nodes: endpoints, patience: .milliseconds(200),
            timeout: .seconds(600))
        }
        guard let client else { return }
        round += 1
        try await Task.sleep(for: .milliseconds(Int.random(in: 0...60, using: &simulation.random)))
        let key = Self.keys[Int.random(in: 0..<Self.keys.count, using: &simulation.random)]
        let isGet = Bool.random(using: &simulation.random)
        let start = simulation.clock.now.elapsed
        var value: String? = "\(number).\(round)"
        if isGet {
          value = try await client.get(Array(key.utf8)).map { String(decoding: $0, as: UTF8.self) }
        } else {
          try await client.put(Array(key.utf8), Array("\(number).\(round)".utf8))
        }
        await history.add(
          Operation(
            client: number, kind: isGet ? .get : .put, key: key, value: value, start: start,
            end: simulation.clock.now.elapsed))
      }
      await client?.close()
    }
  }
}
