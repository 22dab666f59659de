import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// What the hash of a whole simulation depends on: each program differs from the first in one thing.
@Suite struct TraceContentTests {
  enum Way: CaseIterable {
    case tcp, udp, unixStream, unixDatagram, memory
  }

  private static func send(_ text: String, by way: Way) async throws {
    switch way {
    case .tcp, .unixStream:
      let address = way == .tcp ? Endpoint.port(7) : .unix(path: "/run/socket")
      let listener = try TCPListener.bind(to: address)
      let client = try await TCPConnection.connect(to: way == .tcp ? .host("main", port: 7) : address)
      try await client.write(utf8: text)
      _ = try await listener.accept().read(exactly: text.utf8.count)
    case .udp, .unixDatagram:
      let address = way == .udp ? Endpoint.port(7) : .unix(path: "/run/socket")
      let receiver = try UDPEndpoint.bind(to: address)
      let client = try await UDPEndpoint.connect(to: way == .udp ? .host("main", port: 7) : address)
      try await client.send(Array(text.utf8))
      _ = try await receiver.receive()
    case .memory:
      let (client, server) = InMemoryConnection.pair()
      try await client.write(utf8: text)
      _ = try await server.read(exactly: text.utf8.count)
    }
  }

  @Test(arguments: Way.allCases) func `Programs that send other bytes have other hashes`(way: Way) async throws {
    var hashes: [UInt64] = []
    for text in ["yes", "yes", "not"] {
      hashes.append(try await simulated { _ in try await Self.send(text, by: way) }.traceHash)
    }
    #expect(hashes[0] == hashes[1])
    #expect(hashes[0] != hashes[2])
  }

  @Test func `Programs that send to other unix sockets have other hashes`() async throws {
    var hashes: [UInt64] = []
    for path in ["/run/a", "/run/a", "/run/b"] {
      let simulation = try await simulated { _ in
        // Both exist, and only the address differs.
        let receivers = try ["/run/a", "/run/b"].map { try UDPEndpoint.bind(to: .unix(path: $0)) }
        try await UDPEndpoint.connect(to: .unix(path: path)).send([1])
        for receiver in receivers { await receiver.close() }
      }
      hashes.append(simulation.traceHash)
    }
    #expect(hashes[0] == hashes[1])
    #expect(hashes[0] != hashes[2])
  }

  @Test func `Programs on other hosts have other hashes`() async throws {
    var hashes: [UInt64] = []
    for name in ["a", "a", "b"] {
      let simulation = try await simulated { simulation in
        // Both have an address, and only the address differs.
        let hosts = ["a", "b"].map { simulation.host($0) }
        for host in hosts { host.start { _ = try await UDPEndpoint.bind(to: .port(7)).receive() } }
        let endpoint = try await UDPEndpoint.connect(to: .host(name, port: 7))
        try await endpoint.send([1])
        try await Task.sleep(for: .seconds(1))
      }
      hashes.append(simulation.traceHash)
    }
    #expect(hashes[0] == hashes[1])
    #expect(hashes[0] != hashes[2])
  }
}
