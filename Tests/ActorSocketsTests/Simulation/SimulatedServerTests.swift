import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite struct SimulatedServerTests {
  @Test(arguments: [HandlerExecutor.pool, .reactor])
  func `A server and its clients run in the order of the seed`(place: HandlerExecutor) async throws {
    try await within("all seeds have run") {
      var hashes: Set<UInt64> = []
      for seed in 0..<40 as Range<UInt64> {
        var again: Set<UInt64> = []
        for _ in 0..<2 {
          let simulation = Simulation(seed: seed, order: .random)
          try await simulation.run {
            let listener = InMemoryListener()
            let server = Task {
              try await listener.serve(.init(on: place)) { connection in
                for try await line in connection.lines {
                  try await Task.sleep(for: .milliseconds(5))
                  try await connection.write(utf8: "\(line)!\n")
                }
              }
            }
            try await withThrowingTaskGroup(of: Void.self) { group in
              for number in 0..<5 {
                group.addTask {
                  let connection = try await listener.connect()
                  for round in 0..<4 {
                    try await connection.write(utf8: "\(number).\(round)\n")
                    let answer = try await connection.read(until: .lf, timeout: .seconds(1))
                    try #require(answer == Array("\(number).\(round)!\n".utf8), "an answer belongs to its request")
                    simulation.note("\(number).\(round)")
                  }
                  await connection.close()
                }
              }
              try await group.waitForAll()
            }
            server.cancel()
            _ = try await server.value
          }
          #expect(simulation.clock.now.elapsed < .seconds(1))
          again.insert(simulation.traceHash)
          hashes.insert(simulation.traceHash)
        }
        #expect(again.count == 1, "seed \(seed)")
      }
      #expect(hashes.count > 20)
    }
  }

  @Test func `Timeouts and idle timeouts come in virtual time`() async throws {
    try await simulated { _ in
      let (client, server) = InMemoryConnection.pair()
      let began = ContinuousClock.now
      let error = await #expect(throws: SocketError.self) {
        try await client.read(exactly: 1, timeout: .seconds(86_000))
      }
      #expect(error?.code == .timedOut)
      #expect(began.duration(to: .now) == .seconds(86_000))
      try await server.write(utf8: "x")
      #expect(try await client.read(exactly: 1) == Array("x".utf8))
    }
  }

  @Test func `The bytes that arrive at the time of a deadline are read`() async throws {
    try await simulated(seeds: 0..<300) { simulation in
      let (client, server) = InMemoryConnection.pair()
      async let writing: Void = {
        try await Task.sleep(for: .seconds(5))
        try await server.write(utf8: "0123456789")
      }()
      var all: [UInt8] = []
      while all.count < 10 {
        do {
          all += try await client.read(exactly: 5, timeout: .seconds(5))
        } catch let error as SocketError where error.code == .timedOut {
          simulation.note("timed out")
        }
      }
      try await writing
      try #require(all == Array("0123456789".utf8), "no byte is lost")
    }
  }

  @Test func `Sockets from outside are refused in a simulation`() async throws {
    try await within("the simulation is over") {
      let (one, other) = try RawSocket.unixPair()
      let number = one.release()
      try await Simulation().run {
        let connection = try TCPConnection.adopt(fileDescriptor: number)
        let error = await #expect(throws: SocketError.self) { try await connection.read(upTo: 1) }
        #expect(error?.code == .permissionDenied)
      }
      withExtendedLifetime(other) {}
    }
  }
}
