import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@Suite struct SimulatedHostTests {
  @Test func `Names of hosts are compared as those of DNS`() async throws {
    try await simulated { simulation in
      let host = simulation.host("Server")
      #expect(simulation.host("server") == host && simulation.host("SERVER.") == host)
      #expect(simulation.host("servers") != host && host.name == "Server")
      #expect(simulation.host("main") == simulation.host("MAIN"))
    }
  }

  @Test func `Programs on two hosts talk to each other, and each packet takes its time`() async throws {
    let simulation = try await simulated { simulation in
      simulation.host("server").start(UppercaseEcho.server)
      try await simulation.host("client").run { try await UppercaseEcho.client(10) }
    }
    // The handshake and ten questions take a round trip each, and the end of the connection another.
    #expect(simulation.clock.now.elapsed >= .milliseconds(22))
    #expect(simulation.clock.now.elapsed < .milliseconds(40))
  }

  // MARK: Names and addresses

  @Test func `Hosts find each other by name and by address, in both families`() async throws {
    try await simulated { simulation in
      let server = simulation.echoHost()
      try #require(server.addresses.map(\.description) == ["10.0.0.2", "fd00::2"])
      for name in ["server", "SERVER", "10.0.0.2", "fd00::2"] {
        try await simulation.host("client").run { try await UppercaseEcho.client(1, to: name) }
      }
      try await server.run { try await UppercaseEcho.client(1, to: "localhost") }
      for family in [AddressFamily.ipv4, .ipv6] {
        let found = try await SystemResolver().addresses(of: "server", family: family)
        #expect(found.map { IPAddress($0) } == server.addresses.filter { $0.isIPv4 == (family == .ipv4) })
      }
      await expectError(.hostNotFound) { try await UppercaseEcho.client(1, to: "nobody") }
      await expectError(.connectionRefused) { try await UppercaseEcho.client(1, port: 81) }
      await expectError(.unreachable) { try await UppercaseEcho.client(1, to: "192.0.2.1") }
    }
  }

  @Test func `The addresses of a connection are those of its hosts`() async throws {
    try await simulated { simulation in
      let listener = try await simulation.host("server").run { try TCPListener.bind(to: .port(80)) }
      let client = try await simulation.host("client").run {
        try await TCPConnection.connect(to: .host("10.0.0.2", port: 80))
      }
      let server = try await listener.accept()
      #expect(client.remoteAddress?.description == "10.0.0.2:80")
      #expect(server.localAddress?.unmapped.description == "10.0.0.2:80")
      #expect(server.remoteAddress?.unmapped == client.localAddress)
      #expect(client.localAddress.flatMap { IPAddress($0) }?.description == "10.0.0.3")
    }
  }

  // MARK: Crashes and pauses

  @Test(arguments: [true, false])
  func `A killed program ends its connections, and resets those with unread bytes`(hasUnread: Bool) async throws {
    try await simulated { simulation in
      let server = simulation.host("server")
      let listener = try await server.run { try TCPListener.bind(to: .port(80)) }
      let client = try await TCPConnection.connect(to: .host("server", port: 80))
      let accepted = try await listener.accept()
      if hasUnread {
        try await client.write(utf8: "unread")
        try await simulation.clock.sleep(for: .seconds(1))
      }
      server.crash(.process)
      if hasUnread {
        await expectError(.connectionReset) { _ = try await client.read(upTo: 1) }
      } else {
        #expect(try await client.read(upTo: 1) == nil)
      }
      withExtendedLifetime(accepted) {}
    }
  }

  @Test func `After a restart the program runs again, and earlier connections are reset when they are used`()
    async throws
  {
    try await simulated { simulation in
      let server = simulation.echoHost()
      let connection = try await TCPConnection.connect(to: .host("server", port: 80))
      server.crash()
      #expect(server.isDown)
      await expectError(.timedOut) { try await Self.connect(within: .seconds(5)) }
      server.restart()
      try await UppercaseEcho.client(3)
      try await connection.write(utf8: "anyone?\n")
      await expectError(.connectionReset) { _ = try await connection.read(until: .lf) }
    }
  }

  @Test func `What a crashed host had begun never goes on, and whoever waits for it hears of the crash`() async throws {
    try await within("the simulation is over") {
      let log = Locked<[String]>([])
      let simulation = Simulation()
      try await simulation.run {
        let host = simulation.host("host")
        let waiter = Task {
          try await host.run {
            defer { log.withLock { $0.append("cleaned up") } }
            log.withLock { $0.append("began") }
            try? await Task.sleep(for: .seconds(10))
            log.withLock { $0.append("went on") }
          }
        }
        try await simulation.clock.sleep(for: .seconds(5))
        host.crash()
        let error = await #expect(throws: SimulationError.self) { try await waiter.value }
        #expect(error?.code == .crashed)
        let later = await #expect(throws: SimulationError.self) { try await host.run {} }
        #expect(later?.code == .crashed)
        try await simulation.clock.sleep(for: .seconds(10))
      }
      #expect(log.withLock { $0 } == ["began"])
    }
  }

  @Test func `A paused host answers when it continues`() async throws {
    let simulation = try await simulated { simulation in
      let server = simulation.echoHost()
      let connection = try await TCPConnection.connect(to: .host("server", port: 80))
      server.pause()
      try await connection.write(utf8: "slow\n")
      await expectError(.timedOut) { _ = try await connection.read(until: .lf, timeout: .seconds(30)) }
      server.resume()
      #expect(try await connection.read(until: .lf) == Array("SLOW\n".utf8))
    }
    #expect(simulation.clock.now.elapsed < .seconds(31))
  }

  @Test func `A host that crashed while it was paused runs again`() async throws {
    try await simulated { simulation in
      let server = simulation.echoHost()
      try await UppercaseEcho.client(1)
      server.pause()
      let waiter = Task { try await server.run {} }
      try await simulation.clock.sleep(for: .seconds(1))
      server.crash()
      let error = await #expect(throws: SimulationError.self) { try await waiter.value }
      #expect(error?.code == .crashed)
      server.resume()
      #expect(server.isDown)
      server.restart()
      try await UppercaseEcho.client(1)
    }
  }

  @Test(arguments: [SimulatedHost.Crash.power, .process])
  func `A program that runs again after a crash gets its port, whatever its connections did`(
    crash: SimulatedHost.Crash
  ) async throws {
    try await simulated { simulation in
      let server = simulation.echoHost()
      for _ in 0..<5 {
        let open = try await TCPConnection.connect(to: .host("server", port: 80))
        let halfClosed = try await TCPConnection.connect(to: .host("server", port: 80))
        try await halfClosed.finishWriting()
        let used = try await TCPConnection.connect(to: .host("server", port: 80))
        try await used.write(utf8: "one\n")
        server.crash(crash)
        server.restart()
        try await UppercaseEcho.client(2)
        withExtendedLifetime((open, halfClosed, used)) {}
      }
    }
  }

  @Test func `The error of a host's program ends the simulation`() async throws {
    struct Broken: Error {}
    try await within("the simulation is over") {
      await #expect(throws: Broken.self) {
        let simulation = Simulation()
        try await simulation.run {
          simulation.host("server").start { throw Broken() }
          try await simulation.clock.sleep(for: .seconds(1_000))
        }
      }
    }
  }

  @Sendable static func connect(within timeout: Timeout?) async throws {
    _ = try await TCPConnection.connect(to: .host("server", port: 80), timeout: timeout)
  }

  // MARK: Links

  @Test func `A stream survives lost packets, and keeps to the bandwidth`() async throws {
    let simulation = try await simulated(Simulation(seed: 3)) { simulation in
      simulation.defaultLink = NetworkLink(latency: .fixed(.milliseconds(10)), bandwidth: 8_000_000, loss: 0.02)
      let (client, server) = try await simulation.pair()
      let bytes = pattern(1_000_000)
      let writing = Task {
        try await client.write(bytes)
        await client.close()
      }
      let received = try await server.readToEnd()
      #expect(received == bytes)
      try await writing.value
    }
    // A megabyte takes a second on 8 Mbit/s.
    #expect(simulation.clock.now.elapsed > .seconds(1))
  }

  @Test func `A partition holds bytes up until it is repaired, and loses none`() async throws {
    try await simulated { simulation in
      let (server, client) = (simulation.host("server"), simulation.host("client"))
      server.start(UppercaseEcho.server)
      try await client.run {
        let connection = try await TCPConnection.connect(to: .host("server", port: 80))
        simulation.partition([server], from: [client])
        try await connection.write(utf8: "one\ntwo\n")
        await expectError(.timedOut) { _ = try await connection.read(until: .lf, timeout: .seconds(20)) }
        simulation.repair([server], and: [client])
        #expect(try await connection.read(until: .lf) == Array("ONE\n".utf8))
        #expect(try await connection.read(until: .lf) == Array("TWO\n".utf8))
      }
    }
  }

  @Test func `A write to a host that has vanished fails after the time that the kernel waits`() async throws {
    try await simulated { simulation in
      simulation.host("server").start(UppercaseEcho.server)
      var configuration = TCPConnection.Configuration()
      configuration.liveness = .init(keepAlive: nil, unacknowledgedTimeout: .seconds(7))
      let connection = try await TCPConnection.connect(to: .host("server", port: 80), configuration: configuration)
      simulation.host("server").crash()
      let start = simulation.clock.now
      try await connection.write(utf8: "gone\n")
      await expectError(.timedOut) { _ = try await connection.read(until: .lf) }
      let waited = start.duration(to: simulation.clock.now)
      #expect(waited >= .seconds(7) && waited < .seconds(8), "\(waited)")
    }
  }

  // MARK: Limits

  @Test func `A host runs out of descriptors and ports`() async throws {
    try await simulated { simulation in
      simulation.host("server").start(UppercaseEcho.server)
      let client = simulation.host("client")
      for (descriptors, ports, code) in [
        (8, 1_000...1_100, SocketError.Code.tooManyOpenFiles), (1_000, 1_000...1_004, .addressNotAvailable),
      ] as [(Int, ClosedRange<UInt16>, SocketError.Code)] {
        client.setLimits(descriptors: descriptors, ports: ports)
        try await client.run {
          var connections: [TCPConnection] = []
          let error = await expectError(code) {
            while connections.count < 20 { connections.append(try await UppercaseEcho.connected()) }
          }
          #expect(connections.count == 5, "\(error)")
          for connection in connections { await connection.abort() }
        }
      }
    }
  }

  @Test func `A host has short backlogs, and a client beyond them has no answer`() async throws {
    try await simulated { simulation in
      let server = simulation.host("server")
      server.setLimits(backlog: 1)
      // It accepts nothing.
      let listener = try await server.run { try TCPListener.bind(to: .port(80)) }
      var connections: [TCPConnection] = []
      let error = await expectError(.timedOut) {
        while connections.count < 5 { connections.append(try await UppercaseEcho.connected()) }
      }
      #expect(connections.count == 2, "\(error)")
      for connection in connections { await connection.abort() }
      await listener.close()
    }
  }

  @Test func `A host whose only port is 0 has port 1`() async throws {
    try await simulated { simulation in
      let host = simulation.host("host")
      host.setLimits(ports: 0...0)
      let port = try await host.run { try TCPListener.bind(to: .port(0)).localAddresses.first?.port }
      #expect(port == 1)
    }
  }
}
