import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// Pools against servers that are slow, fail and crash, on a simulated network.
@Suite(.endsInTime(seconds: secondsForSeeds), .tags(.simulation, .crashes)) struct PoolSimulationTests {
  @Sendable private static func pool(_ options: ConnectionPoolOptions = .init()) -> ConnectionPool<TCPConnection> {
    ConnectionPool(options) {
      try await TCPConnection.connect(to: .host("server", port: 80), timeout: .within(.seconds(2)))
    }
  }

  @Sendable private static func ask(
    _ pool: ConnectionPool<TCPConnection>, _ text: String, isRepeatable: Bool = true
  ) async throws -> String {
    try await pool.withConnection(timeout: .within(.seconds(120)), isRepeatable: isRepeatable) { connection in
      try await connection.write(utf8: "\(text)\n", timeout: .seconds(2))
      return String(decoding: try await connection.read(until: .lf, timeout: .seconds(2)).dropLast(), as: UTF8.self)
    }
  }

  @Test func `Fifty callers on three connections are served in order`() async throws {
    try await simulated(seeds: 0..<seeds(40, atMost: 1_000), seconds: secondsForSeeds) { simulation in
      let server = simulation.host("server")
      server.start {
        try await TCPListener.bind(to: .port(80)).serve { connection in
          for try await line in connection.lines {
            try await Task.sleep(for: .milliseconds(Int.random(in: 1...50)))
            try await connection.write(utf8: "\(line)\n")
          }
        }
      }
      try await simulation.host("client").run {
        let pool = Self.pool(.most(3))
        let order = Notes<Int>()
        let calls = (0..<50).map { number in
          Task.immediate {
            try await pool.withConnection { connection in
              order.add(number)
              try await connection.write(utf8: "\(number)\n")
              try #require(try await connection.read(.line()) == "\(number)")
            }
          }
        }
        for call in calls { try await call.value }
        // The tasks of connections that are given at the same time may run in any order.
        for (position, number) in order.all.enumerated() { try #require(abs(position - number) < 3) }
        let metrics = await pool.metrics
        try #require(metrics.made == 3 && metrics.reused == 47 && metrics.idle == 3)
        await pool.close()
      }
    }
  }

  @Test func `Servers that fail in every way leave nothing, and each repeated call has its own answer`() async throws {
    try await simulated(seeds: 0..<seeds(60, atMost: 1_000), seconds: secondsForSeeds) { simulation in
      simulation.defaultLink = NetworkLink(latency: .uniform(.milliseconds(1), .milliseconds(20)))
      let listener = try await simulation.host("server").run { try TCPListener.bind(to: .port(80)) }
      let serving = Task {
        try await listener.serve(ServeOptions(drain: .immediately) { _ in }) { connection in
          var left = Int.random(in: 0...5)
          for try await line in connection.lines {
            left -= 1
            if left < 0 { break }
            try await connection.write(utf8: "\(line)\n")
          }
          if Bool.random() { await connection.abort() }
        }
      }
      try await simulation.host("client").run {
        let pool = Self.pool(.most(4) { $0.idleTimeout = .milliseconds(Int.random(in: 1...500)) })
        try await withThrowingTaskGroup(of: Void.self) { group in
          for caller in 0..<8 {
            group.addTask {
              for number in 0..<10 {
                do {
                  let answer = try await Self.ask(pool, "\(caller).\(number)")
                  try #require(answer == "\(caller).\(number)", "an answer belongs to its question")
                } catch let error as any NetworkError where error.isRetryable {
                }
                if Bool.random() { try await Task.sleep(for: .milliseconds(Int.random(in: 1...400))) }
              }
            }
          }
          try await group.waitForAll()
        }
        let metrics = await pool.metrics
        try #require(metrics.inUse == 0 && metrics.waiting == 0 && metrics.made > 4)
        await pool.drain(within: .seconds(1))
      }
      serving.cancel()
      _ = await serving.result
      await listener.close()
      try await simulation.assertQuiet()
    }
  }

  @Test func `The pool survives servers that crash under load`() async throws {
    try await simulated(seeds: 0..<seeds(40, atMost: 1_000), seconds: secondsForSeeds) { simulation in
      let server = simulation.host("server")
      server.start {
        try await TCPListener.bind(to: .port(80)).serve { connection in
          for try await line in connection.lines { try await connection.write(utf8: "\(line)\n") }
        }
      }
      let calls = Task {
        try await simulation.host("client").run {
          let pool = Self.pool(.most(4))
          let done = Notes<Int>()
          try await withThrowingTaskGroup(of: Void.self) { group in
            for caller in 0..<10 {
              group.addTask {
                var number = 0
                while number < 20 {
                  do {
                    let answer = try await Self.ask(pool, "\(caller).\(number)")
                    try #require(answer == "\(caller).\(number)", "an answer belongs to its question")
                    number += 1
                    done.add(number)
                    try await Task.sleep(for: .milliseconds(100))
                  } catch let error as any NetworkError where error.isRetryable {
                  }
                }
              }
            }
            try await group.waitForAll()
          }
          let metrics = await pool.metrics
          try #require(metrics.inUse == 0 && metrics.waiting == 0 && metrics.idle <= 4 && done.all.count == 200)
          await pool.close()
        }
      }
      for _ in 0..<3 {
        try await Task.sleep(for: .milliseconds(Int.random(in: 100...600)))
        server.crash()
        try await Task.sleep(for: .milliseconds(Int.random(in: 100...5_000)))
        server.restart()
      }
      try await calls.value
    }
  }

  @Test func `Calls that are cancelled, time out and throw at random lose no connection`() async throws {
    struct Broken: Error {}
    try await simulated(seeds: 0..<seeds(60, atMost: 1_000), seconds: secondsForSeeds) { simulation in
      let listener = try await simulation.host("server").run { try TCPListener.bind(to: .port(80)) }
      let serving = Task {
        try await listener.serve(ServeOptions(drain: .immediately) { _ in }) { connection in
          for try await line in connection.lines { try await connection.write(utf8: "\(line)\n") }
        }
      }
      try await simulation.host("client").run {
        let pool = Self.pool(.most(3))
        let users = Notes<UInt64>()
        let calls = (0..<80).map { number in
          Task {
            try await Task.sleep(for: .milliseconds(Int.random(in: 0...500)))
            try await pool.withConnection(timeout: .milliseconds(Int.random(in: 0...300))) { connection in
              users.add(connection.id)
              try await connection.write(utf8: "\(number)\n")
              if Int.random(in: 0..<6) == 0 { throw Broken() }
              try #require(try await connection.read(.line()) == "\(number)", "an answer belongs to its question")
              try await Task.sleep(for: .milliseconds(Int.random(in: 0...30)))
            }
          }
        }
        for call in calls where Int.random(in: 0..<4) == 0 {
          try await Task.sleep(for: .milliseconds(Int.random(in: 0...20)))
          call.cancel()
        }
        for call in calls {
          do {
            try await call.value
          } catch is Broken {
          } catch is CancellationError {
          } catch let error as SocketError where error.code == .timedOut {
          }
        }
        let metrics = await pool.metrics
        try #require(metrics.inUse == 0 && metrics.waiting == 0 && metrics.connecting + metrics.idle <= 3)
        try #require(try await Self.ask(pool, "last") == "last")
        await pool.close()
      }
      serving.cancel()
      _ = await serving.result
      await listener.close()
      try await simulation.assertQuiet()
    }
  }
}
