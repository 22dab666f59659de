import ActorSockets
import ActorSocketsTesting
import Glibc

/// One program, with Linux's sockets or in a simulation. `Tests/Tools/realism.py` runs both and compares what they print.
///
/// `serve` and `run` are the two ends, which the tool `wire` starts. `simulate` runs both in virtual time, once for each seed. The environment
/// has the case, as numbers that `Case` lists.
@main struct Realism {
  static func main() async throws {
    let test = Case()
    switch CommandLine.arguments.dropFirst().first {
    case "serve": try await Server.run(test)
    case "run": for line in try await Client.run(test) { print(line) }
    case "simulate": for seed in test.seeds { try simulate(test, seed: seed) }
    default: exit(2)
    }
  }

  private static func simulate(_ test: Case, seed: UInt64) throws {
    let simulation = Simulation(seed: seed)
    let lines = try simulation.run {
      let (server, client) = (simulation.host("server"), simulation.host("client"))
      simulation.setLink(test.link, between: server, and: client)
      server.start { try await Server.run(test) }
      try await simulation.clock.sleep(for: .milliseconds(300))
      if test.cut.upperBound > .zero {
        // The wire counts from the first packet.
        client.start {
          try await simulation.clock.sleep(for: test.cut.lowerBound)
          simulation.partition([server], from: [client])
          try await simulation.clock.sleep(for: test.cut.upperBound - test.cut.lowerBound)
          simulation.repair([server], and: [client])
        }
      }
      let lines = try await client.run { try await Client.run(test) }
      let packets = simulation.counters(from: client, to: server).packets
      server.crash()
      return lines + ["packets \(packets)"]
    }
    for line in lines { print(line) }
  }
}

/// What both ends do, and how the packets travel. From variables of the environment, without which a number is 0.
struct Case: Sendable {
  /// The bytes that the client sends; 0 for a case without.
  let bulk = number("BULK")
  /// The bytes per second that the client sends at most, by pauses; 0 for no limit.
  let pace = number("PACE")
  /// The requests that the client sends, one after the other, and the milliseconds between them.
  let echoes = number("ECHOES")
  let gap = Duration.milliseconds(number("GAP"))
  /// The connections that the client opens at the same time.
  let connects = number("CONNECTS")
  let seeds = UInt64(1)...UInt64(max(1, number("SEEDS")))
  let link: NetworkLink
  let cut: Range<Duration>

  init() {
    let (rate, queue) = (Self.number("RATE"), Self.number("QUEUE"))
    link = NetworkLink(
      latency: .fixed(.milliseconds(Self.number("DELAY"))), bandwidth: rate > 0 ? rate : nil,
      queue: queue > 0 ? queue : nil, loss: Double(Self.number("LOSS")) / 1_000)
    let start = Duration.milliseconds(Self.number("CUT_FROM"))
    cut = start..<max(start, .milliseconds(Self.number("CUT_UNTIL")))
  }

  private static func number(_ name: String) -> Int {
    getenv("REALISM_\(name)").flatMap { Int(String(cString: $0)) } ?? 0
  }
}

extension TCPConnection.Configuration {
  /// Linux's own default, whatever this machine has as its default.
  fileprivate static var cubic: Self {
    .with {
      $0.prepare = { try $0.set(.congestionControl, to: "cubic") }
      $0.connectTimeout = .seconds(300)
    }
  }
}

enum Server {
  static func run(_ test: Case) async throws {
    let listener = try TCPListener.bind(to: .port(8), configuration: .with { $0.connection = .cubic })
    if test.bulk > 0 {
      try await listener.serve { connection in
        var rest = test.bulk
        while rest > 0, let bytes = try await connection.read(upTo: 262_144) { rest -= bytes.count }
        try await connection.write([1])
      }
    } else {
      try await listener.serve { connection in
        while let bytes = try await connection.read(upTo: 100) { try await connection.write(bytes) }
      }
    }
  }
}

enum Client {
  /// Of the first host of a simulation, and of the namespace of the server.
  private static let server = Endpoint.host("10.0.0.2", port: 8)

  private static func seconds(_ time: Duration) -> Double {
    Double(time.components.seconds) + Double(time.components.attoseconds) / 1e18
  }

  /// Returns lines of a name and a number: seconds, or packets.
  static func run(_ test: Case) async throws -> [String] {
    if test.connects > 0 { return try await connects(test) }
    let connection = try await TCPConnection.connect(to: server, configuration: .cubic)
    let lines = test.bulk > 0 ? try await bulk(test, connection) : try await echoes(test, connection)
    await connection.close()
    return lines
  }

  private static func bulk(_ test: Case, _ connection: TCPConnection) async throws -> [String] {
    let clock = ContinuousClock()
    let start = clock.now
    let chunk = [UInt8](repeating: 7, count: 65_536)
    var sent = 0
    while sent < test.bulk {
      let count = min(chunk.count, test.bulk - sent)
      try await connection.write(Array(chunk.prefix(count)))
      sent += count
      if test.pace > 0 {
        try await clock.sleep(until: start + .microseconds(sent * 1_000_000 / test.pace))
      }
    }
    _ = try await connection.read(upTo: 1)
    return ["time \(seconds(clock.now - start))"]
  }

  private static func echoes(_ test: Case, _ connection: TCPConnection) async throws -> [String] {
    let clock = ContinuousClock()
    var times: [Double] = []
    for _ in 0..<test.echoes {
      let start = clock.now
      try await connection.write([UInt8](repeating: 1, count: 100))
      var rest = 100
      while rest > 0, let bytes = try await connection.read(upTo: rest) { rest -= bytes.count }
      times.append(seconds(clock.now - start))
      try await clock.sleep(for: test.gap)
    }
    times.sort()
    if !test.cut.isEmpty { return ["longest \(times[times.count - 1])"] }
    return [50, 90, 99].map { "p\($0) \(times[min(times.count - 1, times.count * $0 / 100)])" }
  }

  private static func connects(_ test: Case) async throws -> [String] {
    let times = try await withThrowingTaskGroup(of: Double.self) { group in
      for _ in 0..<test.connects {
        group.addTask {
          let clock = ContinuousClock()
          let start = clock.now
          let connection = try await TCPConnection.connect(to: server, configuration: .cubic)
          let time = seconds(clock.now - start)
          await connection.abort()
          return time
        }
      }
      return try await group.reduce(into: []) { $0.append($1) }.sorted()
    }
    return ["mean \(times.reduce(0, +) / Double(times.count))", "p90 \(times[times.count * 9 / 10])"]
  }
}
