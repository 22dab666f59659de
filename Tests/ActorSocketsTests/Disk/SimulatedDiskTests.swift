import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// Disks of simulated hosts: what crashes leave, and who is told.
@Suite(.tags(.crashes)) struct SimulatedDiskTests {
  // MARK: Crashes

  @Test func `Every write that was synchronized survives a power failure, and others do not always`() async throws {
    let counts = Notes<Int>()
    try await simulated(seeds: 0..<60) { simulation in
      let host = simulation.host("server")
      try await host.run {
        let log = try await host.disk.open("log")
        try await host.disk.synchronizeDirectory("")
        try await log.append([1, 1])
        try await log.synchronize()
        try await log.append([2])
      }
      host.crash()
      host.restart()
      let bytes = try await host.disk.contents(of: "log")
      #expect([[1, 1], [1, 1, 2], [1, 1, 0]].contains(bytes))
      counts.add(bytes.count)
    }
    #expect(Set(counts.all) == [2, 3])
  }

  @Test func `If only the program is killed, nothing is lost`() async throws {
    try await simulated(seeds: 0..<20) { simulation in
      let host = simulation.host("server")
      try await host.run {
        try await host.disk.createDirectory("a")
        try await host.disk.open("a/log").append([1])
      }
      host.crash(.process)
      #expect(try await host.disk.contents(of: "a/log") == [1])
      // The power may still fail later.
      host.restart()
      host.crash()
      if try await host.disk.list("").isEmpty { simulation.note("lost") }
    }
  }

  @Test func `A program that restarts finds its disk, and other hosts have their own`() async throws {
    let found = Notes<[UInt8]>()
    try await simulated { simulation in
      let host = simulation.host("server")
      host.start {
        let file = try await host.disk.open("starts")
        found.add(try await file.read(at: 0, count: 10))
        try await file.append([7])
        try await file.synchronize()
        try await host.disk.synchronizeDirectory("")
      }
      for _ in 0..<3 {
        try await simulation.clock.sleep(for: .seconds(1))
        host.crash()
        host.restart()
      }
      try await simulation.clock.sleep(for: .seconds(1))
      #expect(try await simulation.host("other").disk.list("") == [])
    }
    #expect(found.all == [[], [7], [7, 7], [7, 7, 7]])
  }

  @Test func `A file that was opened before a crash fails, also during a call`() async throws {
    try await simulated { simulation in
      let host = simulation.host("server")
      let disk = host.disk
      let file = try await disk.open("log")
      let calls: [@Sendable () async throws -> Void] = [
        { try await file.append([1]) }, { try await file.write([1], at: 0) }, { try await file.synchronize() },
        { try await file.truncate(to: 5) }, { _ = try await file.read(at: 0, count: 1) },
        { try await disk.synchronizeDirectory("") }, { try await disk.rename("log", to: "log") },
      ]
      let outcomes = Notes<SocketError.Code>()
      try await withThrowingTaskGroup { group in
        for call in calls {
          group.addTask {
            // Exactly one outcome.
            do { try await call() } catch let error as SocketError { outcomes.add(error.code) }
          }
        }
        try await simulation.clock.sleep(for: .nanoseconds(1))
        host.crash()
        try await group.waitForAll()
      }
      #expect(outcomes.all == Array(repeating: .closed, count: calls.count))
      for call in calls.prefix(5) { await expectError(.closed, saying: "crashed") { try await call() } }
      await expectError(.closed) { _ = try await file.count }
    }
  }

  @Test func `A call of a host that crashes never returns, and what it had written has its own fate`() async throws {
    let returned = Notes<String>()
    let sizes = Notes<Int>()
    try await simulated(seeds: 0..<40) { simulation in
      let host = simulation.host("server")
      try await host.run {
        _ = try await host.disk.open("log")
        try await host.disk.synchronizeDirectory("")
      }
      host.start {
        let file = try await host.disk.open("log")
        defer { returned.add("end") }
        try await file.write([1, 2], at: 0)
        try await file.synchronize()
        returned.add("synchronized")
      }
      try await simulation.clock.sleep(for: .microseconds(Int.random(in: 20...900, using: &simulation.random)))
      host.start {}
      host.crash()
      host.restart()
      try await simulation.clock.sleep(for: .seconds(1))
      sizes.add(try await host.disk.contents(of: "log").count)
    }
    #expect(returned.all.isEmpty)
    #expect(Set(sizes.all) == [0, 2])
  }

  /// Replaces a file while the power fails at a random time, and returns what is there then.
  private func contentsAfterCrash(
    _ replace: @escaping @Sendable (SimulatedDisk) async throws -> Void
  ) async throws -> Set<[UInt8]> {
    let found = Notes<[UInt8]>()
    try await simulated(seeds: 0..<200) { simulation in
      let host = simulation.host("server")
      try await host.run { try await host.disk.replace("state", with: [1, 1]) }
      host.start {
        try await replace(host.disk)
        try await simulation.clock.sleep(for: .seconds(5))
      }
      try await simulation.clock.sleep(for: .microseconds(Int.random(in: 0...20_000, using: &simulation.random)))
      host.crash()
      found.add(try await host.disk.contents(of: "state"))
    }
    return Set(found.all)
  }

  @Test func `A file that is replaced has the old contents or the new ones, whenever the power fails`() async throws {
    #expect(try await contentsAfterCrash { try await $0.replace("state", with: [2, 2]) } == [[1, 1], [2, 2]])
  }

  @Test func `A file that is replaced without a sync may be empty after a power failure`() async throws {
    let found = try await contentsAfterCrash { disk in
      try await disk.open("state.new").write([2, 2], at: 0)
      try await disk.rename("state.new", to: "state")
      try await disk.synchronizeDirectory("")
    }
    #expect(found == [[1, 1], [2, 2], [], [0, 0]])
  }

  @Test func `Closures for crashes are told how the host stops, each time and in order`() async throws {
    let notes = Notes<String>()
    try await simulated { simulation in
      let (host, other) = (simulation.host("server"), simulation.host("other"))
      host.onCrash { notes.add("first \($0) \(host.isDown)") }
      host.onCrash { kind in
        simulation.note("storage loses \(Int.random(in: 0..<10, using: &simulation.random)) writes")
        notes.add("second \(kind)")
      }
      host.crash()
      // It is down already.
      host.crash(.process)
      host.restart()
      other.crash()
      host.crash(.process)
    }
    #expect(notes.all == ["first power true", "second power", "first process true", "second process"])
  }

  @Test func `Chaos crashes hosts, and what they had confirmed stays`() async throws {
    try await simulated(seeds: 0..<30) { simulation in
      let host = simulation.host("server")
      let confirmed = Notes<UInt8>()
      host.start {
        let file = try await host.disk.open("log")
        try await host.disk.synchronizeDirectory("")
        while !Task.isCancelled {
          let next = UInt8(truncatingIfNeeded: confirmed.all.count + 1)
          try await file.write([next], at: confirmed.all.count)
          try await file.synchronize()
          confirmed.add(next)
        }
      }
      let chaos = Chaos(
        interval: .milliseconds(5)...(.milliseconds(50)), duration: .milliseconds(1)...(.milliseconds(20)),
        weights: [.crash: 1])
      try await simulation.withChaos(chaos, among: [host]) {
        try await simulation.clock.sleep(for: .seconds(2))
      }
      host.crash()
      let bytes = try await host.disk.contents(of: "log")
      #expect(bytes.starts(with: confirmed.all) && !confirmed.all.isEmpty)
    }
  }

  // MARK: Repetition

  /// Uses a disk, and returns the hash of the run and numbers of the program and of a link.
  private func run(seed: UInt64, _ bytes: [UInt8]?) async throws -> (hash: UInt64, numbers: [UInt64], lines: [String]) {
    let numbers = Notes<UInt64>()
    let simulation = try await simulated(Simulation(seed: seed)) { simulation in
      let host = simulation.host("server")
      if let bytes {
        try await host.run {
          let file = try await host.disk.open("log")
          try await file.append(bytes)
          try await file.synchronize()
          try await file.append(bytes)
          _ = try await file.read(at: 0, count: 3)
        }
      }
      host.crash()
      host.restart()
      numbers.add(simulation.random.next())
      var system = SystemRandomNumberGenerator()
      numbers.add(system.next())
    }
    return (simulation.traceHash, numbers.all, simulation.trace)
  }

  @Test func `Runs are the same if their seeds and bytes are, and disks draw numbers of their own`() async throws {
    let one = try await run(seed: 1, [1, 2])
    let again = try await run(seed: 1, [1, 2])
    #expect(one.hash == again.hash && one.lines == again.lines)
    #expect(try await run(seed: 1, [1, 3]).hash != one.hash)
    #expect(try await run(seed: 1, nil).numbers == one.numbers)
    #expect(try await run(seed: 2, [1, 2]).numbers != one.numbers)
  }

  @Test func `A second run of a seed does the same on its disks`() async throws {
    try await within("the runs are over") {
      try await Simulation.explore(seeds: 0..<3, checksDeterminism: true) { simulation in
        let host = simulation.host("server")
        host.disk.properties.corruptReads = 0.5
        for name in ["a", "b", "c"] {
          try await host.run { try await host.disk.replace(name, with: Array(name.utf8)) }
          host.crash()
          host.restart()
          for file in try await host.disk.list("") { _ = try await host.disk.contents(of: file) }
        }
      }
    }
  }

  @Test func `The trace has a line for each call, also for those that fail`() async throws {
    let simulation = try await simulated { simulation in
      let disk = simulation.host("server").disk
      let file = try await disk.open("log")
      _ = try await file.count
      disk.failNext(.read)
      await expectError(.diskFailed) { _ = try await file.read(at: 5, count: 1) }
      disk.failNext(.write)
      await expectError(.diskFailed) { try await file.truncate(to: 9) }
      await expectError(.pathNotFound) { _ = try await disk.list("none") }
      await expectError(.pathNotFound) { try await disk.synchronizeDirectory("none") }
    }
    for end in [
      "\"log\" has 0 bytes", "read at 5 of \"log\" fails", "truncate \"log\" to 9 bytes fails",
      "list \"none\" fails", "synchronizeDirectory \"none\" fails",
    ] {
      #expect(simulation.trace.contains { $0.hasSuffix(end) }, "\(end)")
    }
  }

  @Test func `The trace says what a disk did, and what a crash took`() async throws {
    let lines = Notes<String>()
    for seed in 0..<40 as Range<UInt64> {
      for line in try await run(seed: seed, [UInt8](repeating: 1, count: 1_000)).lines { lines.add(line) }
    }
    for end in [
      "server: open \"log\"", "server: writes 1000 bytes at 0 of \"log\"",
      "server: writes 1000 bytes at 1000 of \"log\"",
      "server: synchronizes \"log\": 1 changes", "server: reads 3 bytes at 0 of \"log\"",
      "server: lost 1 un-synced change of \"log\"", "server: tore one of \"log\" at 1000",
      "server: lost the creation of \"log\"",
    ] {
      #expect(lines.all.contains { $0.hasSuffix(" s \(end)") }, "\(end)")
    }
  }
}
