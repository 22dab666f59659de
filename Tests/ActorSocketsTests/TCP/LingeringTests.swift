import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// Connections that are closing and wait for peers that do not finish. Time stands still, so nothing here ends because it has waited.
@Suite(.endsInTime) struct LingeringTests {
  // MARK: Without sockets

  @Test func `The one that has waited longest is closed first, whichever are gone meanwhile`() {
    for seed in 0..<UInt64(200) {
      var random = SeededRandom(seed: seed)
      var lingering = LingeringConnections<UInt64>()
      var model: [UInt64] = []
      for id in 0..<UInt64(40) {
        lingering.add(id, id, at: Int64(id) * 10)
        model.append(id)
        if Bool.random(using: &random), let gone = model.randomElement(using: &random) {
          let wasHere = lingering.remove(gone)
          #expect(wasHere)
          model.removeAll { $0 == gone }
        }
        let isStranger = !lingering.remove(1_000)
        #expect(isStranger)
        let limit = Int.random(in: 0...10, using: &random)
        while let oldest = lingering.takeOldest(ifMoreThan: limit) {
          #expect(oldest == model.first)
          model.removeFirst()
        }
        #expect(model.count <= limit && lingering.count == model.count && lingering.all == model.sorted())
        #expect(lingering.oldest?.connection == model.first)
        #expect(lingering.oldest?.since == model.first.map { Int64($0) * 10 })
      }
    }
  }

  // MARK: Servers

  /// A server whose handlers send a line and return. Its clients do not close.
  private struct Scene {
    let time = ManualTime()
    let listener: TCPListener
    let serving: Task<ServeReport, any Error>

    init(connections: Int, reactors: Int = 1) throws {
      let listener = try TCPListener.onLoopback(on: time.reactor)
      self.listener = listener
      serving = Task {
        try await listener.serve(
          .init(limits: .init(connections: connections), drain: .within(.seconds(100)), reactors: reactors)
        ) { try await $0.write(utf8: "answer\n") }
      }
    }

    func client() throws -> RawSocket { try RawSocket.connected(to: listener.address) }

    func expectAnswer(_ client: RawSocket) async throws {
      #expect(try await client.receiveToEnd() == Array("answer\n".utf8))
    }

    /// Clients that were answered and do not close.
    func lingeringClients(_ count: Int) async throws -> [RawSocket] {
      var clients: [RawSocket] = []
      for _ in 0..<count {
        clients.append(try client())
        try await expectAnswer(clients[clients.count - 1])
      }
      try await eventually("all linger") { await listener.server.lingering.count == count }
      return clients
    }
  }

  @Test func `The grace of a drain ends no connection that its handler closes`() async throws {
    let (time, isClosing, isClosed) = (ManualTime(), Gate(), Gate())
    let listener = try TCPListener.onLoopback(on: time.reactor)
    let drain = Drain.within(.seconds(100), newConnectionGrace: .milliseconds(200))
    let serving = Task {
      try await listener.serve(.init(drain: drain)) {
        try await $0.write(utf8: "answer\n")
        isClosing.open()
        await $0.close()
        isClosed.open()
      }
    }
    let client = try RawSocket.connected(to: listener.address)
    #expect(try await client.receiveToEnd() == Array("answer\n".utf8))
    await isClosing.wait()
    serving.cancel()
    try await eventually("the server drains") { await listener.server.isDraining }
    try await time.reactor.sleeps()
    await time.advance(by: .milliseconds(200))
    try await time.reactor.sleeps()
    #expect(!isClosed.isOpen, "the client has not finished")
    await time.advance(by: .milliseconds(1800))
    await isClosed.wait()
    client.close()
    #expect(try await serving.value.finished == 1)
  }

  @Test func `Clients that do not close hold up no others of a server at its limit, nor its drain`() async throws {
    let scene = try Scene(connections: 2)
    let clients = try await scene.lingeringClients(300)
    #expect(await scene.listener.server.closing == 0)
    // While the server drains, they have half a second more.
    scene.serving.cancel()
    await expectError(.closed) { _ = try await scene.listener.accept() }
    await scene.time.advance(by: .milliseconds(499))
    #expect(await scene.listener.server.lingering.count == 300)
    await scene.time.advance(by: .milliseconds(1))
    #expect(try await scene.serving.value.finished == 300)
    withExtendedLifetime(clients) {}
  }

  @Test func `A drain does not lengthen the wait for a client that does not close`() async throws {
    let scene = try Scene(connections: 2)
    let clients = try await scene.lingeringClients(1)
    await scene.time.advance(by: .milliseconds(1_900))
    scene.serving.cancel()
    await expectError(.closed) { _ = try await scene.listener.accept() }
    await scene.time.advance(by: .milliseconds(100))
    #expect(try await scene.serving.value.finished == 1)
    withExtendedLifetime(clients) {}
  }

  @Test func `Asking for a drain again does not lengthen the wait for a client that does not close`() async throws {
    let scene = try Scene(connections: 2)
    let clients = try await scene.lingeringClients(1)
    await scene.listener.drain(within: .seconds(100))
    await scene.time.advance(by: .milliseconds(400))
    await scene.listener.drain(within: .seconds(100))
    await scene.time.advance(by: .milliseconds(100))
    #expect(try await scene.serving.value.finished == 1)
    withExtendedLifetime(clients) {}
  }

  @Test func `A drain serves all that wait although no client closes`() async throws {
    let scene = try Scene(connections: 1)
    let first = try scene.client()
    try await scene.expectAnswer(first)
    // All wait in the kernel when the drain begins, because the reactor is held up.
    let clients = try await scene.time.reactor.whileBlocked {
      defer { scene.serving.cancel() }
      return try (0..<300).map { _ in try scene.client() }
    }
    for client in clients { try await scene.expectAnswer(client) }
    try await eventually("all linger") { await scene.listener.server.lingering.count == 301 }
    await scene.time.advance(by: .milliseconds(500))
    #expect(try await scene.serving.value.finished == 301)
    // In an optimized build, a socket that is not used any more is closed.
    for client in clients + [first] { client.close() }
  }

  @Test(arguments: [1, 2])
  func `Beyond the limit of descriptors, those that have waited longest are closed`(reactors: Int) async throws {
    let scene = try Scene(connections: 3, reactors: reactors)
    let first = try scene.client()
    try await scene.expectAnswer(first)
    await scene.listener.allow(descriptors: 10)
    var clients: [RawSocket] = []
    for _ in 0..<50 {
      try await eventually("the others only wait for their peers") {
        let server = await scene.listener.server
        #expect(server.active.count + server.closing + server.lingering.count <= 10)
        return server.active.isEmpty && server.closing == 0
      }
      let client = try scene.client()
      // Each waits for a tenth of a second at least.
      await scene.time.advance(by: .milliseconds(100))
      try await scene.expectAnswer(client)
      clients.append(client)
    }
    for client in clients + [first] { client.close() }
    try await eventually("none lingers") { await scene.listener.server.lingering.count == 0 }
    #expect(try await scene.serving.stop().finished == 51)
  }

  @Test func `At a limit that the descriptors set, a client has time to finish before the next one`() async throws {
    let scene = try Scene(connections: 1)
    try await eventually("it is served") { await scene.listener.server.isServing }
    await scene.listener.allow(descriptors: 1)
    let first = try await scene.lingeringClients(1)[0]
    let second = try scene.client()
    await scene.time.advance(by: .milliseconds(99))
    // Input that still arrives is discarded, so nothing resets the connection.
    try first.send("more")
    try await scene.time.reactor.sleeps()
    #expect(await scene.listener.server.report.accepted == 1)
    #expect(await scene.listener.server.lingering.count == 1)
    await scene.time.advance(by: .milliseconds(1))
    try await scene.expectAnswer(second)
    for client in [first, second] { client.close() }
    #expect(try await scene.serving.stop().finished == 2)
  }

  @Test func `A client that finishes makes room at a limit that the descriptors set`() async throws {
    let scene = try Scene(connections: 1)
    try await eventually("it is served") { await scene.listener.server.isServing }
    await scene.listener.allow(descriptors: 1)
    for _ in 0..<3 {
      let client = try scene.client()
      try await scene.expectAnswer(client)
      client.close()
    }
    #expect(try await scene.serving.stop().finished == 3)
  }

  @Test func `A shortage of descriptors ends the wait of all that linger`() async throws {
    let scene = try Scene(connections: 3)
    let clients = try await scene.lingeringClients(5)
    await scene.listener.closeAllLingering()
    try await eventually("all are closed") {
      let server = await scene.listener.server
      return server.lingering.count == 0 && server.closing == 0
    }
    #expect(try await scene.serving.stop().finished == 5)
    withExtendedLifetime(clients) {}
  }

  @Test func `A connection that still sends while it closes counts toward the limit`() async throws {
    let time = ManualTime()
    let listener = try TCPListener.onLoopback(on: time.reactor)
    let handled = Notes<Int>()
    let serving = Task {
      try await listener.serve(.init(limits: .init(connections: 1))) { (connection: isolated TCPConnection) in
        handled.add(1)
        // More than fits into the kernel's buffers. Closing sends the rest.
        _ = connection.enqueueWrite([UInt8](repeating: 7, count: 64 << 20))
      }
    }
    let first = try RawSocket.connected(to: listener.address)
    try await eventually("the first one closes") { await listener.server.closing == 1 }
    let second = try RawSocket.connected(to: listener.address)
    // The kernel has announced the second one, and the handlers run on the reactor.
    try await time.reactor.sleeps()
    #expect(handled.all.count == 1)
    #expect(await listener.waitingConnections() == [1])
    #expect(try await first.receiveToEnd().count == 64 << 20)
    first.close()
    try await eventually("the second one is handled") { handled.all.count == 2 }
    second.close()
    #expect(try await serving.stop().accepted == 2)
  }

  // MARK: A budget

  /// In a simulation, because the kernel's own buffers are not large enough for it.
  @Test func `A close that discards much input leaves the others their turn`() async throws {
    let simulation = Simulation()
    try await simulation.run {
      let size = 3 << 20
      simulation.host("server").start {
        let listener = try TCPListener.bind(to: .port(80))
        let connection = try await listener.accept()
        try await connection.write([UInt8](repeating: 1, count: size))
        try await connection.peerFinishedWriting()
      }
      try await simulation.host("client").run {
        let configuration = TCPConnection.Configuration { $0.prepare = { try $0.set(.receiveBufferSize, to: 4 << 20) } }
        let connection = try await TCPConnection.connect(to: .host("server", port: 80), configuration: configuration)
        try await eventually("everything has arrived") { await connection.receivable == size }
        // One call discards at most 16 times as much as one receive brings.
        let left = await connection.receivableAfterBeginningToClose
        #expect(left >= size - 16 * Reactor.scratchCapacity && left < size)
        await connection.close()
      }
    }
  }
}

extension TCPListener {
  fileprivate func allow(descriptors: Int) { server.descriptors = descriptors }
  fileprivate func closeAllLingering() { closeLingering(ifMoreThan: 0) }
}

extension TCPConnection {
  fileprivate var receivable: Int { registration.socket?.receivableBytes() ?? 0 }

  fileprivate var receivableAfterBeginningToClose: Int {
    core.beginClose()
    return receivable
  }
}
