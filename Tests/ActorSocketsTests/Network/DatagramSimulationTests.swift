import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@Suite struct DatagramSimulationTests {
  @Sendable static func echo() async throws {
    let endpoint = try UDPEndpoint.bind(to: .port(53))
    for try await datagram in endpoint.datagrams { try await endpoint.send([datagram.reply(datagram.bytes)]) }
  }

  /// Asks a server until it answers. Returns the number of questions that it took.
  static func ask(_ endpoint: UDPEndpoint, _ number: UInt8) async throws -> Int {
    for attempt in 1...50 {
      try await endpoint.send([number])
      while let answer = try? await endpoint.receive(timeout: .within(.milliseconds(100))) {
        // An answer to an earlier question, or a second one, is of no use.
        if answer.bytes == [number] { return attempt }
      }
    }
    throw SimulationFlaw("no answer")
  }

  struct SimulationFlaw: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
  }

  // MARK: Links

  @Test func `Questions that are repeated are answered over links that lose, double and reorder`() async throws {
    try await within("all seeds are over", seconds: 300) {
      let attempts = Locked(0)
      let count = seeds(50)
      try await Simulation.explore(seeds: 0..<count) { simulation in
        simulation.defaultLink = NetworkLink(
          latency: .uniform(.milliseconds(1), .milliseconds(20)), loss: 0.2, duplication: 0.2, reordering: 0.2)
        simulation.host("server").start(Self.echo)
        try await simulation.host("client").run {
          let endpoint = try await UDPEndpoint.connect(to: .host("server", port: 53))
          for number in 0..<20 as Range<UInt8> {
            let taken = try await Self.ask(endpoint, number)
            attempts.withLock { $0 += taken }
          }
        }
      }
      // A question and its answer both arrive with a probability of 0.64.
      let mean = attempts.withLock { Double($0) } / Double(20 * count)
      #expect((1.3...1.9).contains(mean), "\(mean)")
    }
  }

  @Test func `Sends wait for room if the link is slower than the program`() async throws {
    let simulation = try await simulated { simulation in
      let (client, server) = (simulation.host("client"), simulation.host("server"))
      // 10,000 bytes a second.
      simulation.setLink(NetworkLink(bandwidth: 80_000), from: client, to: server)
      server.start(Self.echo)
      try await client.run {
        let endpoint = try await UDPEndpoint.connect(to: .host("server", port: 53))
        for _ in 0..<1_000 { try await endpoint.send([UInt8](repeating: 1, count: 972)) }
      }
    }
    // A send buffer takes about 120 of them; the other 880 leave one after the other, in a tenth of a second each.
    #expect((.seconds(85)...(.seconds(95))).contains(simulation.clock.now.elapsed), "\(simulation.clock.now.elapsed)")
  }

  enum Call: CaseIterable {
    case one, batch, enqueued, named

    func make(on endpoint: UDPEndpoint) async throws {
      switch self {
      case .one: try await endpoint.send([1])
      case .batch: try await endpoint.send([Datagram([1]), Datagram([2])])
      case .enqueued: try await endpoint.enqueueSend(Datagram([1])).value
      case .named: try await endpoint.send([1], to: .host("server", port: 53))
      }
    }
  }

  @Test(arguments: Call.allCases, [UDPEndpoint.FilterVerdict.pass, .drop])
  func `A send whose filter closes the endpoint throws, also while the send buffer is full`(
    call: Call, verdict: UDPEndpoint.FilterVerdict
  ) async throws {
    try await simulated { simulation in
      let (client, server) = (simulation.host("client"), simulation.host("server"))
      simulation.setLink(NetworkLink(bandwidth: 8_000), from: client, to: server)
      try await client.run {
        let endpoint = try await UDPEndpoint.connect(to: .host("server", port: 53))
        await expectError(.timedOut) {
          while true { try await endpoint.send([UInt8](repeating: 1, count: 972), timeout: .zero) }
        }
        await endpoint.setSendFilter { [weak endpoint] _ in
          endpoint?.assumeIsolated { $0.close() }
          return verdict
        }
        await expectError(.closed) { try await call.make(on: endpoint) }
      }
    }
  }

  @Test func `While a program is paused, its receive buffer keeps what fits, and the rest is counted`()
    async throws
  {
    try await simulated { simulation in
      let (client, server) = (simulation.host("client"), simulation.host("server"))
      let endpoint = try await server.run { try UDPEndpoint.bind(to: .port(53)) }
      server.pause()
      try await client.run {
        let endpoint = try await UDPEndpoint.connect(to: .host("server", port: 53))
        for _ in 0..<1_000 { try await endpoint.send([UInt8](repeating: 1, count: 256)) }
      }
      try await Task.sleep(for: .seconds(1))
      server.resume()
      let received = try await server.run {
        var count = 0
        while (try? await endpoint.receive(timeout: .within(.seconds(1)))) != nil { count += 1 }
        return count
      }
      // 212,992 bytes, of which each takes 1,024.
      #expect(received == 208)
      #expect(await endpoint.metrics.datagramsDropped == 1_000 - 208)
    }
  }

  // MARK: Errors

  @Test func `A host without a socket refuses, and one without power says nothing`() async throws {
    try await simulated { simulation in
      let server = simulation.host("server")
      try await simulation.host("client").run {
        let endpoint = try await UDPEndpoint.connect(to: .host("server", port: 53))
        try await endpoint.send([1])
        await expectError(.connectionRefused) { _ = try await endpoint.receive(timeout: .within(.seconds(1))) }
        let reports = endpoint.errors
        let report = try #require(await reports.next())
        #expect(
          report.error.code == .connectionRefused && report.reporter.map { server.addresses.contains($0) } == true)
        server.crash()
        try await endpoint.send([1])
        await expectError(.timedOut) { _ = try await endpoint.receive(timeout: .within(.seconds(1))) }
      }
    }
  }

  @Test func `A send that fails leaves the endpoint as it was`() async throws {
    try await within("all seeds are over") {
      let failures = Locked(0)
      try await Simulation.explore(seeds: 0..<20) { simulation in
        let client = simulation.host("client")
        simulation.host("server").start(Self.echo)
        try await client.run {
          let endpoint = try await UDPEndpoint.connect(to: .host("server", port: 53))
          client.setFaults([.fail(.send, with: .networkUnreachable, probability: 0.3)])
          for number in 0..<20 as Range<UInt8> {
            do {
              try await endpoint.send([number])
              #expect(try await endpoint.receive(timeout: .within(.seconds(1))).bytes == [number])
            } catch let error as SocketError {
              #expect(error.code == .unreachable)
              failures.withLock { $0 += 1 }
            }
          }
        }
      }
      #expect((60...180).contains(failures.withLock { $0 }))
    }
  }

  // MARK: Groups and broadcasts

  @Sendable static func member(_ name: String, of group: String) async throws {
    let endpoint = try UDPEndpoint.bind(to: .port(5_000))
    try await endpoint.join(IPAddress(parsing: group), on: "eth0")
    for try await datagram in endpoint.datagrams { try await endpoint.send([datagram.reply(Array(name.utf8))]) }
  }

  static func answers(_ endpoint: UDPEndpoint, _ address: SocketAddress) async throws -> [String] {
    try await endpoint.send([1], to: .address(address))
    var names: [String] = []
    while let answer = try? await endpoint.receive(timeout: .within(.seconds(1))) {
      names.append(String(decoding: answer.bytes, as: UTF8.self))
    }
    return names.sorted()
  }

  @Test(arguments: ["239.1.2.3", "ff15::1"])
  func `A datagram to a group reaches its members, on all hosts that it can reach`(group: String) async throws {
    try await simulated { simulation in
      let hosts = ["a", "b", "c"].map { simulation.host($0) }
      for host in hosts { host.start { try await Self.member(host.name, of: group) } }
      simulation.host("d").start { try await Self.member("d", of: "239.9.9.9") }
      try await hosts[0].run {
        let address = try IPAddress(parsing: group).socketAddress(port: 5_000)
        let endpoint = try UDPEndpoint.bind(to: .port(0))
        #expect(try await Self.answers(endpoint, address) == ["a", "b", "c"])
        simulation.partition([hosts[0]], from: [hosts[2]])
        #expect(try await Self.answers(endpoint, address) == ["a", "b"])
        try await endpoint.set(.multicastLoopback, to: false)
        #expect(try await Self.answers(endpoint, address) == ["b"])
        try await endpoint.set(.multicastTimeToLive, to: 0)
        #expect(try await Self.answers(endpoint, address) == [])
      }
    }
  }

  @Test func `Membership for one source takes its datagrams only, and ends when it is left`() async throws {
    try await simulated { simulation in
      let hosts = ["a", "b", "c"].map { simulation.host($0) }
      let group = try IPAddress(parsing: "239.1.2.3")
      try await hosts[2].run {
        let endpoint = try UDPEndpoint.bind(to: .port(5_000))
        try await endpoint.join(group, on: .name("eth0"), source: hosts[0].addresses[0])
        await expectError(.alreadyJoined) {
          try await endpoint.join(group, on: .name("eth0"), source: hosts[0].addresses[0])
        }
        await expectError(.interfaceNotFound) { try await endpoint.join(group, on: .name("eth9")) }
        for host in hosts[..<2] {
          try await host.run {
            try await UDPEndpoint.bind(to: .port(0)).send(
              Array(host.name.utf8), to: .address(group.socketAddress(port: 5_000)))
          }
        }
        #expect(try await endpoint.receive(timeout: .within(.seconds(1))).bytes == Array("a".utf8))
        await expectError(.timedOut) { _ = try await endpoint.receive(timeout: .within(.seconds(1))) }
        try await endpoint.leave(group, on: .name("eth0"), source: hosts[0].addresses[0])
        await expectError(.notJoined) { try await endpoint.leave(group, on: .name("eth0")) }
      }
    }
  }

  @Test(arguments: ["239.1.2.3", "ff15::12"])
  func `A group is left on the interface that was not named, although it was joined on another one later`(
    group: String
  ) async throws {
    try await simulated { simulation in
      let group = try IPAddress(parsing: group)
      try await simulation.host("a").run {
        let endpoint = try UDPEndpoint.bind(to: .port(5_000))
        try await endpoint.join(group)
        try await endpoint.join(group, on: .name("lo"))
        await expectError(.alreadyJoined) { try await endpoint.join(group, on: .name("eth0")) }
        try await endpoint.leave(group)
        await expectError(.notJoined) { try await endpoint.leave(group, on: .name("eth0")) }
        try await endpoint.leave(group, on: .name("lo"))
      }
    }
  }

  @Test func `A broadcast reaches all hosts, and needs permission`() async throws {
    try await simulated { simulation in
      for name in ["a", "b"] { simulation.host(name).start { try await Self.member(name, of: "239.1.2.3") } }
      try await simulation.host("c").run {
        let address = try SocketAddress(parsing: "255.255.255.255:5000")
        let plain = try UDPEndpoint.bind(to: .address(.ipv4(.any, port: 0)))
        await expectError(.permissionDenied) { try await plain.send([1], to: .address(address)) }
        var configuration = UDPEndpoint.Configuration()
        configuration.broadcast = true
        let endpoint = try UDPEndpoint.bind(to: .address(.ipv4(.any, port: 0)), configuration: configuration)
        #expect(try await Self.answers(endpoint, address) == ["a", "b"])
      }
    }
  }
}
