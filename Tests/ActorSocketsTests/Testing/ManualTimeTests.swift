import ActorSockets
import ActorSocketsTesting
import EpollReactor
import TestSupport
import Testing

@Suite struct ManualTimeTests {
  private nonisolated(nonsending) func withManualTime(
    _ what: String, seconds: Int = 60, line: Int = #line,
    _ body: nonisolated(nonsending) (ManualTime) async throws -> Void
  ) async throws {
    try await within(what, seconds: seconds, line: line) { try await body(ManualTime()) }
  }

  // MARK: Sleeping

  @Test func `A sleep ends when the test has advanced to its time, and not before`() async throws {
    try await withManualTime("the sleep has ended") { time in
      let start = time.now
      let hasEnded = Notes<ContinuousClock.Instant>()
      let sleeping = Task {
        try await time.clock.sleep(for: .seconds(60))
        hasEnded.add(time.now)
      }
      try await time.advance(by: .nanoseconds(59_999_999_999), whenWaiting: 1)
      try await time.waitForDeadlines(1)
      #expect(hasEnded.all.isEmpty)
      await time.advance(by: .nanoseconds(1))
      try await sleeping.value
      #expect(hasEnded.all == [start + .seconds(60)])
    }
  }

  @Test(arguments: [Duration.zero, .seconds(-1), .seconds(Int64.min)])
  func `A sleep until the past or the present returns at once`(duration: Duration) async throws {
    try await withManualTime("the sleep has ended") { time in
      await time.advance(by: .seconds(5))
      try await time.clock.sleep(for: duration)
      try await time.clock.sleep(until: time.now + duration)
    }
  }

  @Test func `A cancelled sleep throws CancellationError and leaves nothing behind`() async throws {
    try await withManualTime("the sleeps have ended") { time in
      let sleeping = Task { try await time.clock.sleep(for: .seconds(60)) }
      let longer = Task { try await time.clock.sleep(for: .seconds(61)) }
      try await time.waitForDeadlines(2)
      sleeping.cancel()
      await #expect(throws: CancellationError.self) { try await sleeping.value }
      let error = await #expect(throws: ManualTimeError.self) { try await time.waitForDeadlines(2, within: .zero) }
      #expect(error?.waiting == 1)
      await time.advance(by: .seconds(61))
      try await longer.value
    }
  }

  @Test func `A sleep of a cancelled task throws CancellationError, also if its time has passed`() async throws {
    try await withManualTime("the sleeps have ended") { time in
      for duration in [Duration.seconds(60), .zero] {
        let isCancelled = Gate()
        let sleeping = Task {
          await isCancelled.wait()
          try await time.clock.sleep(for: duration)
        }
        sleeping.cancel()
        isCancelled.open()
        await #expect(throws: CancellationError.self) { try await sleeping.value }
      }
    }
  }

  @Test func `A sleep that is cancelled at its time has one outcome`() async throws {
    try await withManualTime("every sleep has ended", seconds: 600) { time in
      for _ in 0..<(wantedRounds ?? 200) {
        let sleeping = Task { try await time.clock.sleep(for: .seconds(1)) }
        try await time.waitForDeadlines(1)
        async let cancelled: Void = { @concurrent () async in sleeping.cancel() }()
        await time.advance(by: .seconds(1))
        await cancelled
        switch await sleeping.result {
        case .success: break
        case .failure(let error): #expect(error is CancellationError)
        }
        // Nothing of it is left.
        let error = await #expect(throws: ManualTimeError.self) { try await time.waitForDeadlines(1, within: .zero) }
        #expect(error?.waiting == 0)
      }
    }
  }

  @Test func `Sleeps and timeouts end in the order of their times, each at its own`() async throws {
    try await withManualTime("everything has ended") { time in
      let start = time.now
      let (client, server) = InMemoryConnection.pair(reactor: time.reactor)
      // It keeps the connection open.
      defer { withExtendedLifetime(server) {} }
      let order = Notes<String>()
      let tasks = (1...3).map { number in
        // On the reactor, what follows a sleep runs in the order in which the sleeps end.
        Task(executorPreference: time.reactor) {
          try await time.clock.sleep(until: start + .seconds(4 - number))
          order.add("sleep \(4 - number)")
        }
      }
      let read = client.enqueueRead(.until(.lf), timeout: .until(start + .seconds(2.5)))
      try await time.advance(by: .seconds(2), whenWaiting: 4)
      try await eventually("two sleeps have ended") { order.all.count == 2 }
      #expect(order.all == ["sleep 1", "sleep 2"])
      await time.advance(by: .seconds(0.5))
      await expectError(.timedOut) { _ = try await read.value }
      await time.advance(by: .seconds(0.5))
      for task in tasks { try await task.value }
      #expect(order.all == ["sleep 1", "sleep 2", "sleep 3"])
    }
  }

  @Test func `A loop that sleeps runs once for each step of the test`() async throws {
    try await withManualTime("the loop has ended") { time in
      let times = Notes<Duration>()
      let start = time.now
      let loop = Task {
        let clock: any Clock<Duration> = time.clock
        while true {
          try await Task.sleep(for: .seconds(10), clock: clock)
          times.add(time.now - start)
        }
      }
      for step in 1...5 {
        try await time.advance(by: .seconds(10), whenWaiting: 1)
        try await time.waitForDeadlines(1)
        #expect(times.all == (1...step).map { .seconds(10 * $0) })
      }
      loop.cancel()
      await #expect(throws: CancellationError.self) { try await loop.value }
    }
  }

  @Test func `Sleeps go on after the reactor was shut down`() async throws {
    try await withManualTime("the sleep has ended") { time in
      let sleeping = Task { try await time.clock.sleep(for: .seconds(1)) }
      try await time.waitForDeadlines(1)
      time.reactor.shutdown()
      await time.advance(by: .seconds(1))
      try await sleeping.value
    }
  }

  @Test func `The reactor ends with the last reference to its time`() async throws {
    weak var reactor: Reactor?
    try await withManualTime("the sleep has ended") { time in
      reactor = time.reactor
      let sleeping = Task { try await time.clock.sleep(for: .seconds(1)) }
      try await time.advance(by: .seconds(1), whenWaiting: 1)
      try await sleeping.value
    }
    try await eventually("the reactor is gone") { reactor == nil }
  }

  // MARK: Waiting for deadlines

  @Test func `Advancing when an operation waits is never too early`() async throws {
    try await within("every read has timed out", seconds: 300) {
      // Each round makes a reactor with a thread.
      for _ in 0..<min(wantedRounds ?? 200, 100_000) {
        let time = ManualTime()
        let (client, server) = InMemoryConnection.pair(reactor: time.reactor)
        defer { withExtendedLifetime(server) {} }
        let line = Task { try await client.read(until: .lf, timeout: .seconds(30)) }
        try await time.advance(by: .seconds(30), whenWaiting: 1)
        await expectError(.timedOut) { _ = try await line.value }
      }
    }
  }

  @Test func `Waiting for deadlines counts sleeps and timeouts, and ends when there are enough`() async throws {
    try await withManualTime("there are enough deadlines") { time in
      try await time.waitForDeadlines(0)
      let (client, server) = InMemoryConnection.pair(reactor: time.reactor)
      let hasEnded = Notes<Int>()
      async let three: Void = {
        try await time.waitForDeadlines(3)
        hasEnded.add(3)
      }()
      async let two: Void = {
        try await time.waitForDeadlines(2)
        hasEnded.add(2)
      }()
      let reads = [client, server].map { $0.enqueueRead(.until(.lf), timeout: .seconds(30)) }
      try await two
      // A read without a timeout has no deadline, and neither has one that waits for another.
      let others = [client.enqueueRead(.until(.lf)), server.enqueueRead(.until(.lf), timeout: .seconds(1))]
      await time.advance(by: .zero)
      #expect(hasEnded.all == [2])
      let sleeping = Task { try await time.clock.sleep(for: .seconds(1)) }
      try await three
      #expect(hasEnded.all == [2, 3])
      for read in reads + others { read.cancel() }
      sleeping.cancel()
      for read in reads + others { _ = try? await read.value }
    }
  }

  @Test func `Waiting for deadlines that do not come fails with a sentence`() async throws {
    try await withManualTime("the wait has failed") { time in
      let sleeping = Task { try await time.clock.sleep(for: .seconds(1)) }
      try await time.waitForDeadlines(1)
      let start = time.now
      let error = await #expect(throws: ManualTimeError.self) {
        try await time.advance(by: .seconds(1), whenWaiting: 2, within: .milliseconds(1))
      }
      #expect(
        "\(try #require(error))"
          == "after 0.001 seconds of real time, 1 deadline of 2 waits on the manual clock: 1 sleep and 0 timeouts")
      #expect(time.now == start)
      await time.advance(by: .seconds(1))
      try await sleeping.value
    }
  }

  @Test(arguments: [true, false])
  func `Waiting for deadlines ends when it is cancelled, and the clock does not move`(isBefore: Bool) async throws {
    try await withManualTime("the wait was cancelled") { time in
      let start = time.now
      let mayWait = Gate()
      let waiting = Task {
        await mayWait.wait()
        try await time.advance(by: .seconds(1), whenWaiting: 1, within: .seconds(3_600))
      }
      if isBefore { waiting.cancel() }
      mayWait.open()
      try await time.reactor.sleeps()
      waiting.cancel()
      await #expect(throws: CancellationError.self) { try await waiting.value }
      #expect(time.now == start)
    }
  }

  @Test func `A deadline of a socket counts, and one of a closed connection does not`() async throws {
    try await withManualTime("the connections are closed") { time in
      let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)), reactor: time.reactor)
      async let accepted = listener.accept()
      let client = try await TCPConnection.connect(
        to: .address(try #require(listener.localAddresses.first)), reactor: time.reactor)
      let server = try await accepted
      let read = client.enqueueRead(.until(.lf), timeout: .seconds(30))
      try await time.waitForDeadlines(1)
      await client.abort()
      await expectError(.closed) { _ = try await read.value }
      await client.close()
      await server.close()
      let error = await #expect(throws: ManualTimeError.self) { try await time.waitForDeadlines(1, within: .zero) }
      #expect(error?.waiting == 0)
      await listener.close()
    }
  }
}
