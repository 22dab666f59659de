import ActorSockets
import ActorSocketsTesting
import Glibc
import SocketSystem
import TestSupport
import Testing

/// Descriptors that run out: `CallFault.emfile(after:)`.
@Suite struct DescriptorShortageTests {
  private static let server = UppercaseEcho.server

  @Test func `A server whose descriptors run out serves whom it has, and the others when there are descriptors again`()
    async throws
  {
    try await simulated { simulation in
      let server = simulation.echoHost()
      try await simulation.host("client").run {
        let early = try await UppercaseEcho.connected()
        try await UppercaseEcho.ask(early)
        server.setFaults([.emfile(after: 2)])
        var clients = [early]
        for _ in 0..<4 { clients.append(try await UppercaseEcho.connected()) }
        for client in clients.prefix(3) { try await UppercaseEcho.ask(client) }
        // The kernel has made the connections of the others. They wait in the backlog.
        for client in clients.dropFirst(3) {
          await expectError(.timedOut) { try await UppercaseEcho.ask(client, timeout: .seconds(5)) }
        }
        // A descriptor that is closed does not end the shortage.
        await clients[0].close()
        await expectError(.timedOut) { try await UppercaseEcho.ask(clients[3], timeout: .seconds(5)) }
        server.setFaults([])
        for client in clients.dropFirst(3) {
          // The answers to the questions before.
          _ = try await client.read(until: .lf, timeout: .seconds(5))
          await client.close()
        }
        for client in clients[1...2] { await client.close() }
      }
      try await simulation.host("client").run { try await UppercaseEcho.client(2) }
    }
  }

  @Test func `A client without descriptors gets EMFILE, until faults are set anew`() async throws {
    try await simulated { simulation in
      simulation.host("server").start(Self.server)
      let client = simulation.host("client")
      try await client.run {
        client.setFaults([.emfile(after: 1)])
        let first = try await UppercaseEcho.connected()
        let error = await expectError(.tooManyOpenFiles) { _ = try await UppercaseEcho.connected() }
        #expect(error.errno == EMFILE)
        await first.close()
        await expectError(.tooManyOpenFiles) { _ = try UDPEndpoint.bind(to: .port(0)) }
        client.setFaults([.emfile(after: 1)])
        try await UppercaseEcho.client(1)
        client.setFaults([])
        for _ in 0..<3 { try await UppercaseEcho.client(1) }
      }
    }
  }

  @Test func `A shortage has the outcomes that one of Linux has`() async {
    await #expect(processExitsWith: .success) {
      // A process that may open no more. The body does not suspend meanwhile.
      var limit = rlimit()
      // SAFETY: the calls get a valid struct rlimit.
      #expect(unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
      func set(_ count: UInt) {
        var changed = limit
        changed.rlim_cur = count
        // SAFETY: as above.
        #expect(unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &changed) == 0)
      }
      let linux = try await DescriptorShortageTests.outcomes(
        of: { isShort in set(isShort ? 0 : limit.rlim_cur) }, settling: {})
      let simulation = Simulation()
      let simulated = try await simulation.run {
        let host = simulation.host("host")
        return try await host.run {
          try await DescriptorShortageTests.outcomes(
            of: { isShort in host.setFaults(isShort ? [.emfile(after: 0)] : []) },
            settling: { try await simulation.clock.sleep(for: .seconds(1)) })
        }
      }
      #expect(linux == simulated)
      #expect(linux == ["socket 24", "accept4 24", "connects", "accept4 24", "accepts", "socket"])
    }
  }

  private nonisolated(nonsending) static func outcomes(
    of shortage: (Bool) -> Void, settling: nonisolated(nonsending) () async throws -> Void
  ) async throws -> [String] {
    let listener = try OwnedDescriptor.streamSocket(family: AF_INET)
    try listener.socket.bind(to: .ipv4(.loopback, port: 0))
    try listener.socket.listen(backlog: 5)
    let target = try #require(try listener.socket.localAddress())
    let client = try OwnedDescriptor.streamSocket(family: AF_INET)
    func outcome(_ name: String, _ body: () throws(SystemError) -> Bool) -> String {
      do throws(SystemError) { return try body() ? name : "nothing" } catch { return "\(error.call) \(error.errno)" }
    }
    func makes() throws(SystemError) -> Bool { try OwnedDescriptor.streamSocket(family: AF_INET).number >= 0 }
    func accepts() throws(SystemError) -> Bool {
      if let accepted = try listener.socket.accept() { accepted.descriptor.number >= 0 } else { false }
    }
    shortage(true)
    var outcomes = [outcome("socket", makes)]
    // Linux does not even look at the socket.
    outcomes.append(outcome("accepts", accepts))
    outcomes.append(
      outcome("connects") { () throws(SystemError) in
        _ = try client.socket.connect(to: target)
        return true
      })
    try await settling()
    outcomes.append(outcome("accepts", accepts))
    shortage(false)
    return outcomes + [outcome("accepts", accepts), outcome("socket", makes)]
  }
}
