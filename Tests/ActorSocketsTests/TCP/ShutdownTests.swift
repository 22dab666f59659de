import ActorSockets
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@Suite(.endsInTime) struct ShutdownTests {
  @Test func `On a reactor that was shut down everything fails, and says why`() async throws {
    let reactor = Reactor()
    reactor.shutdown()
    let raw = try RawSocket.listening()
    let endpoint = Endpoint.address(try raw.address)
    await expectConnectError(.reactorShutDown, to: endpoint, reactor: reactor)
    let connecting = TCPConnection(to: endpoint, reactor: reactor)
    let pending = connecting.enqueueWrite([1])
    await expectError(.reactorShutDown) { _ = try await connecting.read() }
    await expectError(.reactorShutDown) { try await pending.value }
    let (adopted, peer) = try RawSocket.peerOfConnection(on: reactor)
    await expectError(.reactorShutDown) { try await adopted.write([1]) }
    #expect(await adopted.state == .closed)
    await adopted.close()
    await #expect(throws: (any Error).self) {
      guard try await peer.receive().isEmpty else { return }
      throw Overdue(description: "the end")
    }
    let listener = try TCPListener.onLoopback(on: reactor)
    await expectError(.reactorShutDown) { _ = try await listener.accept() }
    await expectError(.reactorShutDown) { _ = try await listener.serve { _ in } }
    let memory = try await Transport.inMemory.pair(on: reactor)
    await expectError(.reactorShutDown) { _ = try await memory.client.read() }
    await expectError(.reactorShutDown) { try await memory.server.write([1]) }
  }

  enum Part: CaseIterable, Sendable {
    case shutdown, dropClient, dropServer, dropListener, closeClient, abortServer, useActor, dropReactor
  }

  private actor Bystander: ReactorActor {
    nonisolated let executor: ReactorExecutor
    private let isGone: Gate
    init(_ reactor: Reactor, _ isGone: Gate) {
      executor = ReactorExecutor(reactor)
      self.isGone = isGone
    }
    deinit { isGone.open() }
    func isOnReactor() -> Bool { executor.reactor.loop.isCurrent }
  }

  @Test func `In whatever order everything ends, every call has an outcome and nothing is left`() async throws {
    // At the same time, for a connection that is closed waits for its peer.
    try await withThrowingTaskGroup(of: Void.self) { group in
      for seed in 1...60 as ClosedRange<UInt64> { group.addTask { try await Self.endEverything(seed) } }
      try await group.waitForAll()
    }
  }

  private static func endEverything(_ seed: UInt64) async throws {
    try await within("all calls return; seed \(seed)") {
      var random = SeededRandom(seed: seed)
      let isGone = Gate()
      var calls: [Task<Void, any Error>] = []
      do {
        var reactor: Reactor? = Reactor()
        guard let onto = reactor else { return }
        let bystander = Bystander(onto, isGone)
        var listener: TCPListener? = try TCPListener.onLoopback(on: onto)
        guard let address = listener?.localAddresses.first else { return }
        var client: TCPConnection? = try await TCPConnection.connect(to: .address(address), reactor: onto)
        var server = try await listener?.accept()
        if let client, let server, let listener {
          // Weakly, where only dropping is of interest.
          calls = [
            Task { [weak client] in _ = try await client?.read(exactly: 10) },
            Task { [weak server] in try await server?.write(pattern(10_000)) },
            Task { [weak listener] in _ = try await listener?.accept() },
            Task { [weak client] in _ = try await client?.closed },
            Task { [weak server] in try await server?.peerFinishedWriting() },
          ]
          let pending = client.enqueueRead(.line(), timeout: .seconds(1000))
          calls.append(Task { _ = try await pending.value })
        }
        var parts = Part.allCases
        parts.shuffle(using: &random)
        // Every part is carried out, whatever the order, so no call waits for ever.
        for part in parts {
          for _ in 0..<Int.random(in: 0..<3, using: &random) { await Task.yield() }
          switch part {
          case .shutdown: onto.shutdown()
          case .dropReactor: reactor = nil
          case .dropClient: client = nil
          case .dropServer: server = nil
          case .dropListener: listener = nil
          case .closeClient: if let client { await client.close() }
          case .abortServer: if let server { await server.abort() }
          case .useActor: #expect(await bystander.isOnReactor())
          }
        }
        _ = reactor
      }
      for call in calls { do { try await call.value } catch is SocketError {} }
      try await eventually("the actor is gone") { isGone.isOpen }
    }
  }
}
