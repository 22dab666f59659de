import ActorSockets
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@Suite struct ConnectRaceTests {
  enum Outcome: Hashable, Sendable, CaseIterable { case up, cancelled }

  private static func accept(_ rounds: Int, _ seed: UInt64) async throws -> Tally<Outcome> {
    var random = SeededRandom(seed: seed)
    var tally = Tally<Outcome>()
    let opponent = try Opponent()
    let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)))
    let address = listener.localAddresses[0]
    for round in 0..<rounds {
      let accepting = Task.immediate { try await listener.accept() }
      let client = Notes<RawSocket>()
      var steps: [Opponent.Step] = [
        { if let socket = try? RawSocket.connected(to: address) { client.add(socket) } },
        { accepting.cancel() },
      ]
      if Bool.random(using: &random) { steps.reverse() }
      let pause = Bool.random(using: &random) ? Int64.random(in: 0..<60_000, using: &random) : 0
      opponent.run([steps[0], { spin(for: pause) }, steps[1]])
      let connection: TCPConnection
      do {
        connection = try await accepting.value
        tally.count(.up)
      } catch is CancellationError {
        tally.count(.cancelled)
        connection = try await listener.accept()
      }
      await opponent.finish()
      guard let socket = client.all.first, try connection.remoteAddress == socket.address else {
        throw Overdue(description: "seed \(seed), round \(round): another connection came")
      }
      // A reset leaves no TIME_WAIT.
      socket.reset()
      await connection.abort()
    }
    return tally
  }

  @Test func `Connections race with the cancellation of the calls that accept them, without a loss`() async throws {
    try await race(lanes: 2, seed: 4, until: Outcome.allCases, Self.accept)
  }

  private static func connect(_ rounds: Int, _ seed: UInt64) async throws -> Tally<Outcome> {
    var random = SeededRandom(seed: seed)
    var tally = Tally<Outcome>()
    let opponent = try Opponent()
    let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)))
    let endpoint = Endpoint.address(listener.localAddresses[0])
    let accepting = Task {
      for try await connection in listener.connections { await connection.abort() }
    }
    // Adapts itself, so that both outcomes stay likely.
    var limit: Int64 = 50_000
    for _ in 0..<rounds {
      let connecting = Task { try await TCPConnection.connect(to: endpoint) }
      let pause = Int64.random(in: 0..<limit, using: &random)
      opponent.run([{ spin(for: pause) }, { connecting.cancel() }])
      do {
        let connection = try await connecting.value
        tally.count(.up)
        limit = max(1000, limit * 9 / 10)
        await connection.abort()
      } catch is CancellationError {
        tally.count(.cancelled)
        limit = min(2_000_000, limit * 10 / 9 + 1)
      } catch let error as SocketError where error.code == .connectionReset {
        // The listener was quicker to abort it than this side to notice that it is up.
        tally.count(.up)
      }
    }
    await listener.close()
    try await accepting.value
    return tally
  }

  @Test func `Connecting races with its cancellation`() async throws {
    try await race(lanes: 2, seed: 5, until: Outcome.allCases, Self.connect)
  }
}
