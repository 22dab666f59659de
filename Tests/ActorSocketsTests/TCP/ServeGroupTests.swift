import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

extension StreamListener {
  /// So that it can be called for any listener.
  nonisolated func served(
    _ handler: @escaping @concurrent @Sendable (any ByteStream) async throws -> Void
  ) -> ServedListener {
    ServedListener(self) { try await handler($0) }
  }
}

/// Several listeners that are served as one server.
@Suite(.endsInTime) struct ServeGroupTests {
  /// Listeners on a reactor with manual time. Each handler notes the number of its listener, and answers a line.
  fileprivate struct Scene {
    let time = ManualTime()
    let listeners: [any StreamListener]
    let serving: Task<ServeReport, any Error>
    let begun = Notes<Int>()

    init(_ kinds: [ListenerKind], _ limits: ServeLimits = .init(), reactors: Int = 1) throws {
      listeners = try kinds.map { [time] in try $0.listener(on: time.reactor) }
      let served = listeners.enumerated().map { [begun] number, listener in
        listener.served { connection in
          begun.add(number)
          for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
        }
      }
      let options = ServeOptions(limits: limits, drain: .within(.seconds(100)), reactors: reactors)
      serving = Task { try await served.serve(options) }
    }

    func client(of number: Int) async throws -> Client {
      let count = begun.all.count
      let client = try await listeners[number].client()
      try await eventually("its handler runs") { begun.all.count > count }
      return client
    }
  }

  private static let kinds: [[ListenerKind]] = [[.tcp, .tcp], [.inMemory, .inMemory], [.tcp, .inMemory, .tcp]]

  @Test(arguments: kinds)
  func `Each listener is served, and the report is one`(kinds: [ListenerKind]) async throws {
    let scene = try Scene(kinds)
    var clients: [Client] = []
    for number in kinds.indices {
      clients.append(try await scene.client(of: number))
      try await clients[number].expectEcho()
    }
    #expect(scene.begun.all == Array(kinds.indices))
    for client in clients { await client.close() }
    let report = try await scene.serving.stop()
    #expect(report.accepted == kinds.count && report.finished == kinds.count)
    for listener in scene.listeners { await #expect(throws: (any Error).self) { try await listener.client() } }
  }

  @Test(arguments: kinds)
  func `The limit is one of all listeners, and they accept in turn`(kinds: [ListenerKind]) async throws {
    let scene = try Scene(kinds, ServeLimits(connections: 1))
    var served = try await scene.client(of: 0)
    // Many wait at the first one before others come.
    var waiting: [[Client]] = []
    for (number, listener) in scene.listeners.enumerated() {
      waiting.append(try await listener.clients(number == 0 ? 5 : 2))
    }
    // The first one has all that the limit allows, so it does not ask for more.
    try await eventually("the other listeners wait for room") { await scene.othersWait }
    for turn in 0..<(5 + 2 * (kinds.count - 1)) {
      #expect(scene.begun.all.count == turn + 1)
      await served.close()
      try await eventually("the next handler runs") { scene.begun.all.count == turn + 2 }
      served = waiting[scene.begun.all[turn + 1]].removeFirst()
      try await served.expectEcho()
    }
    // In the first turns, every listener had waiting connections.
    #expect(Set(scene.begun.all.dropFirst().prefix(kinds.count)).count == kinds.count, "\(scene.begun.all)")
    await served.close()
    let report = try await scene.serving.stop()
    #expect(report.accepted == scene.begun.all.count && report.finished == report.accepted)
  }

  @Test(arguments: kinds)
  func `Connections of one peer count at all listeners together`(kinds: [ListenerKind]) async throws {
    let scene = try Scene(kinds, ServeLimits(connectionsPerPeer: 2))
    let first = try await scene.client(of: 0)
    let second = try await scene.client(of: 1)
    let refused = try await scene.listeners[1].client()
    await refused.expectReset()
    await first.close()
    try await second.expectEcho()
    await second.close()
    let report = try await scene.serving.stop()
    #expect(report.accepted == 2 && report.refused == 1)
  }

  @Test(arguments: kinds)
  func `A drain serves what waits at each listener`(kinds: [ListenerKind]) async throws {
    let scene = try Scene(kinds, ServeLimits(connections: 1))
    let served = try await scene.client(of: 0)
    var waiting: [Client] = []
    for listener in scene.listeners { waiting += try await listener.clients(3) }
    scene.serving.cancel()
    for listener in scene.listeners { await expectError(.closed) { _ = try await listener.accept() } }
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      for client in [served] + waiting {
        tasks.addTask {
          try await client.expectEcho()
          await client.close()
        }
      }
      try await tasks.waitForAll()
    }
    let report = try await scene.serving.value
    #expect(report.accepted == waiting.count + 1 && report.finished == report.accepted)
  }

  @Test func `A listener that is drained by itself stops, and the others go on`() async throws {
    let scene = try Scene([.tcp, .tcp])
    let client = try await scene.client(of: 1)
    await scene.listeners[0].drain(within: .seconds(1))
    try await eventually("it is closed") { (try? await scene.listeners[0].accept(timeout: .zero)) == nil }
    try await client.expectEcho()
    await client.close()
    #expect(try await scene.serving.stop().finished == 1)
  }

  @Test func `When a listener breaks, the others are drained`() async throws {
    let scene = try Scene([.tcp, .inMemory])
    let client = try await scene.client(of: 1)
    await scene.listeners[0].close()
    try await eventually("the other one drains") {
      do { _ = try await scene.listeners[1].accept(timeout: .zero) } catch let error as SocketError {
        return error.code == .closed
      }
      return false
    }
    await client.close()
    await expectError(.closed) { _ = try await scene.serving.value }
  }

  @Test func `A call of accept beside the server takes no place of the group`() async throws {
    let scene = try Scene([.tcp, .tcp], ServeLimits(connections: 1))
    let served = try await scene.client(of: 0)
    let accepting = Task.immediate { try await scene.listeners[0].accept() }
    try await eventually("the call waits") { await scene.callsThatWait(at: 0) == 1 }
    let mine = try await scene.listeners[0].client()
    // It is not held up by the limit, which is that of the server.
    let connection = try await accepting.value
    await served.close()
    let other = try await scene.client(of: 1)
    try await other.expectEcho()
    await other.close()
    await connection.abort()
    await mine.close()
    #expect(try await scene.serving.stop().finished == 2)
  }

  @Test func `Connections of one peer that arrive at once count at all listeners together`() async throws {
    for _ in 0..<20 {
      let scene = try Scene([.tcp, .tcp, .tcp], ServeLimits(connectionsPerPeer: 1))
      for number in 0..<3 {
        try await eventually("the server waits for connections") { await scene.callsThatWait(at: number) == 1 }
      }
      let clients = try await scene.time.reactor.whileBlocked {
        try scene.listeners.map { try RawSocket.connected(to: $0.address) }
      }
      try await eventually("one is served") { scene.begun.all.count == 1 }
      for client in clients { client.close() }
      let report = try await scene.serving.stop()
      #expect(report.accepted == 1 && report.refused == 2)
    }
  }

  @Test func `Reactors are shared by all listeners`() async throws {
    let scene = try Scene([.tcp, .tcp], reactors: 3)
    var clients: [Client] = []
    for number in 0..<6 { clients.append(try await scene.client(of: number % 2)) }
    for client in clients {
      try await client.expectEcho()
      await client.close()
    }
    #expect(try await scene.serving.stop().finished == 6)
  }

  @Test func `Lists that cannot be served are refused`() async throws {
    let listener = try TCPListener.onLoopback()
    let other = try TCPListener.onLoopback(on: ManualTime().reactor)
    await expectError(.invalidArgument) { try await [ServedListener]().serve() }
    await expectError(.invalidArgument) { try await [listener, listener].serve { _ in } }
    await expectError(.invalidArgument) { try await [listener, other].serve { _ in } }
    await expectError(.invalidArgument) { try await [listener].serve(.init(reactors: 0)) { _ in } }
    let serving = Task {
      try await [listener].serve { (connection: isolated TCPConnection) in _ = try await connection.read() }
    }
    try await eventually("it is served") {
      do { try await listener.serve(.init(reactors: 300)) { _ in } } catch let error as SocketError {
        return error.description.contains("served already")
      }
      return false
    }
    await expectError(.invalidArgument) { try await [listener].serve { _ in } }
    #expect(try await serving.stop() == ServeReport())
  }
}

extension ServeGroupTests.Scene {
  /// Whether all listeners but the first one wait for room.
  fileprivate var othersWait: Bool {
    get async {
      for listener in listeners.dropFirst() {
        guard let listener = listener as? any ServingListener else { return false }
        if await !listener.waitsForRoom { return false }
      }
      return true
    }
  }
}

extension ServeGroupTests.Scene {
  fileprivate func callsThatWait(at number: Int) async -> Int {
    guard let listener = listeners[number] as? any ServingListener else { return 0 }
    return await listener.callsThatWait
  }
}

extension ServingListener {
  fileprivate var waitsForRoom: Bool { group?.isWaiting(self) ?? false }
  fileprivate var callsThatWait: Int { waiters.isEmpty ? 0 : 1 }
}
