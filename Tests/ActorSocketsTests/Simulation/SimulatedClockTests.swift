import ActorSockets
import ActorSocketsTLS
import ActorSocketsTesting
import Foundation
import SocketSystem
import TestSupport
import Testing

@Suite(.tags(.crashes)) struct SimulatedClockTests {
  @Sendable private static func readInVain(for timeout: Duration) async throws {
    let (client, server) = InMemoryConnection.pair()
    await #expect(throws: SocketError.self) { try await client.read(timeout: .within(timeout)) }
    await client.close()
    await server.close()
  }

  @Test func `A second on a fast host is shorter, for sleeps on both clocks and for timeouts`() async throws {
    try await simulated { simulation in
      let host = simulation.host("fast")
      host.setClock(drift: 0.1)
      for wait: @Sendable () async throws -> Void in [
        { try await Task.sleep(for: .seconds(1)) }, { try await Task.sleep(for: .seconds(1), clock: .suspending) },
        { try await Task.sleep(nanoseconds: 1_000_000_000) }, { try await Self.readInVain(for: .seconds(1)) },
      ] {
        let start = simulation.clock.now
        let elapsed = try await host.run {
          let before = (ContinuousClock.now, SuspendingClock.now)
          try await wait()
          return (before.0.duration(to: .now), before.1.duration(to: .now))
        }
        #expect(elapsed.0 >= .seconds(1) && elapsed.0 <= .seconds(1) + .nanoseconds(2) && elapsed.1 == elapsed.0)
        let took = start.duration(to: simulation.clock.now)
        #expect(took >= .nanoseconds(909_090_909) && took <= .nanoseconds(909_090_911))
      }
    }
  }

  @Test func `Setting the clock moves sleeps and timeouts that have begun, on this host only`() async throws {
    try await simulated { simulation in
      let (changed, other) = (simulation.host("changed"), simulation.host("other"))
      let ends = Locked<[String: Duration]>([:])
      try await withThrowingTaskGroup(of: Void.self) { group in
        for host in [changed, other] {
          let waits: [(String, @Sendable () async throws -> Void)] = [
            ("sleep", { try await Task.sleep(for: .seconds(10)) }),
            ("timeout", { try await Self.readInVain(for: .seconds(10)) }),
            ("clock", { try await simulation.clock.sleep(until: .init(elapsed: .seconds(10))) }),
          ]
          for (name, wait) in waits {
            group.addTask {
              try await host.run(wait)
              ends.withLock { $0["\(host) \(name)"] = simulation.clock.now.elapsed }
            }
          }
        }
        group.addTask {
          // On its clock, four seconds last four, the next four last two, and the last two last eight.
          try await simulation.clock.sleep(until: .init(elapsed: .seconds(4)))
          changed.setClock(drift: 1)
          try await simulation.clock.sleep(until: .init(elapsed: .seconds(6)))
          changed.setClock(drift: -0.75)
        }
        try await group.waitForAll()
      }
      #expect(
        ends.withLock { $0 } == [
          "changed sleep": .seconds(14), "changed timeout": .seconds(14), "changed clock": .seconds(10),
          "other sleep": .seconds(10), "other timeout": .seconds(10), "other clock": .seconds(10),
        ])
    }
  }

  @Test func `Timers come earlier and later, and in the order of their times`() async throws {
    try await simulated { simulation in
      let host = simulation.host("host")
      let ends = Locked<[String]>([])
      try await withThrowingTaskGroup(of: Void.self) { group in
        for seconds in [8, 2, 4, 6] {
          group.addTask {
            try await host.run { try await Task.sleep(for: .seconds(seconds)) }
            ends.withLock { $0.append("\(seconds): \(simulation.clock.now)") }
          }
        }
        group.addTask {
          try await Self.readInVain(for: .seconds(5))
          ends.withLock { $0.append("main: \(simulation.clock.now)") }
        }
        group.addTask {
          try await Task.sleep(for: .seconds(3))
          host.setClock(drift: 1)
          try await Task.sleep(for: .seconds(1))
          host.setClock(drift: -0.75)
        }
        try await group.waitForAll()
      }
      #expect(
        ends.withLock { $0 } == [
          "2: 2.0 seconds", "4: 3.5 seconds", "main: 5.0 seconds", "6: 8.0 seconds", "8: 16.0 seconds",
        ])
    }
  }

  @Test func `Monotonic clocks do not jump, and an offset moves only the time of day`() async throws {
    try await simulated(Simulation(timeOfDay: .seconds(1_000_000_000))) { simulation in
      let host = simulation.host("host")
      try await host.run {
        try await Task.sleep(for: .seconds(50))
        let before = (ContinuousClock.now, SuspendingClock.now)
        for (offset, drift) in [(3_600, 0.5), (-7_200, -0.9), (0, 0)] as [(Int, Double)] {
          host.setClock(offset: .seconds(offset), drift: drift)
          #expect(before.0 == .now && before.1 == .now)
          #expect(Date().timeIntervalSince1970 == Double(1_000_000_050 + offset))
        }
        host.setClock(offset: .seconds(-2), drift: 0.1)
        try await Task.sleep(for: .seconds(11))
        #expect(Date().timeIntervalSince1970 == 1_000_000_059)
      }
      #expect(simulation.clock.now.elapsed == .seconds(60))
      #expect(Date().timeIntervalSince1970 == 1_000_000_060)
    }
  }

  /// What all functions of the C library show, in seconds: the time of day, and the monotonic time.
  private static func everyClock() -> (timeOfDay: Set<Int>, monotonic: Set<Int>) {
    func show(_ clock: clockid_t) -> Int {
      var time = timespec()
      // SAFETY: the call fills in one such value. So do the others.
      unsafe clock_gettime(clock, &time)
      return time.tv_sec
    }
    var (one, other, spec) = (time_t(), timeval(), timespec())
    let times = unsafe [time(nil), time(&one)]
    unsafe gettimeofday(&other, nil)
    let base = unsafe timespec_get(&spec, TIME_UTC)
    let shown = [CLOCK_REALTIME, CLOCK_REALTIME_COARSE, CLOCK_TAI].map(show)
    return (
      Set(times + shown + [one, other.tv_sec, spec.tv_sec, base == TIME_UTC ? one : 0]),
      Set([CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME].map(show))
    )
  }

  @Test func `Every function of the C library shows the clocks of the host, and on other threads the real ones`()
    async throws
  {
    let real = Self.everyClock()
    try await simulated(Simulation(timeOfDay: .seconds(1_000_000_000))) { simulation in
      let start = Self.everyClock()
      #expect(start.timeOfDay == [1_000_000_000] && start.monotonic.count == 1)
      let host = simulation.host("host")
      host.setClock(offset: .seconds(100), drift: 1)
      try await simulation.clock.sleep(until: .init(elapsed: .seconds(3_600)))
      let (monotonic, here) = (try #require(start.monotonic.first), Self.everyClock())
      #expect(here.timeOfDay == [1_000_003_600] && here.monotonic == [monotonic + 3_600])
      let there = try await host.run { Self.everyClock() }
      #expect(there.timeOfDay == [1_000_007_300] && there.monotonic == [monotonic + 7_200])

      let outside = Locked<(timeOfDay: Set<Int>, monotonic: Set<Int>)?>(nil)
      let condition = Condition()
      try startThread(name: "outside") {
        outside.withLock { $0 = Self.everyClock() }
        condition.signal()
      }
      let shown = outside.wait(for: condition) { $0 }
      // The clocks do not change their second at once.
      let most = try #require(real.timeOfDay.max()) + 600
      #expect(shown.timeOfDay.allSatisfy { (real.timeOfDay.min() ?? 0)...most ~= $0 })
      #expect(shown.monotonic.allSatisfy { $0 >= real.monotonic.min() ?? 0 })
    }
  }

  @Test func `By default a simulation begins at the next midnight, and all of a process at the same`() async throws {
    try await within("both have run") {
      let began = Date()
      var shown: Set<Double> = []
      for _ in 0..<2 {
        let date = try await Simulation().run {
          try await Task.sleep(for: .seconds(3_600))
          return Date().timeIntervalSince1970 - 3_600
        }
        shown.insert(date)
        #expect(date.remainder(dividingBy: 86_400) == 0)
        // The process may have asked for it yesterday.
        #expect(abs(date - began.timeIntervalSince1970) <= 86_400)
      }
      #expect(shown.count == 1)
    }
  }

  @Test(arguments: [SimulatedHost.Crash.process, .power])
  func `A host keeps its clock when it crashes`(kind: SimulatedHost.Crash) async throws {
    try await simulated(Simulation(timeOfDay: .seconds(1_000_000_000))) { simulation in
      let host = simulation.host("host")
      host.setClock(offset: .seconds(7), drift: 1)
      let before = try await host.run { ContinuousClock.now }
      host.crash(kind)
      try await Task.sleep(for: .seconds(10))
      host.restart()
      let (after, date) = try await host.run { (ContinuousClock.now, Date().timeIntervalSince1970) }
      #expect(before.duration(to: after) == .seconds(20))
      #expect(date == 1_000_000_027)
    }
  }

  @Test func `A connection in memory counts its timeouts on the clock of its reactor's host`() async throws {
    try await simulated { simulation in
      let (client, server) = InMemoryConnection.pair()
      let host = simulation.host("fast")
      host.setClock(drift: 1)
      try await Task.sleep(for: .seconds(1_000))
      _ = try await host.run {
        await #expect(throws: SocketError.self) { try await client.read(timeout: .within(.seconds(1))) }
      }
      #expect(simulation.clock.now.elapsed == .seconds(1_001))
      await client.close()
      await server.close()
    }
  }

  @Test func `A datagram has the time of day at which it arrived on its host`() async throws {
    try await simulated(Simulation(timeOfDay: .seconds(1_000_000_000))) { simulation in
      simulation.defaultLink = NetworkLink(latency: .fixed(.milliseconds(250)))
      let host = simulation.host("host")
      host.setClock(offset: .seconds(5))
      async let received = host.run {
        var configuration = UDPEndpoint.Configuration()
        configuration.metadata = [.timestamp]
        let endpoint = try UDPEndpoint.bind(to: .port(53), configuration: configuration)
        try await Task.sleep(for: .seconds(3))
        return try await endpoint.receive().timestamp
      }
      try await Task.sleep(for: .seconds(1))
      let client = try await UDPEndpoint.connect(to: .host("host", port: 53))
      try await client.send([1])
      #expect(try await received == .seconds(1_000_000_006).advanced(by: .milliseconds(250)))
    }
  }

  @Test func `A deadlock and what is left over are told in the time of the simulation`() async throws {
    try await simulated { simulation in
      let host = simulation.host("fast")
      host.setClock(drift: 1)
      host.start {
        let (client, server) = InMemoryConnection.pair()
        async let sleep: Void = Task.sleep(for: .seconds(100))
        async let other: Void = simulation.clock.sleep(until: .init(elapsed: .seconds(70)))
        _ = try? await client.read(timeout: .within(.seconds(60)))
        _ = try await (sleep, other)
        withExtendedLifetime(server) {}
      }
      let error = await #expect(throws: SimulationError.self) { try await simulation.assertQuiet() }
      let lines = error?.waiting ?? []
      #expect(lines.contains("fast: a task sleeps until 50.000000000 s"))
      #expect(lines.contains("fast: a task sleeps until 70.000000000 s"))
      #expect(lines.contains("fast: a socket has a deadline at 30.000000000 s"))
      #expect(simulation.clock.now.elapsed == .seconds(5))
    }
  }

  @Test func `The same seed gives the same run, also with clocks that change`() async throws {
    try await within("all have run") {
      var hashes: Set<UInt64> = []
      for seed in 0..<seeds(20, atMost: 1_000) {
        var traces: Set<UInt64> = []
        for _ in 0..<2 {
          let simulation = Simulation(seed: seed, order: .random)
          try await simulation.run { try await Self.change(simulation) }
          traces.insert(simulation.traceHash)
        }
        #expect(traces.count == 1, "seed \(seed)")
        hashes.formUnion(traces)
      }
      #expect(hashes.count == Int(seeds(20, atMost: 1_000)))
    }
  }

  private static func change(_ simulation: Simulation) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for host in (0..<3).map({ simulation.host("host\($0)") }) {
        group.addTask {
          for _ in 0..<20 {
            let offset = Duration.milliseconds(Int.random(in: -100...100, using: &simulation.random))
            host.setClock(offset: offset, drift: Double.random(in: -0.5...1, using: &simulation.random))
            try await simulation.clock.sleep(
              until: simulation.clock.now.advanced(
                by: .milliseconds(Int.random(in: 1...500, using: &simulation.random))))
          }
        }
        group.addTask {
          try await host.run {
            var last = ContinuousClock.now
            for _ in 0..<30 {
              let pause = Duration.milliseconds(Int.random(in: 1...300, using: &simulation.random))
              try await Task.sleep(for: pause)
              #expect(last.duration(to: .now) >= pause, "a sleep of the host is not early")
              last = ContinuousClock.now
              simulation.note("\(Date().timeIntervalSince1970)")
            }
          }
        }
      }
      try await group.waitForAll()
    }
  }

  @Test(arguments: [(nil, false), (4_102_444_800, true)] as [(Int?, Bool)])
  func `TLS finds certificates valid or expired at the time of day of the simulation`(time: Int?, isExpired: Bool)
    async throws
  {
    let context = try TestContexts.context(.v13)
    try await simulated(Simulation(timeOfDay: time.map { .seconds($0) })) { simulation in
      simulation.host("server.test").start {
        let listener = try TCPListener.bind(to: .port(443))
        try await listener.serve(tls: context) { _ in }
      }
      var found = ""
      do {
        let connection = try await TLSConnection.connect(to: .host("server.test", port: 443), context: context)
        await connection.close()
      } catch {
        found = "\(error)"
      }
      #expect(found.contains("expired") == isExpired && found.isEmpty == !isExpired, "\(found)")
    }
  }

  /// In a process of its own, because a trap ends the process.
  @Test func `An offset may have any value, and so may the time to wait until all is quiet`() async {
    await #expect(processExitsWith: .success) {
      for duration in [Duration(attoseconds: .min), .nanoseconds(Int64.max), Duration(attoseconds: .max)] {
        try await simulated { simulation in
          simulation.host("other").setClock(offset: duration)
          try await Task.sleep(for: .seconds(1))
          try await simulation.assertQuiet(within: duration)
        }
      }
    }
  }
}
