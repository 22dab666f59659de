import ActorSockets
import ActorSocketsTesting
import Foundation
import TestSupport
import Testing

/// The same seed gives the same trace: in one process, in another one, and in another build.
///
/// `ACTORSOCKETS_TRACES` names a file to which the hashes are written. `make simulate` compares the files of a debug and a release build.
/// For this the programs here do something between any two calls of actors: if they did not, the optimiser could leave out the part of
/// the task that runs between them.
@Suite struct TraceRepetitionTests {
  @Sendable private static func server() async throws {
    let listener = try TCPListener.bind(to: .port(80))
    let endpoint = try UDPEndpoint.bind(to: .port(53))
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask {
        try await listener.serve { connection in
          for try await line in connection.lines { try await connection.write(utf8: line.uppercased() + "\n") }
        }
      }
      group.addTask {
        for try await datagram in endpoint.datagrams { try await endpoint.send([datagram.reply(datagram.bytes)]) }
      }
      try await group.waitForAll()
    }
  }

  @Sendable private static func talk() async throws {
    let connection = try await TCPConnection.connect(to: .host("server", port: 80))
    for number in 0..<5 {
      try await connection.write(utf8: "line \(number)\n")
      _ = try await connection.read(until: .lf)
    }
    await connection.close()
  }

  /// Asks over UDP, each question until it is answered.
  @Sendable private static func ask() async throws {
    let endpoint = try await UDPEndpoint.connect(to: .host("server", port: 53))
    for number in 0..<5 as Range<UInt8> {
      repeat { try await endpoint.send([number]) } while try await !hears(number, endpoint)
    }
  }

  private static func hears(_ number: UInt8, _ endpoint: UDPEndpoint) async throws -> Bool {
    while let answer = try? await endpoint.receive(timeout: .within(.milliseconds(100))) {
      if answer.bytes == [number] { return true }
    }
    Simulation.current?.note("question \(number) has no answer")
    return false
  }

  private static func run(_ seed: UInt64) async throws -> Simulation {
    let simulation = Simulation(seed: seed, order: seed % 2 == 0 ? .random : .fifo)
    try await simulation.run {
      simulation.defaultLink = NetworkLink(
        latency: .uniform(.milliseconds(1), .milliseconds(30)), bandwidth: 1_000_000, loss: 0.05, duplication: 0.05)
      simulation.host("server").start(server)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for client in ["a", "b", "c"].map({ simulation.host($0) }) {
          group.addTask { try await client.run(talk) }
          group.addTask { try await client.run(ask) }
        }
        try await group.waitForAll()
      }
    }
    return simulation
  }

  @Test func `The same seed gives the same trace again`() async throws {
    try await within("all seeds are over", seconds: 300) {
      var hashes: [UInt64] = []
      for seed in 0..<seeds(20, atMost: 1_000) {
        let (one, other) = (try await Self.run(seed), try await Self.run(seed))
        #expect(one.trace == other.trace && one.traceHash == other.traceHash, "seed \(seed)")
        hashes.append(one.traceHash)
      }
      #expect(Set(hashes).count == hashes.count)
      let lines = hashes.enumerated().map { "\($0) \($1)\n" }.joined()
      guard let file = ProcessInfo.processInfo.environment["ACTORSOCKETS_TRACES"] else { return }
      try lines.write(toFile: file, atomically: true, encoding: .utf8)
    }
  }
}
