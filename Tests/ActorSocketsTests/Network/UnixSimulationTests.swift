import ActorSockets
import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite struct UnixSimulationTests {
  private static let path = "/run/actorsockets-simulated/server.sock"

  @Test(arguments: [path, "@server"], [Simulation.Order.fifo, Simulation.Order.random])
  func `Programs of one host talk through a unix socket, in no time and without a file on the disk`(
    path: String, order: Simulation.Order
  ) async throws {
    try await simulated(Simulation(order: order)) { simulation in
      let host = simulation.host("host")
      host.start { try await UppercaseEcho.serve(.unix(path: path)) }
      try await host.run {
        try await withThrowingTaskGroup(of: Void.self) { group in
          for _ in 0..<10 { group.addTask { try await UppercaseEcho.client(5, to: .unix(path: path)) } }
          try await group.waitForAll()
        }
      }
    }
    #expect(FileFacts(path) == nil)
  }

  @Test func `Two hosts have files of their own`() async throws {
    try await simulated { simulation in
      simulation.host("server").start { try await UppercaseEcho.serve(.unix(path: Self.path)) }
      try await simulation.host("server").run { try await UppercaseEcho.client(5, to: .unix(path: Self.path)) }
      try await simulation.host("other").run {
        await expectError(.pathNotFound) { try await UppercaseEcho.client(5, to: .unix(path: Self.path)) }
        let listener = try TCPListener.bind(to: .unix(path: Self.path))
        await listener.close()
      }
    }
  }

  @Test(arguments: [SimulatedHost.Crash.process, .power])
  func `A file that a crash has left behind is stale, and the next server replaces it`(crash: SimulatedHost.Crash)
    async throws
  {
    try await simulated { simulation in
      let host = simulation.host("host")
      try await host.run {
        let listener = try TCPListener.bind(to: .unix(path: Self.path))
        await expectError(.addressInUse) { _ = try TCPListener.bind(to: .unix(path: Self.path)) }
        withExtendedLifetime(listener) {}
      }
      host.start { try await UppercaseEcho.serve(.unix(path: Self.path + "2")) }
      try await host.run { try await UppercaseEcho.client(5, to: .unix(path: Self.path + "2")) }
      host.crash(crash)
      host.restart()
      try await host.run {
        try await UppercaseEcho.client(5, to: .unix(path: Self.path + "2"))
      }
    }
  }

  @Test func `A listener removes its file, and a stale one refuses until then`() async throws {
    try await simulated { simulation in
      let host = simulation.host("host")
      host.start { try await UppercaseEcho.serve(.unix(path: Self.path)) }
      try await host.run { try await TCPConnection.connect(to: .unix(path: Self.path)).close() }
      host.start {}
      host.crash(.process)
      host.restart()
      try await host.run {
        await expectError(.connectionRefused) { try await UppercaseEcho.client(5, to: .unix(path: Self.path)) }
        await (try TCPListener.bind(to: .unix(path: Self.path))).close()
        await expectError(.pathNotFound) { try await UppercaseEcho.client(5, to: .unix(path: Self.path)) }
      }
    }
  }

  @Test func `A fault of connect does not let a listener or an endpoint take the path of a live server`() async throws {
    try await simulated { simulation in
      let host = simulation.host("host")
      host.start { try await UppercaseEcho.serve(.unix(path: Self.path)) }
      try await host.run {
        try await UppercaseEcho.client(5, to: .unix(path: Self.path))
        let refusal = CallFault.ErrorNumber(rawValue: Errno.connectionRefused)
        host.setFaults([.fail(.connect, with: refusal, probability: 1)])
        await expectError(.addressInUse) { _ = try TCPListener.bind(to: .unix(path: Self.path)) }
        await expectError(.addressInUse) { _ = try UDPEndpoint.bind(to: .unix(path: Self.path)) }
        host.setFaults([])
        try await UppercaseEcho.client(5, to: .unix(path: Self.path))
      }
    }
  }

  @Test func `A listener knows whether connections wait, though not how many`() async throws {
    try await simulated { _ in
      var configuration = TCPListener.Configuration()
      configuration.backlog = 5
      let listener = try TCPListener.bind(to: .unix(path: Self.path), configuration: configuration)
      #expect(await listener.waitingConnections() == [0])
      let client = try await TCPConnection.connect(to: .unix(path: Self.path))
      #expect(await listener.waitingConnections() == [6])
      let server = try await listener.accept()
      #expect(await listener.waitingConnections() == [0])
      await server.close()
      await client.close()
      await listener.close()
    }
  }

  @Test func `A full backlog is waited for`() async throws {
    try await simulated(Simulation(order: .random)) { simulation in
      var configuration = TCPListener.Configuration()
      configuration.backlog = 1
      let listener = try TCPListener.bind(to: .unix(path: Self.path), configuration: configuration)
      async let all: Void = withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<8 {
          group.addTask { await (try TCPConnection.connect(to: .unix(path: Self.path))).close() }
        }
        try await group.waitForAll()
      }
      for _ in 0..<8 {
        try await simulation.clock.sleep(for: .milliseconds(100))
        await (try listener.accept()).close()
      }
      try await all
    }
  }

  @Test func `Many bytes go through a unix socket whose buffer holds few of them`() async throws {
    try await simulated(Simulation(order: .random)) { simulation in
      simulation.host("main").setFaults([
        .shortReads(probability: 0.3), .shortWrites(probability: 0.3), .spuriousReadiness(probability: 0.2),
      ])
      let listener = try TCPListener.bind(to: .unix(path: Self.path))
      let client = try await TCPConnection.connect(to: .unix(path: Self.path))
      let server = try await listener.accept()
      #expect(try await client.peerCredentials() == server.peerCredentials())
      let bytes = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
      async let sent: Void = client.write(bytes)
      #expect(try await server.read(exactly: bytes.count) == bytes)
      try await sent
      await client.close()
      #expect(try await server.read(upTo: 1) == nil)
    }
  }

  @Test func `Endpoints send datagrams through unix sockets, and one that does not read slows its senders`()
    async throws
  {
    try await simulated(Simulation(order: .random)) { simulation in
      var configuration = UDPEndpoint.Configuration()
      configuration.metadata = [.peerCredentials]
      let server = try UDPEndpoint.bind(to: .unix(path: Self.path), configuration: configuration)
      let client = try await UDPEndpoint.connect(to: .unix(path: Self.path))
      async let sent: Void = { for number in 0..<100 { try await client.send([UInt8(number)]) } }()
      try await simulation.clock.sleep(for: .seconds(1))
      for number in 0..<100 {
        let datagram = try await server.receive()
        try #require(datagram.bytes == [UInt8(number)])
        try #require(datagram.remoteAddress == client.localAddress)
        try #require(datagram.peerCredentials?.userID == 1_000)
      }
      try await sent
      await server.close()
      await expectError(.connectionRefused) { try await client.send([1]) }
    }
  }

  private struct Weak {
    weak var socket: SimulatedSocket?
  }

  @Test(arguments: [true, false])
  func `Sockets that know each other are freed with their network, and when they are closed`(areClosed: Bool) throws {
    var sockets: [Weak] = []
    do {
      let network = SimulatedNetwork(now: 0, seed: 1)
      let host = network.addHost("host")
      let kernel = try #require(network.kernel(of: host))
      try CurrentSystem.using(SystemHolder(network)) {
        let names = try ["@one", "@two"].map { try SocketAddress.unix(UnixPath(parsing: $0)) }
        var numbers: [Int32] = []
        for name in names {
          numbers.append(try OwnedDescriptor.datagramSocket(family: SocketKind.unix).release())
          try BorrowedDescriptor(numbers[numbers.count - 1]).bind(to: name)
        }
        for (number, name) in zip(numbers, names.reversed()) {
          _ = try BorrowedDescriptor(number).connect(to: name)
          _ = BorrowedDescriptor(number).send([1].span)
        }
        for _ in 0..<4 { numbers.append(try OwnedDescriptor.streamSocket(family: SocketKind.unix).release()) }
        try BorrowedDescriptor(numbers[2]).bind(to: names[0])
        try BorrowedDescriptor(numbers[2]).listen(backlog: 3)
        for number in numbers[3...] {
          _ = try BorrowedDescriptor(number).connect(to: names[0])
          _ = BorrowedDescriptor(number).send([1].span)
        }
        if let accepted = try BorrowedDescriptor(numbers[2]).accept() { numbers.append(accepted.take().release()) }
        for case .socket(let socket)? in kernel.files { sockets.append(Weak(socket: socket)) }
        if areClosed {
          for number in numbers { _ = OwnedDescriptor(owning: number) }
          #expect(sockets.allSatisfy { $0.socket == nil } && kernel.abstractNames.isEmpty)
        }
      }
    }
    #expect(sockets.count == 7 && sockets.allSatisfy { $0.socket == nil })
  }
}
