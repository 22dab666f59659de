import ActorSocketsTesting
import EpollReactor
import Foundation
import TestSupport
import Testing

@testable import ActorSockets
@testable import SocketSystem

/// Only the main thread takes signals. It may still be in the handler of an earlier one, and ends the process after that.
private func killItself() async throws {
  kill(getpid(), SIGTERM)
  try await eventually("the signal ends the process") { false }
}

/// Servers that stop on signals. Each test is a process of its own, because the handling of a signal is one of all tests.
@Suite struct StopOnSignalTests {
  /// A server on manual time, whose handlers do not react to a drain.
  private struct Scene {
    let time = ManualTime()
    let listener: TCPListener
    let serving: Task<ServeReport, any Error>
    let client: RawSocket

    init(
      stopOn signals: Set<ProcessSignal> = [.terminate, .interrupt],
      _ handler: @escaping @concurrent @Sendable (TCPConnection) async throws -> Void = { _ = try await $0.read() }
    ) async throws {
      let listener = try TCPListener.onLoopback(on: time.reactor)
      let isServed = Gate()
      serving = Task {
        try await listener.serve(.init(drain: .within(.seconds(100)), stopOn: signals)) { connection in
          isServed.open()
          try await handler(connection)
        }
      }
      self.listener = listener
      client = try RawSocket.connected(to: listener.address)
      await isServed.wait()
    }

    func expectDrain() async throws {
      try await eventually("the server drains") { await listener.server.isDraining }
    }
  }

  @Test func `The first signal begins the drain, and the handling from before is restored at the end`() async {
    await #expect(processExitsWith: .signal(SIGTERM)) {
      try await within("the server ends") {
        let scene = try await Scene()
        #expect(handling(of: SIGTERM) == .handler && handling(of: SIGINT) == .handler)
        kill(getpid(), SIGINT)
        try await scene.expectDrain()
        #expect(handling(of: SIGTERM) == .handler)
        scene.client.close()
        let report = try await scene.serving.value
        #expect(report.finished == 1 && report.aborted == 0)
        #expect(handling(of: SIGTERM) == .default && handling(of: SIGINT) == .default)
        if report.finished == 1 { try await killItself() }
      }
    }
  }

  @Test func `The second signal ends the drain at once`() async {
    await #expect(processExitsWith: .success) {
      try await within("the server ends") {
        let scene = try await Scene()
        kill(getpid(), SIGTERM)
        try await scene.expectDrain()
        kill(getpid(), SIGTERM)
        let report = try await scene.serving.value
        #expect(report.aborted == 1 && report.finished == 0)
        await #expect(throws: SystemError.self) { try await scene.client.receive() }
      }
    }
  }

  @Test func `The first signal begins the drain of an endpoint, and the second one ends it`() async {
    await #expect(processExitsWith: .signal(SIGTERM)) {
      try await within("the server ends") {
        let time = ManualTime()
        let endpoint = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)), reactor: time.reactor)
        let isServed = Gate()
        let options = UDPEndpoint.ServeOptions(drain: .within(.seconds(100)), stopOn: [.terminate, .interrupt])
        let serving = Task {
          try await endpoint.serve(options) { _ in
            isServed.open()
            for await _ in endpoint.errors {}
          }
        }
        try await endpoint.send([1], to: endpoint.localAddresses[0])
        await isServed.wait()
        #expect(handling(of: SIGTERM) == .handler && handling(of: SIGINT) == .handler)
        kill(getpid(), SIGINT)
        try await eventually("the server drains") { await endpoint.serving.server.isDraining }
        #expect(await endpoint.metrics.runningHandlers == 1)
        kill(getpid(), SIGTERM)
        let report = try await serving.value
        #expect(report.received == 1 && report.aborted == 1)
        #expect(handling(of: SIGTERM) == .default && handling(of: SIGINT) == .default)
        if report.aborted == 1 { try await killItself() }
      }
    }
  }

  @Test func `The first signal begins the drain of all listeners of a server, and the second one ends it`() async {
    await #expect(processExitsWith: .signal(SIGTERM)) {
      try await within("the server ends") {
        let time = ManualTime()
        let listeners = try (0..<2).map { _ in try TCPListener.onLoopback(on: time.reactor) }
        let begun = Notes<UInt64>()
        let serving = Task {
          try await listeners.serve(.init(drain: .within(.seconds(100)), stopOn: [.terminate])) { connection in
            begun.add(connection.id)
            _ = try await connection.read()
          }
        }
        let clients = try listeners.map { try RawSocket.connected(to: $0.address) }
        try await eventually("both are served") { begun.all.count == 2 }
        kill(getpid(), SIGTERM)
        for listener in listeners { try await eventually("it drains") { await listener.server.isDraining } }
        clients[0].close()
        kill(getpid(), SIGTERM)
        let report = try await serving.value
        #expect(report.accepted == 2 && report.finished + report.aborted == 2 && report.aborted >= 1)
        #expect(handling(of: SIGTERM) == .default)
        if report.accepted == 2 { try await killItself() }
      }
    }
  }

  @Test func `A third signal ends a process whose handlers do not react`() async {
    await #expect(processExitsWith: .signal(SIGTERM)) {
      try await within("the process ends") {
        let never = Gate()
        let scene = try await Scene { _ in await never.wait() }
        kill(getpid(), SIGTERM)
        // Two signals that come at once are one.
        try await scene.expectDrain()
        kill(getpid(), SIGTERM)
        try await eventually("the default is restored") { handling(of: SIGTERM) == .default }
        #expect(throws: SystemError.self) { try RawSocket.connected(to: scene.listener.address) }
        kill(getpid(), SIGTERM)
        await never.wait()
      }
    }
  }

  /// The kernel ignores signals with the default handling there, so the process has to end itself.
  @Test func `A third signal ends the first process of a container, too`() async {
    await #expect(processExitsWith: .exitCode(128 + SIGTERM)) {
      let hub = SignalHub(isFirstProcess: true)
      let arrivals = Notes<ProcessSignal>()
      let subscription = try hub.subscribe(to: [.terminate, .windowChange], endingAfter: 2) { arrivals.add($0) }
      for number in 1...2 {
        kill(getpid(), SIGTERM)
        // Two signals that come at once are one.
        try await eventually("it has arrived") { arrivals.all.count == number }
      }
      try await eventually("it is not taken over any more") { handling(of: SIGWINCH) == .default }
      // What the default handling ignores stays ignored.
      kill(getpid(), SIGWINCH)
      subscription.cancel()
      kill(getpid(), SIGTERM)
      try await eventually("the process has ended") { false }
    }
  }

  @Test func `A third signal ends a process whose reactors are blocked`() async {
    await #expect(processExitsWith: .signal(SIGTERM)) {
      let listener = try TCPListener.onLoopback()
      let isServed = Gate()
      let serving = Task {
        try await listener.serve(.init(on: .reactor, stopOn: [.terminate, .interrupt])) { _ in
          isServed.open()
          while true {}
        }
      }
      let client = try RawSocket.connected(to: listener.address)
      await isServed.wait()
      for number in 1...3 {
        kill(getpid(), SIGTERM)
        // Two signals that come at once are one.
        try await eventually("it has arrived") { SignalHandler.count(of: SIGTERM) == number }
      }
      try await eventually("the process has ended") { false }
      _ = (serving, client)
    }
  }

  @Test func `All servers that name the signal drain together`() async {
    await #expect(processExitsWith: .success) {
      try await within("the servers end") {
        let scenes = [try await Scene(), try await Scene(stopOn: [.terminate, .hangup]), try await Scene(stopOn: [])]
        kill(getpid(), SIGTERM)
        for scene in scenes.prefix(2) {
          try await scene.expectDrain()
          scene.client.close()
          #expect(try await scene.serving.value.finished == 1)
        }
        try RawSocket.connected(to: scenes[2].listener.address).close()
        scenes[2].serving.cancel()
        scenes[2].client.close()
        #expect(try await scenes[2].serving.value.aborted == 0)
      }
    }
  }

  @Test func `A server that cannot take over signals serves no connection, and can be served later`() async {
    await #expect(processExitsWith: .success) {
      try await within("the server ends") {
        let listener = try TCPListener.onLoopback()
        await expectError(.invalidArgument) { try await listener.serve(.init(limits: .init(connections: 0))) { _ in } }
        // Not without descriptors: each second, Swift's pool opens a file for each of its threads if jobs wait then, and ends the
        // process if it cannot.
        _ = try await Shortage.duringThreadShortage {
          await expectError(.system) { _ = try await listener.serve(.init(stopOn: [.terminate])) { _ in } }
        }
        let serving = Task { try await listener.serve(.init(stopOn: [.terminate])) { _ in } }
        let client = try RawSocket.connected(to: listener.address)
        #expect(try await client.receiveToEnd() == [])
        client.close()
        kill(getpid(), SIGTERM)
        #expect(try await serving.value.finished == 1)
      }
    }
  }

  @Test func `Signals and cancellation may come in any order`() async {
    await #expect(processExitsWith: .success) {
      try await within("the servers end") {
        for signalFirst in [true, false] {
          let scene = try await Scene()
          if signalFirst { kill(getpid(), SIGTERM) } else { scene.serving.cancel() }
          try await scene.expectDrain()
          if signalFirst { scene.serving.cancel() } else { kill(getpid(), SIGTERM) }
          try await eventually("the first signal has come") { await scene.listener.stopSignalsSeen == 1 }
          kill(getpid(), SIGTERM)
          #expect(try await scene.serving.value.aborted == 1)
          #expect(handling(of: SIGTERM) == .default)
        }
      }
    }
  }
}

extension TCPListener {
  fileprivate var stopSignalsSeen: Int? { serveTask?.stop.signalsSeen }
}
