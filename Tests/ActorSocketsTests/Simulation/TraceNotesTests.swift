import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// What the trace says of faults and settings.
@Suite struct TraceNotesTests {
  private struct Change: CustomTestStringConvertible {
    let line: String
    let make: @Sendable (Simulation, SimulatedHost, SimulatedHost) -> Void
    var testDescription: String { line }
  }

  private static let changes = [
    Change(line: "links have a latency of 0.005 seconds, a loss of 0.1 by default") { simulation, _, _ in
      simulation.defaultLink = NetworkLink(latency: .fixed(.milliseconds(5)), loss: 0.1)
    },
    Change(line: "the link from a to b has a latency of 0.001 seconds, 1000 bit/s, a duplication of 0.5, an MTU of 600")
    {
      $0.setLink(NetworkLink(bandwidth: 1_000, duplication: 0.5, mtu: 600), from: $1, to: $2)
    },
    Change(line: "the link from b to a has a latency of 0.0 seconds to 1.0 seconds, a reordering of 0.2") {
      $0.setLink(NetworkLink(latency: .uniform(.zero, .seconds(1)), reordering: 0.2), from: $2, to: $1)
    },
    Change(line: "the link from a to b has a latency of 0.001 seconds, a cut, a router that answers hostUnreachable") {
      var link = NetworkLink()
      link.isCut = true
      link.rejection = .hostUnreachable
      $0.setLink(link, from: $1, to: $2)
    },
    Change(line: "the links between a and b are cut") { $0.partition([$1], from: [$2]) },
    Change(line: "the links between a and b are repaired") { $0.repair([$1], and: [$2]) },
    Change(line: "between a and b, a middlebox drops data") { $0.setMiddlebox(.dropsData, between: $1, and: $2) },
    Change(line: "between a and b, no middlebox stands") { $0.setMiddlebox(nil, between: $1, and: $2) },
    Change(line: "a is paused") { _, host, _ in host.pause() },
    Change(line: "a continues") { _, host, _ in
      host.pause()
      host.resume()
    },
    Change(line: "a crashes") { _, host, _ in host.crash() },
    Change(line: "a restarts") { _, host, _ in
      host.crash()
      host.restart()
    },
    Change(line: "the clocks of a are 2.0 seconds ahead, and drift by 0.5") { _, host, _ in
      host.setClock(offset: .seconds(2), drift: 0.5)
    },
    Change(line: "a has at most 7 descriptors, a backlog of 3 and the ports 1...2") { _, host, _ in
      host.setLimits(descriptors: 7, ports: 1...2, backlog: 3)
    },
    Change(line: "calls on a: send fails with the error 105 (probability 0.5), reads are short (probability 0.25)") {
      $1.setFaults([.fail(.send, with: .noBufferSpace, probability: 0.5), .shortReads(probability: 0.25)])
      _ = ($0, $2)
    },
    Change(
      line: "the disk of a has reads of 0.0 seconds to 1.0 seconds, writes of 1e-05 seconds to 5e-05 seconds, "
        + "syncs of 0.001 seconds to 0.01 seconds, 1000 bytes, 0.5 of failed reads, 0.25 of latent errors"
    ) { _, host, _ in
      var properties = DiskProperties()
      properties.readLatency = .zero...(.seconds(1))
      properties.capacity = 1_000
      (properties.failedReads, properties.latentErrors) = (0.5, 0.25)
      host.disk.properties = properties
    },
    Change(line: "on the disk of a, a synchronize fails after 2 others") { _, host, _ in
      host.disk.failNext(.synchronize, after: 2)
    },
    Change(line: "calls on a: no faults") { _, host, _ in host.setFaults([]) },
  ]

  @Test(arguments: changes.indices)
  func `Each fault and setting leaves a line with the names of its hosts`(index: Int) async throws {
    let change = Self.changes[index]
    let simulation = try await simulated { simulation in
      let hosts = (simulation.host("a"), simulation.host("b"))
      try await Task.sleep(for: .seconds(1))
      change.make(simulation, hosts.0, hosts.1)
    }
    #expect(simulation.trace.filter { $0 == "1.000000000 s \(change.line)" }.count == 1, "\(simulation.trace)")
  }

  @Test func `Packets name the hosts of their addresses`() async throws {
    let simulation = try await simulated { simulation in
      simulation.host("server").start { _ = try await UDPEndpoint.bind(to: .port(7)).receive() }
      try await Task.sleep(for: .seconds(1))
      try await simulation.host("client").run {
        let endpoint = try await UDPEndpoint.connect(to: .host("server", port: 7))
        try await endpoint.send([1, 2, 3])
      }
      try await Task.sleep(for: .seconds(1))
    }
    let lines = simulation.trace.filter { $0.contains(" > ") }
    #expect(lines.count == 1)
    #expect(lines[0].hasPrefix("1.000000000 s client:"), "\(lines)")
    #expect(lines[0].hasSuffix(" > server:7 a datagram of 3 bytes"), "\(lines)")
  }
}
