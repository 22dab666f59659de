import ActorSockets
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

/// The client in the article about reconnecting.
@Suite struct ReconnectingTests {
  @Test func `Questions share connections, and survive the restarts of the server`() async throws {
    try await Simulation.explore(seeds: 0..<20) { simulation in
      let server = simulation.host("server")
      server.start {
        try await TCPListener.bind(to: .port(7000)).serve { connection in
          for try await line in connection.lines { try await connection.write(utf8: "\(line)!\n") }
        }
      }
      try await simulation.host("client").run {
        let client = WarehouseClient(.host("server", port: 7000))
        for round in 0..<3 {
          try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<10 {
              group.addTask {
                let answer = try await client.count(of: "\(round).\(number)")
                try #require(answer == Array("count \(round).\(number)!\n".utf8))
              }
            }
            try await group.waitForAll()
          }
          server.crash()
          try await Task.sleep(for: .seconds(1))
          server.restart()
          let answer = try await client.count(of: "nails")
          try #require(answer == Array("count nails!\n".utf8))
        }
        let answer = try await client.order("nails")
        try #require(answer == Array("order nails!\n".utf8))
        await client.close()
        let error = await #expect(throws: SocketError.self) { _ = try await client.order("nails") }
        #expect(error?.code == .closed)
      }
    }
  }
}

/// The loop in the article about reconnecting.
@Suite struct FollowingTests {
  @Test func `A client connects again after a crash, a silence and a clean end`() async throws {
    try await Simulation.explore(seeds: 0..<20) { simulation in
      let server = simulation.host("server")
      server.start {
        try await TCPListener.bind(to: .port(7000)).serve { connection in
          for number in 1...3 {
            try await connection.write(utf8: "\(number)\n")
            try await Task.sleep(for: .seconds(1))
          }
        }
      }
      let lines = Notes<String>()
      let following = Task {
        try await simulation.host("client").run {
          try await follow(.host("server", port: 7000)) { lines.add($0) }
        }
      }
      try await Task.sleep(for: .milliseconds(500))
      let before = lines.all.count
      server.crash()
      try await Task.sleep(for: .seconds(60))
      server.restart()
      try await Task.sleep(for: .seconds(120))
      // The server ends each connection after three lines, so several connections have had all of theirs.
      #expect(lines.all.count > before + 30)
      #expect(lines.all.suffix(9).count { $0 == "1" } == 3)
      following.cancel()
      await #expect(throws: CancellationError.self) { try await following.value }
    }
  }
}
