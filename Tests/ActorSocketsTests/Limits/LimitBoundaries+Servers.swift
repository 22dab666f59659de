import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

extension LimitBoundaries {
  private static let queueOfServer =
    "bytes of datagrams that wait in the program for a handler; bytes that each datagram counts in addition"
  private static let failedAccept = "pause after a failed accept"

  static let servers: [LimitBoundary] = [
    .most("connections of `serve`") { count in
      // A host of a simulation has enough descriptors.
      try await inSimulation { _ in
        var server = Server<Int>()
        server.started(ServeLimits(), descriptors: .max)
        for number in 1..<count {
          _ = server.step()
          _ = server.accepted(number, UInt64(number), from: nil)
        }
        if case .accept = server.step() { return true }
        return false
      }
    },
    .most("connections of `serve`", position: 1) { DescriptorReserve(limit: 1_000).connections + $0 <= 1_000 },
    .most("connections that one listener accepts in one iteration of the loop, refused ones included") { count in
      var policy = AcceptPolicy()
      return (0..<count).allSatisfy { _ in policy.takeBudget(of: 1) }
    },
    .most("descriptors that accepting and connecting leave free") { count in
      DescriptorReserve(limit: 1_000).contains(Int32(1_000 - count))
    },
    .most("connections of a server that are closing and only wait for their peers, beside those of the limit") {
      count in
      var lingering = LingeringConnections<Int>()
      for number in 0..<count { lingering.add(UInt64(number), number, at: 0) }
      return lingering.takeOldest(ifMoreThan: LingeringConnections<Int>.most) == nil
    },
    .time("time for the handlers to end, in a drain") {
      try await inSimulation { simulation in
        let scene = try await Draining(simulation) { _ in await waitForCancellation() }
        return try await elapsed { _ = try await scene.end() }
      }
    },
    .time("time for the first byte of a connection, in a drain") {
      try await inSimulation { simulation in
        let ended = Notes<ContinuousClock.Instant>()
        let scene = try await Draining(simulation) { connection in
          for try await _ in connection.lines {}
          ended.add(.now)
        }
        let start = ContinuousClock.now
        _ = try await scene.end()
        return start.duration(to: ended.all.first ?? start)
      }
    },
    .most("handlers of a served endpoint that run at a time") { count in
      var server = DatagramServer()
      server.started(.init())
      var datagram: Datagram?
      for _ in 0..<count {
        server.received(Datagram([]))
        datagram = server.nextToHandle()
      }
      return datagram != nil
    },
    .most(queueOfServer) { bytes in
      var server = DatagramServer()
      server.started(.init(handlers: 1, overflow: .dropNewest))
      server.received(Datagram([]))
      _ = server.nextToHandle()
      server.received(Datagram([UInt8](repeating: 0, count: bytes - DatagramServer.overhead)))
      return server.report.unserved == 0
    },
    .least(queueOfServer, position: 1) { bytes in
      var server = DatagramServer()
      server.started(.init(handlers: 1, overflow: .dropNewest, queueBudget: bytes))
      server.received(Datagram([]))
      _ = server.nextToHandle()
      server.received(Datagram([]))
      return server.report.unserved == 0
    },
    .most("reactors of `serve`", position: 1) { count in
      let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)))
      await listener.close()
      do {
        try await listener.serve(.init(reactors: count)) { _ in }
        return true
      } catch let error as SocketError {
        return error.code != .invalidArgument
      }
    },
    .most("connections in the kernel's backlog, at most `somaxconn`") { count in
      try await inSimulation { simulation in
        let host = simulation.host("far")
        host.setLimits(backlog: 60_000)
        let listener = try await host.run { try TCPListener.bind(to: .port(80)) }
        let target = Endpoint.address(host.addresses[0].socketAddress(port: 80))
        let clients = Notes<TCPConnection>()
        // A kernel lets one connection more wait than it is told.
        for _ in 0...count {
          let isUp = try await isInTime {
            clients.add(try await TCPConnection.connect(to: target, timeout: .within(.seconds(1))))
          }
          if !isUp { return false }
        }
        withExtendedLifetime(listener) {}
        return true
      }
    },
    .most("connections in the backlog of a listener in memory; further calls that connect wait") { count in
      try await inSimulation { _ in
        let listener = InMemoryListener()
        let clients = Notes<InMemoryConnection>()
        return try await isInTime {
          for _ in 0..<count { clients.add(try await listener.connect(timeout: .within(.milliseconds(1)))) }
        }
      }
    },
    .time("time that connecting to a listener in memory waits for room") {
      try await inSimulation { _ in
        var configuration = InMemoryListener.Configuration()
        configuration.backlog = 1
        let listener = InMemoryListener(configuration: configuration)
        let first = try await listener.connect()
        return await elapsed {
          await expectError(.timedOut) { _ = try await listener.connect() }
          withExtendedLifetime(first) {}
        }
      }
    },
    .time(failedAccept) { .nanoseconds(pauses(1)[0]) },
    .time(failedAccept, position: 1) { .nanoseconds(pauses(20)[19]) },
    .most("sockets that systemd passes at the start") { count in
      let variables = ["LISTEN_PID": "7", "LISTEN_FDS": "\(count)"]
      return (try? SocketActivation(processID: 7) { variables[$0] }) != nil
    },
  ]

  static let proxies: [LimitBoundary] = [
    .most("bytes of an HTTP proxy's answer") { count in
      let begin = Array("HTTP/1.1 200 OK\r\nA: ".utf8)
      let end = Array("\r\n\r\n".utf8)
      let answer = begin + [UInt8](repeating: 65, count: count - begin.count - end.count) + end
      var machine = try HTTPConnectPreamble(to: ProxyTarget(.host("a", port: 1)), nil)
      return PreambleDriver.run(&machine, answers: [answer]).error == nil
    },
    .most("interim answers of an HTTP proxy") { count in
      let interim = String(repeating: "HTTP/1.1 102 Processing\r\n\r\n", count: count)
      var machine = try HTTPConnectPreamble(to: ProxyTarget(.host("a", port: 1)), nil)
      return PreambleDriver.run(&machine, answers: [Array((interim + "HTTP/1.1 200 OK\r\n\r\n").utf8)]).error == nil
    },
    .time("time for a PROXY header to arrive") {
      try await inSimulation { simulation in
        let host = simulation.host("far")
        let listener = try await host.run {
          var configuration = TCPListener.Configuration()
          configuration.proxyProtocol = try ProxyProtocol(.required, from: "10.0.0.0/8")
          return try TCPListener.bind(to: .port(80), configuration: configuration)
        }
        let target = Endpoint.address(host.addresses[0].socketAddress(port: 80))
        let client = try await TCPConnection.connect(to: target)
        let connection = try await listener.accept()
        return await elapsed {
          await expectError(.timedOut) { _ = try await connection.read() }
          withExtendedLifetime(client) {}
        }
      }
    },
    .most("bytes of a PROXY header") { count in
      // One field fills the header up: 3 bytes and its value.
      let header = ProxyHeader(fields: [.init(.init(rawValue: 0xe0), [UInt8](repeating: 0, count: count - 16 - 3))])
      let limit = ProxyProtocol(.required, from: []).maximumLength
      return (try? ProxyHeader.beginning(of: header.encoded(), limit: limit)) != nil
    },
    .most("bytes of a PROXY header", position: 2) { count in
      let begin = Array("PROXY UNKNOWN ".utf8)
      let line = begin + [UInt8](repeating: 65, count: count - begin.count - 2) + [13, 10]
      return (try? ProxyHeader.beginning(of: line, limit: 4096)) != nil
    },
    .most("fields of a PROXY header") { count in
      let address = SocketAddress.ipv4(.loopback, port: 1)
      let fields = (0..<count).map { _ in ProxyHeader.Field(.init(rawValue: 0xe0), []) }
      let header = ProxyHeader(source: address, destination: address, fields: fields)
      return (try? ProxyHeader.beginning(of: header.encoded(), limit: 4096)) != nil
    },
  ]

  // MARK: Tools

  /// A simulated server with a connection whose handler runs. Its client sends nothing.
  private struct Draining {
    private let serving: Task<ServeReport, any Error>
    private let client: TCPConnection

    init(
      _ simulation: Simulation, _ handler: @escaping @concurrent @Sendable (TCPConnection) async throws -> Void
    ) async throws {
      let listener = try await simulation.host("far").run { try TCPListener.bind(to: .port(80)) }
      serving = Task {
        try await listener.serve { connection in
          try await connection.write(utf8: "hello\n")
          try await handler(connection)
        }
      }
      client = try await TCPConnection.connect(to: .host("far", port: 80))
      _ = try await client.read(until: .lf)
    }

    func end() async throws -> ServeReport {
      serving.cancel()
      return try await serving.value
    }
  }

  private static func pauses(_ count: Int) -> [Int64] {
    var policy = AcceptPolicy()
    return (0..<count).map { _ in
      if case .backOff(let pause) = policy.failed(errno: Errno.processDescriptors) { pause } else { 0 }
    }
  }
}
