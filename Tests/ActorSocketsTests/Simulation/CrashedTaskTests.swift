import ActorSockets
import EpollReactor
import TestSupport
import Testing

@testable import ActorSocketsTesting

/// Tasks of which no executor hears before they run, and actors whose jobs are on reactors of hosts that have stopped.
@Suite(.tags(.crashes)) struct CrashedTaskTests {
  private actor Worker {
    let notes = Notes<String>()
    private var tasks: [Task<Void, Never>] = []

    /// Begins tasks that this actor isolates.
    func begin(_ name: String) {
      tasks.append(Task { await self.work(name) })
      tasks.append(Task.immediate { await self.work("\(name) at once") })
    }

    private func work(_ name: String) async {
      while true {
        notes.add(name)
        await pause()
      }
    }

    private var waiting: [CheckedContinuation<Void, Never>] = []

    private func pause() async { await withCheckedContinuation { waiting.append($0) } }

    /// Resumes all, and runs `body` before they continue.
    func goOn(_ body: @Sendable () -> Void = {}) {
      for continuation in waiting { continuation.resume() }
      waiting = []
      body()
    }

    func add(_ name: String) { notes.add(name) }

    func stay(_ name: String) async {
      notes.add(name)
      await pause()
      notes.add(name)
    }
  }

  @Test(arguments: [false, true])
  func `Tasks that an actor has begun stop with the host that called it`(isPause: Bool) async throws {
    let worker = Worker()
    try await simulated { simulation in
      let (a, b) = (simulation.host("a"), simulation.host("b"))
      for host in [a, b] { host.start { await worker.begin("\(host)") } }
      try await Task.sleep(for: .seconds(1))
      #expect(worker.notes.all.sorted() == ["a", "a at once", "b", "b at once"])
      await worker.goOn { if isPause { a.pause() } else { a.crash() } }
      try await Task.sleep(for: .seconds(1))
      #expect(worker.notes.all.dropFirst(4).sorted() == ["b", "b at once"])
      await worker.goOn()
      a.resume()
      try await Task.sleep(for: .seconds(1))
      #expect(worker.notes.all.dropFirst(6).sorted() == (isPause ? ["a", "a at once"] : []) + ["b", "b at once"])
    }
  }

  @Test func `Handlers on the reactor of a crashed host call no actor any more`() async throws {
    let worker = Worker()
    try await simulated { simulation in
      let server = simulation.host("server")
      server.start {
        try await TCPListener.bind(to: .port(7)).serve { (connection: isolated TCPConnection) in
          while true {
            await worker.add("\(server)")
            _ = try await connection.read(exactly: 1)
          }
        }
      }
      let client = simulation.host("client")
      client.start {
        let connection = try await TCPConnection.connect(to: .host("server", port: 7))
        for _ in 0..<1_000 {
          try await connection.write([1])
          try await Task.sleep(for: .milliseconds(1))
        }
      }
      try await Task.sleep(for: .milliseconds(100))
      await worker.goOn { server.crash() }
      let count = worker.notes.all.count
      #expect(count > 10)
      try await Task.sleep(for: .seconds(1))
      #expect(worker.notes.all.count == count)
    }
  }

  @Test(arguments: [false, true])
  func `An actor continues with the calls of others, although its job is on a reactor that has stopped`(
    isPause: Bool
  ) async throws {
    try await simulated(seeds: 0..<seeds(10, atMost: 1_000)) { simulation in
      let worker = Worker()
      let hosts = ["a", "b"].map { simulation.host($0) }
      for host in hosts {
        host.start {
          await withTaskExecutorPreference(Reactor.shared) {
            await withDiscardingTaskGroup { group in
              for _ in 0..<5 {
                group.addTask {
                  while true {
                    await worker.add("\(host)")
                    try? await Task.sleep(for: .microseconds(1))
                  }
                }
              }
            }
          }
        }
      }
      try await Task.sleep(for: .microseconds(Int.random(in: 0..<100, using: &simulation.random)))
      if isPause { hosts[0].pause() } else { hosts[0].crash() }
      let before = worker.notes.all.count
      try await Task.sleep(for: .milliseconds(1))
      let meanwhile = worker.notes.all.dropFirst(before)
      #expect(meanwhile.allSatisfy { $0 == "b" } && meanwhile.count > 100, "seed \(simulation.seed)")
      if !isPause { return }
      hosts[0].resume()
      try await Task.sleep(for: .milliseconds(1))
      let later = worker.notes.all.dropFirst(before + meanwhile.count)
      #expect(later.contains("a") && later.contains("b"), "seed \(simulation.seed)")
    }
  }

  @Test func `A simulation forgets no task that has not ended`() async throws {
    let worker = Worker()
    try await simulated(seeds: 0..<20) { simulation in
      let thread = try #require(VirtualThread.current)
      let before = thread.livingTasks
      let host = simulation.host("host")
      host.start {
        await withDiscardingTaskGroup { group in
          for _ in 0..<5 {
            // From one executor to the next, with suspensions in each.
            group.addTask {
              await MainActor.run { worker.notes.add("main") }
              await Task.yield()
              await worker.add("worker")
              await withTaskExecutorPreference(Reactor.shared) {
                async let child: Void = worker.stay("child")
                await Task.yield()
                await child
              }
            }
          }
        }
      }
      try await Task.sleep(for: .seconds(1))
      #expect(thread.livingTasks - before == 11, "the program, its tasks and their children")
      let notes = worker.notes.all.count
      await worker.goOn { host.crash() }
      try await Task.sleep(for: .seconds(1))
      #expect(worker.notes.all.count == notes)
    }
  }

  @Test func `A simulation forgets the tasks that have ended, however they began`() async throws {
    let worker = Worker()
    try await simulated(seeds: 0..<20) { simulation in
      let thread = try #require(VirtualThread.current)
      let round: @Sendable () async throws -> Void = {
        await withTaskGroup { group in
          for _ in 0..<10 { group.addTask { await worker.add("group") } }
        }
        async let child: Void = worker.add("child")
        await child
        await Task { @MainActor in await Task.yield() }.value
        await Task.detached { try? await Task.sleep(for: .seconds(1)) }.value
        let sleeper = Task { try await Task.sleep(for: .seconds(1)) }
        sleeper.cancel()
        _ = await sleeper.result
        await Task.immediate { await Task.yield() }.value
        try await withTaskExecutorPreference(Reactor.shared) {
          let (one, other) = InMemoryConnection.pair()
          async let text = one.read(exactly: 2)
          try await other.write([1, 2])
          _ = try await text
        }
      }
      try await round()
      let count = thread.livingTasks
      for _ in 0..<10 { try await round() }
      try await Task.sleep(for: .seconds(10))
      #expect(thread.livingTasks <= count, "\(thread.livingTasks) and \(count)")
    }
  }
}
