import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// After a crash no code of the host runs, and none while it is paused, also in actors that it shares with other hosts.
@Suite(.tags(.crashes)) struct CrashTests {
  /// A default actor. Each call notes its number before and after it has waited.
  private actor Worker {
    let notes = Notes<String>()
    private var waiting: [CheckedContinuation<Void, Never>] = []

    func step(_ name: String) {
      preconditionIsolated()
      notes.add(name)
    }

    func wait(_ name: String) async {
      await withCheckedContinuation { waiting.append($0) }
      preconditionIsolated()
      notes.add(name)
    }

    func take(_ name: String) async {
      try? await Task.sleep(for: .milliseconds(1))
      notes.add(name)
    }

    func join(_ name: String) async {
      async let one: Void = step("\(name) in a child")
      await one
      await withTaskGroup { group in
        for number in 0..<2 { group.addTask { await self.step("\(name) in group \(number)") } }
      }
      notes.add(name)
    }

    var waitingCount: Int { waiting.count }

    /// The calls that wait are ready then, and behind this one.
    func resumeAll(_ body: () -> Void) {
      for continuation in waiting { continuation.resume() }
      waiting = []
      body()
    }
  }

  /// Returns when ten calls of each host are in the queue of the worker. The main actor cannot give its thread to another actor, so no
  /// call has begun.
  private func queueCalls(of hosts: [SimulatedHost], _ worker: Worker) async {
    let begun = Notes<String>()
    for host in hosts {
      host.start {
        for number in 0..<10 {
          Task { @MainActor in
            begun.add("\(host)")
            await worker.step("\(host) \(number)")
          }
        }
      }
    }
    while begun.all.count < 10 * hosts.count { await Task.yield() }
  }

  private static func notes(of host: SimulatedHost) -> [String] { (0..<10).map { "\(host) \($0)" } }

  @Test func `Calls that are queued at an actor do not run after a crash, also after the restart`() async throws {
    let worker = Worker()
    try await simulated { simulation in
      let (a, b) = (simulation.host("a"), simulation.host("b"))
      await queueCalls(of: [a, b], worker)
      a.crash()
      #expect(worker.notes.all.isEmpty)
      a.start { await worker.step("new") }
      a.restart()
      try await Task.sleep(for: .seconds(1))
      #expect(worker.notes.all.filter { $0 != "new" } == Self.notes(of: b))
      #expect(worker.notes.all.filter { $0 == "new" }.count == 1)
    }
  }

  @Test func `Calls that are queued at an actor run after a pause, in their order`() async throws {
    let worker = Worker()
    try await simulated { simulation in
      let (a, b) = (simulation.host("a"), simulation.host("b"))
      await queueCalls(of: [a, b], worker)
      a.pause()
      try await Task.sleep(for: .seconds(1))
      #expect(worker.notes.all == Self.notes(of: b))
      a.resume()
      try await Task.sleep(for: .seconds(1))
      #expect(worker.notes.all == Self.notes(of: b) + Self.notes(of: a))
    }
  }

  @Test(arguments: [false, true])
  func `A call that continues in an actor does not after a crash, and waits during a pause`(isPause: Bool) async throws
  {
    let worker = Worker()
    try await simulated { simulation in
      let hosts = ["a", "b"].map { simulation.host($0) }
      for host in hosts {
        host.start {
          await withTaskGroup { group in
            for number in 0..<3 { group.addTask { await worker.wait("\(host) \(number)") } }
          }
          worker.notes.add("\(host) ends")
        }
      }
      try await Task.sleep(for: .seconds(1))
      #expect(await worker.waitingCount == 6)
      await worker.resumeAll { if isPause { hosts[0].pause() } else { hosts[0].crash() } }
      try await Task.sleep(for: .seconds(1))
      #expect(worker.notes.all.sorted() == ["b 0", "b 1", "b 2", "b ends"])
      if !isPause { return }
      hosts[0].resume()
      try await Task.sleep(for: .seconds(1))
      #expect(worker.notes.all.dropFirst(4).sorted() == ["a 0", "a 1", "a 2", "a ends"])
    }
  }

  /// Programs that call one actor at random, while their hosts crash, restart, pause and continue.
  @Test func `Nothing of an earlier life runs, and nothing during a pause, in any order`() async throws {
    try await simulated(seeds: 0..<seeds(100, atMost: 10_000), seconds: secondsForSeeds) { simulation in
      let worker = Worker()
      let lives = Notes<String>()
      let hosts = (0..<3).map { simulation.host("host \($0)") }
      for host in hosts {
        host.start {
          let life = "\(host), life \(lives.all.count)"
          lives.add(life)
          await withTaskGroup { group in
            for number in 0..<4 {
              group.addTask {
                while true {
                  await worker.step("\(life): \(number)")
                  await worker.take("\(life): \(number) sleeps")
                  await worker.join("\(life): \(number) joins")
                }
              }
            }
          }
        }
      }
      for _ in 0..<20 {
        try await Task.sleep(for: .microseconds(Int.random(in: 0...5_000, using: &simulation.random)))
        let host = hosts[Int.random(in: 0..<3, using: &simulation.random)]
        let isPause = Bool.random(using: &simulation.random)
        let isWithinActor = Bool.random(using: &simulation.random)
        let stop: @Sendable () -> Void = { if isPause { host.pause() } else { host.crash(.process) } }
        if isWithinActor { await worker.resumeAll(stop) } else { stop() }
        let before = worker.notes.all.count
        try await Task.sleep(for: .milliseconds(5))
        let meanwhile = worker.notes.all.dropFirst(before)
        #expect(!meanwhile.contains { $0.hasPrefix("\(host), ") }, "seed \(simulation.seed): \(meanwhile)")
        #expect(meanwhile.contains { !$0.hasPrefix("\(host), ") }, "seed \(simulation.seed): the others continue")
        let life = lives.all.last { $0.hasPrefix("\(host), ") } ?? ""
        if isPause { host.resume() } else { host.restart() }
        let after = worker.notes.all.count
        try await Task.sleep(for: .milliseconds(5))
        let later = worker.notes.all.dropFirst(after)
        #expect(later.contains { $0.hasPrefix("\(life):") } == isPause, "seed \(simulation.seed)")
        #expect(later.contains { $0.hasPrefix("\(host), ") }, "seed \(simulation.seed)")
      }
    }
  }

  @Test func `A paused host that crashes does not continue, and one that is paused at the end does`() async throws {
    let worker = Worker()
    let hosts = Notes<SimulatedHost>()
    try await simulated { simulation in
      for name in ["a", "b"] { hosts.add(simulation.host(name)) }
      await queueCalls(of: hosts.all, worker)
      for host in hosts.all { host.pause() }
      try await Task.sleep(for: .seconds(1))
      hosts.all[0].crash()
      hosts.all[0].resume()
      try await Task.sleep(for: .seconds(1))
      #expect(worker.notes.all.isEmpty)
    }
    #expect(worker.notes.all == Self.notes(of: hosts.all[1]))
  }
}
