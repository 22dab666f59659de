import ActorSockets
import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

/// What happens to connections that wait to be accepted when a server at its limit begins to drain.
@Suite struct DrainTests {
  /// A server that serves one connection at a time and answers one line. Its first client is being served.
  private struct Scene {
    let time = ManualTime()
    let listener: any StreamListener
    let serving: Task<ServeReport, any Error>
    let served: Client

    init(_ kind: ListenerKind) async throws { try await self.init { try kind.listener(on: $0) } }

    init(on endpoint: Endpoint) async throws {
      try await self.init { try TCPListener.bind(to: endpoint, reactor: $0) }
    }

    private init(_ make: (Reactor) throws -> any StreamListener) async throws {
      let listener = try make(time.reactor)
      self.listener = listener
      let isServed = Gate()
      serving = Task {
        try await listener.serveAny(limits: ServeLimits(connections: 1), drain: .within(.seconds(100))) {
          connection in
          isServed.open()
          let line = try await connection.read(until: .lf)
          #expect(connection.isDraining)
          try await connection.write(line)
        }
      }
      served = try await listener.client()
      await isServed.wait()
    }

    /// Makes connections, which wait to be accepted.
    func connect(_ count: Int) async throws -> [Client] { try await listener.clients(count) }

    /// Makes connections to one of several sockets, which wait in the kernel.
    func connect(_ count: Int, to index: Int) throws -> [Client] {
      try (0..<count).map { _ in .socket(try RawSocket.connected(to: listener.localAddresses[index])) }
    }

    /// Begins the drain, and waits until the listener has done so.
    func beginDraining() async {
      serving.cancel()
      // This call runs after the calls that the cancellation submitted.
      await expectError(.closed) { _ = try await listener.accept() }
    }

    func echo(_ client: Client) async throws {
      try await client.send("hello\n")
      #expect(try await client.receive(exactly: 6) == Array("hello\n".utf8))
      await client.close()
    }
  }

  @Test(arguments: ListenerKind.allCases)
  func `Connections that wait when a drain begins are served as places become free`(kind: ListenerKind) async throws {
    try await within("all are served") {
      let scene = try await Scene(kind)
      let waiting = try await scene.connect(20)
      await scene.beginDraining()
      for client in [scene.served] + waiting { try await scene.echo(client) }
      let report = try await scene.serving.value
      #expect(report.accepted == 21 && report.finished == 21 && report.refused == 0)
      await #expect(throws: (any Error).self) { try await scene.connect(1) }
    }
  }

  @Test(arguments: ListenerKind.allCases)
  func `Connections that come while a server drains are not served`(kind: ListenerKind) async throws {
    try await within("the drain ends") {
      let scene = try await Scene(kind)
      let waiting = try await scene.connect(3)
      await scene.beginDraining()
      // The backlog takes connections until the listener is closed.
      let late = try await scene.connect(5)
      for client in [scene.served] + waiting { try await scene.echo(client) }
      let report = try await scene.serving.value
      #expect(report.accepted == 4 && report.finished == 4)
      for client in late { await client.expectReset() }
    }
  }

  @Test func `A drain counts the connections that wait separately for each address`() async throws {
    try await within("the drain ends") {
      let scene = try await Scene(on: .host("localhost", port: 0))
      try #require(scene.listener.localAddresses.count == 2)
      let waiting = try scene.connect(4, to: 1)
      await scene.beginDraining()
      let late = try scene.connect(4, to: 0)
      for client in [scene.served] + waiting { try await scene.echo(client) }
      let report = try await scene.serving.value
      #expect(report.accepted == 5 && report.finished == 5)
      for client in late { await client.expectReset() }
    }
  }

  @Test(arguments: ListenerKind.allCases)
  func `Connections that still wait when a drain is over are reset`(kind: ListenerKind) async throws {
    try await within("the drain ends") {
      let scene = try await Scene(kind)
      let waiting = try await scene.connect(3)
      await scene.beginDraining()
      await scene.time.advance(by: .seconds(100))
      let report = try await scene.serving.value
      #expect(report.accepted == 1 && report.aborted == 1)
      for client in [scene.served] + waiting { await client.expectReset() }
      await #expect(throws: (any Error).self) { try await scene.connect(1) }
    }
  }

  @Test(arguments: ListenerKind.allCases)
  func `A server with an empty backlog stops listening as soon as it drains`(kind: ListenerKind) async throws {
    try await within("the drain ends") {
      let scene = try await Scene(kind)
      await scene.beginDraining()
      await #expect(throws: (any Error).self) { try await scene.connect(1) }
      try await scene.echo(scene.served)
      #expect(try await scene.serving.value.finished == 1)
    }
  }

  @Test func `Connections that wait for a unix listener when a drain begins are served`() async throws {
    try await within("all are served") {
      let folder = try SocketFolder()
      let scene = try await Scene(on: .unix(path: folder("socket")))
      let waiting = try scene.connect(20, to: 0)
      await scene.beginDraining()
      for client in [scene.served] + waiting { try await scene.echo(client) }
      let report = try await scene.serving.value
      #expect(report.accepted == 21 && report.finished == 21)
      #expect(throws: SystemError.self) { try scene.connect(1, to: 0) }
    }
  }
}
