import ActorSockets
import ActorSocketsLifecycle
import ExampleSupport
import Logging
import ServiceLifecycle
import Synchronization
import Testing

@Suite struct LifecycleTests {
  private let quiet = Logger(label: "services") { _ in SwiftLogNoOpLogHandler() }

  /// A server of lines that answers `slow` only when its gate is open, and a group that runs it.
  private final class Server: Sendable {
    let listener: TCPListener
    let isAsked = Gate()
    let mayAnswer = Gate()
    let report = Mutex<ServeReport?>(nil)

    init() throws { listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)), reactor: Reactor()) }

    func service(drainTime: Duration = .seconds(60)) -> ListenerService<TCPListener> {
      ListenerService(
        listener, drainTime: drainTime, onFailure: { _ in },
        ended: { report in self.report.withLock { $0 = report } }
      ) { connection in
        for try await line in connection.lines {
          if line == "slow" {
            self.isAsked.open()
            await self.mayAnswer.wait()
            try Task.checkCancellation()
          }
          try await connection.write(utf8: "you said \(line)\n")
        }
      }
    }

    func connect() async throws -> TCPConnection {
      try await TCPConnection.connect(to: .address(listener.localAddresses[0]))
    }

    /// Connects twice: returns a connection that has had an answer and waits, and one whose request is under way.
    func connectIdleAndBusy() async throws -> (idle: TCPConnection, busy: TCPConnection) {
      let idle = try await connect()
      try await idle.write(utf8: "quick\n")
      #expect(try await idle.read(.line()) == "you said quick")
      let busy = try await connect()
      try await busy.write(utf8: "slow\n")
      await isAsked.wait()
      return (idle, busy)
    }
  }

  @Test func `Graceful shutdown finishes the request that is under way, and ends the idle connection cleanly`()
    async throws
  {
    let quiet = quiet
    try await within("the group has shut down") {
      let server = try Server()
      let group = ServiceGroup(services: [server.service()], logger: quiet)
      let running = Task { try await group.run() }
      let (idle, busy) = try await server.connectIdleAndBusy()
      await group.triggerGracefulShutdown()
      #expect(try await idle.read() == nil, "the idle connection ends without an error")
      server.mayAnswer.open()
      #expect(try await busy.read(.line()) == "you said slow")
      #expect(try await busy.read() == nil)
      try await running.value
      var expected = ServeReport()
      (expected.accepted, expected.finished) = (2, 2)
      #expect(server.report.withLock { $0 } == expected)
    }
  }

  @Test func `Several listeners drain at the same time`() async throws {
    let quiet = quiet
    try await within("the group has shut down") {
      let servers = [try Server(), try Server(), try Server()]
      let together = ConcurrentServices(servers.map { $0.service() })
      let group = ServiceGroup(services: [together], logger: quiet)
      let running = Task { try await group.run() }
      var connections: [(idle: TCPConnection, busy: TCPConnection)] = []
      for server in servers { connections.append(try await server.connectIdleAndBusy()) }
      await group.triggerGracefulShutdown()
      // No drain is over, because each has a request under way.
      for (idle, _) in connections { #expect(try await idle.read() == nil) }
      for server in servers { server.mayAnswer.open() }
      for (_, busy) in connections { #expect(try await busy.read(.line()) == "you said slow") }
      try await running.value
      for server in servers { #expect(server.report.withLock { $0 }?.finished == 2) }
    }
  }

  @Test func `Cancellation aborts what is under way`() async throws {
    let quiet = quiet
    try await within("the group has ended") {
      let server = try Server()
      let group = ServiceGroup(services: [server.service()], logger: quiet)
      let running = Task { try await group.run() }
      let (idle, busy) = try await server.connectIdleAndBusy()
      running.cancel()
      for connection in [idle, busy] {
        let error = await #expect(throws: SocketError.self) { try await connection.read() }
        #expect(error?.code == .connectionReset)
      }
      _ = await running.result
      #expect(server.report.withLock { $0?.aborted } == 2)
    }
  }

  @Test func `The group's limit of time cuts the drain short`() async throws {
    let quiet = quiet
    try await within("the group has shut down") {
      let server = try Server()
      var configuration = ServiceGroupConfiguration(services: [server.service()], logger: quiet)
      configuration.maximumGracefulShutdownDuration = .milliseconds(20)
      let group = ServiceGroup(configuration: configuration)
      let running = Task { try await group.run() }
      let (_, busy) = try await server.connectIdleAndBusy()
      await group.triggerGracefulShutdown()
      let error = await #expect(throws: SocketError.self) { try await busy.read() }
      #expect(error?.code == .connectionReset)
      _ = await running.result
      // The idle connection may have ended in time.
      #expect((1...2).contains(server.report.withLock { $0?.aborted ?? 0 }))
    }
  }

  @Test func `The time of the drain limits the shutdown`() async throws {
    let quiet = quiet
    try await within("the group has shut down") {
      let server = try Server()
      let group = ServiceGroup(services: [server.service(drainTime: .milliseconds(20))], logger: quiet)
      let running = Task { try await group.run() }
      let (_, busy) = try await server.connectIdleAndBusy()
      await group.triggerGracefulShutdown()
      let error = await #expect(throws: SocketError.self) { try await busy.read() }
      #expect(error?.code == .connectionReset)
      try await running.value
      #expect((1...2).contains(server.report.withLock { $0?.aborted ?? 0 }))
    }
  }

  @Test func `A shutdown before the start serves no connection`() async throws {
    let quiet = quiet
    try await within("the group has shut down") {
      let server = try Server()
      let group = ServiceGroup(services: [server.service()], logger: quiet)
      await group.triggerGracefulShutdown()
      try await group.run()
      #expect(server.report.withLock { $0 }?.accepted == 0)
    }
  }

  @Test func `A listener that is closed ends its group with the error`() async throws {
    let quiet = quiet
    try await within("the group has ended") {
      let server = try Server()
      await server.listener.close()
      let group = ServiceGroup(services: [server.service()], logger: quiet)
      let error = await #expect(throws: SocketError.self) { try await group.run() }
      #expect(error?.code == .closed)
    }
  }
}
