import ActorSockets
import ActorSocketsTesting
import Foundation
import SocketSystem
import TestSupport
import Testing

/// `explore(checksDeterminism:)`, with programs that repeat themselves and others.
@Suite struct RepetitionCheckTests {
  /// The error of the check; `nil` if the program repeats itself.
  private func check(
    seeds: Range<UInt64> = 7..<8, _ body: @escaping @Sendable (Simulation) async throws -> Void
  ) async throws -> SimulationError? {
    try await within("the simulations are over", seconds: 120) {
      do {
        try await Simulation.explore(seeds: seeds, checksDeterminism: true, body)
        return nil
      } catch let failure as SimulationFailure {
        return try #require(failure.error as? SimulationError)
      }
    }
  }

  @Test func `A program that draws, hashes and sends repeats itself`() async throws {
    let error = try await check(seeds: 0..<5) { simulation in
      simulation.defaultLink = NetworkLink(latency: .uniform(.zero, .milliseconds(50)), loss: 0.1)
      simulation.host("server").start {
        try await TCPListener.bind(to: .port(7)).serve { connection in
          for try await line in connection.lines { try await connection.write(utf8: "\(line)\n") }
        }
      }
      try await withThrowingTaskGroup { group in
        for number in 0..<5 {
          group.addTask {
            try await simulation.host("client \(number)").run {
              try await TCPConnection.withConnection(to: .host("server", port: 7)) { connection in
                let words = Dictionary(uniqueKeysWithValues: (0..<20).map { ("\($0)", UUID()) })
                for word in words.values.shuffled() { try await connection.write(utf8: "\(word)\n") }
                for _ in words { _ = try await connection.read(.line()) }
              }
            }
          }
        }
        try await group.waitForAll()
      }
    }
    #expect(error == nil)
  }

  @Test func `The error shows the first event that differs, and those before it`() async throws {
    let runs = Locked(0)
    let error = try await check { simulation in
      let run = runs.withLock { runs in
        runs += 1
        return runs
      }
      simulation.note("both begin")
      try await Task.sleep(for: .seconds(1))
      simulation.note("run \(run)")
      simulation.note("both end")
    }
    let text = error?.description ?? ""
    #expect(error?.code == .notDeterministic)
    #expect(text.contains("seed 7 does not repeat itself"), "\(text)")
    #expect(text.contains("the first run: 1.000000000 s run 1\n"), "\(text)")
    #expect(text.contains("the second run: 1.000000000 s run 2\n"), "\(text)")
    #expect(text.contains("    0.000000000 s both begin\n"), "\(text)")
    // Nothing that the second run changes reaches the process.
    let count = runs.withLock { $0 }
    #expect(count == 1)
  }

  private final class Thing: Sendable {}

  @Test func `An order of addresses does not repeat itself`() async throws {
    let error = try await check { simulation in
      let things = (0..<50).map { _ in Thing() }
      let order = things.indices.sorted { ObjectIdentifier(things[$0]) < ObjectIdentifier(things[$1]) }
      simulation.note("\(order)")
    }
    #expect(error?.code == .notDeterministic)
  }

  @Test func `Other bytes do not repeat themselves`() async throws {
    let error = try await check { _ in
      let (client, server) = InMemoryConnection.pair()
      try await client.write(utf8: "\(10_000_000 + getpid())")
      _ = try await server.read(exactly: 8)
    }
    #expect(error?.code == .notDeterministic)
    #expect(error?.description.contains("8 bytes in memory, with other bytes") == true)
  }

  @Test func `A run that is longer than the other does not repeat itself`() async throws {
    let runs = Locked(0)
    let error = try await check { simulation in
      let isFirst = runs.withLock { runs in
        runs += 1
        return runs == 1
      }
      if !isFirst { simulation.note("one more") }
    }
    #expect(error?.description.contains("the first run: the run has ended") == true, "\(error?.description ?? "")")
  }

  @TaskLocal private static var tenant = "another's"

  @Test func `The second run has the task-local values of the first`() async throws {
    let error = try await Self.$tenant.withValue("mine") { try await check { $0.note("it is \(Self.tenant)") } }
    #expect(error == nil)
  }

  @Test func `Its cancellation ends the second run`() async throws {
    let process = getpid()
    let (started, continuation) = AsyncStream.makeStream(of: Void.self)
    let checking = Task {
      try await Simulation.explore(seeds: 0..<1, checksDeterminism: true) { _ in
        if getpid() == process { continuation.finish() } else { while true {} }
      }
    }
    try await within("the first run is over") { for await _ in started {} }
    checking.cancel()
    await expectCancellation { try await checking.value }
  }

  @Test func `The second run has no sockets of the process`() async throws {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    let error = try await check { $0.note("the socket has the flags \(fcntl(descriptor, F_GETFD))") }
    #expect(error?.description.contains("the first run: 0.000000000 s the socket has the flags 0\n") == true)
    #expect(error?.description.contains("the second run: 0.000000000 s the socket has the flags -1\n") == true)
  }

  @Test func `The trace has as many lines as without the check`() async throws {
    let lines = Locked(0)
    let error = try await check { simulation in
      for number in 0..<3_000 { simulation.note("\(number)") }
      lines.withLock { $0 = simulation.trace.count }
    }
    #expect(error == nil && lines.withLock { $0 } == 1_000)
  }

  private struct SecondRun: Error {}

  @Test func `A second run that fails, or that ends its process, is an error`() async throws {
    let ends: [(body: @Sendable () throws -> Void, sentence: String)] = [
      ({ throw SecondRun() }, "the second run fails: SecondRun()"),
      ({ kill(getpid(), SIGKILL) }, "the second run was ended by the signal 9"),
      ({ _exit(3) }, "the second run ended with the status 3"),
      ({ _exit(0) }, "the second run ended with the status 0"),
    ]
    for end in ends {
      let process = getpid()
      let error = try await check { _ in if getpid() != process { try end.body() } }
      #expect(error?.code == .notDeterministic)
      #expect(error?.description.contains(end.sentence) == true, "\(error?.description ?? "")")
    }
  }
}
