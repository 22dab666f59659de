import ActorSocketsTesting
import EpollReactor
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.conformance, .endsInTime) struct RateLimitTests {
  /// A rate at which nothing more moves during a test.
  private static let tiny = RateLimit(bytesPerSecond: 1, burst: 10)

  @Test(arguments: Transport.allCases)
  func `Exactly the largest number of bytes passes, and one more does not`(transport: Transport) async throws {
    for extra in [0, 1] {
      let (source, destination) = (try await transport.pair(), try await transport.pair())
      try await source.client.write(pattern(20_000 + extra))
      try await source.client.finishWriting()
      let limit = RateLimit(bytesPerSecond: .max, burst: 1 << 20, maximumBytes: 20_000)
      let (from, to) = (source.server, destination.client)
      let piping = Task { try await pipe(from: from, to: to, limit: limit) }
      if extra == 0 {
        let received = try await destination.server.readToEnd()
        #expect(received == pattern(20_000))
        let count = try await piping.value
        #expect(count == 20_000)
      } else {
        let received = try await destination.server.read(exactly: 20_000)
        #expect(received == pattern(20_000))
        let error = await expectPipeError(.limitExceeded, .first, .reading, saying: "more than 20000 bytes") {
          _ = try await piping.value
        }
        #expect(error.operation == "read" && error.bytesTransferred == 20_000)
        // The byte beyond the limit stays.
        let rest = try await source.server.readToEnd()
        #expect(rest == pattern(1, from: 20_000))
      }
    }
  }

  @Test(arguments: Transport.allCases)
  func `A pause that is cancelled loses nothing`(transport: Transport) async throws {
    let (source, destination) = (try await transport.pair(), try await transport.pair())
    try await source.client.write(pattern(5_000))
    try await source.client.finishWriting()
    let (from, to) = (source.server, destination.client)
    let limited = Task { try await pipe(from: from, to: to, limit: Self.tiny) }
    let first = try await destination.server.read(exactly: 10)
    #expect(first == pattern(10))
    limited.cancel()
    await expectCancellation { _ = try await limited.value }
    let piping = Task { try await pipe(from: from, to: to) }
    let rest = try await destination.server.readToEnd()
    #expect((first + rest) == pattern(5_000))
    _ = try await piping.value
  }

  @Test(arguments: Transport.allCases)
  func `If more bytes arrive than a relay may move, both streams are aborted`(transport: Transport) async throws {
    let (one, other) = (try await transport.pair(), try await transport.pair())
    let limit = RateLimit(bytesPerSecond: 1_000_000, maximumBytes: 100)
    let (first, second) = (one.server, other.client)
    let relaying = Task { try await relay(between: first, and: second, limit: limit) }
    try await one.client.write(pattern(100))
    let received = try await other.server.read(exactly: 100)
    #expect(received == pattern(100))
    try await one.client.write([1])
    await expectPipeError(.limitExceeded, .first, .reading) { _ = try await relaying.value }
    let states = (await first.state, await second.state)
    #expect(states == (.closed, .closed))
  }

  @Test(arguments: Transport.allCases)
  func `Limits that make no sense are refused`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let limits = [
      RateLimit(bytesPerSecond: 0), RateLimit(bytesPerSecond: 5, burst: 0),
      RateLimit(bytesPerSecond: 5, maximumBytes: -1), RateLimit(bytesPerSecond: 5, maximumTime: .zero),
    ]
    for limit in limits {
      await expectError(.invalidArgument) { _ = try await pipe(from: pair.client, to: pair.server, limit: limit) }
      await expectError(.invalidArgument) { _ = try await relay(between: pair.client, and: pair.server, limit: limit) }
    }
    #expect(await pair.client.state == .open)
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A pipe whose time is over loses nothing, and both streams stay open`(transport: Transport) async throws {
    let (time, source) = try await transport.timedPair()
    let destination = InMemoryConnection.pair()
    let (from, to) = (source.server, destination.0)
    let limit = RateLimit(bytesPerSecond: .max, maximumTime: .seconds(5))
    for part in 0..<3 {
      let piping = Task { try await pipe(from: from, to: to, limit: limit) }
      try await source.client.write(pattern(100, from: part * 100))
      let received = try await destination.1.read(exactly: 100)
      #expect(received == pattern(100, from: part * 100))
      try await time.waitForDeadlines(1)
      await time.advance(by: .seconds(5) - .nanoseconds(1))
      try await time.waitForDeadlines(1)
      await time.advance(by: .nanoseconds(1))
      let error = await expectError(.timedOut) { _ = try await piping.value }
      #expect(error.operation == "pipe" && error.description.contains("5 s"), "\(error)")
    }
    let states = (await from.state, await to.state)
    #expect(states == (.open, .open))
  }

  @Test(arguments: Transport.allCases)
  func `A relay that ends in time returns, and one that does not leaves its streams open`(transport: Transport)
    async throws
  {
    let (one, other) = (try await transport.pair(), try await transport.pair())
    let (first, second) = (one.server, other.client)
    await expectError(.timedOut) {
      _ = try await relay(
        between: first, and: second, limit: RateLimit(bytesPerSecond: .max, maximumTime: .milliseconds(1)))
    }
    let relaying = Task {
      try await relay(between: first, and: second, limit: RateLimit(bytesPerSecond: .max, maximumTime: .seconds(1000)))
    }
    try await one.client.write(pattern(100))
    try await one.client.finishWriting()
    let received = try await other.server.readToEnd()
    #expect(received == pattern(100))
    try await other.server.finishWriting()
    let counts = try await relaying.value
    #expect(counts == (100, 0))
  }

  // A relay whose time is over may have passed on one end already.
  @Test(arguments: Transport.allCases)
  func `A relay that has passed on one end goes on after its time`(transport: Transport) async throws {
    let (one, other) = (try await transport.pair(), try await transport.pair())
    let (first, second) = (one.server, other.client)
    try await one.client.write(pattern(100))
    try await one.client.finishWriting()
    let relaying = Task {
      try await relay(
        between: first, and: second, limit: RateLimit(bytesPerSecond: .max, maximumTime: .milliseconds(50)))
    }
    let received = try await other.server.readToEnd()
    #expect(received == pattern(100))
    await expectError(.timedOut) { _ = try await relaying.value }
    try await other.server.write(pattern(50))
    try await other.server.finishWriting()
    let counts = try await relay(between: first, and: second)
    #expect(counts == (0, 50))
    let answer = try await one.client.readToEnd()
    #expect(answer == pattern(50))
  }

  @Test(arguments: Transport.allCases)
  func `The time also ends a wait for a slow destination`(transport: Transport) async throws {
    let (source, destination) = (try await transport.pair(), try await transport.pair())
    let (from, to) = (source.server, destination.client)
    let piping = Task {
      try await pipe(from: from, to: to, limit: RateLimit(bytesPerSecond: .max, maximumTime: .milliseconds(200)))
    }
    // More than both kernels hold.
    let count = 8_000_000
    let sending = Task {
      try await source.client.write(pattern(count))
      try await source.client.finishWriting()
    }
    await expectError(.timedOut) { _ = try await piping.value }
    let rest = Task { try await pipe(from: from, to: to) }
    let received = try await destination.server.readToEnd()
    #expect(received == pattern(count))
    _ = try await rest.value
    try await sending.value
  }

  @Test(.inRealTime) func `The time of a relay passes in a simulation`() async throws {
    try await simulated { _ in
      let (one, other) = (InMemoryConnection.pair(), InMemoryConnection.pair())
      let start = ContinuousClock.now
      await expectError(.timedOut) {
        _ = try await relay(
          between: one.1, and: other.0, limit: RateLimit(bytesPerSecond: 10, maximumTime: .seconds(3600)))
      }
      #expect(start.duration(to: .now) == .seconds(3600))
    }
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `Bytes move at the rate, to the nanosecond`(transport: Transport) async throws {
    let (time, source) = try await transport.timedPair()
    let destination = InMemoryConnection.pair()
    try await source.client.write(pattern(3_000))
    let from = source.server
    let to = destination.0
    let piping = Task {
      try await pipe(from: from, to: to, limit: RateLimit(bytesPerSecond: 1_000, burst: 500))
    }
    let burst = try await destination.1.read(exactly: 500)
    #expect(burst == pattern(500))
    // The pause before the next ten bytes, which are worth a read.
    for number in 0..<20 {
      try await time.waitForDeadlines(1)
      await time.advance(by: .milliseconds(10) - .nanoseconds(1))
      #expect(await destination.1.metrics.bytesReceived == 500 + number * 10)
      await time.advance(by: .nanoseconds(1))
      let next = try await destination.1.read(exactly: 10)
      #expect(next == pattern(10, from: 500 + number * 10))
    }
    piping.cancel()
    await expectCancellation { _ = try await piping.value }
  }

  @Test(.inRealTime) func `A reactor that is shut down ends a pause`() async throws {
    let time = ManualTime()
    let source = InMemoryConnection.pair(reactor: time.reactor)
    let destination = InMemoryConnection.pair()
    try await source.0.write(pattern(100))
    let piping = Task { try await pipe(from: source.1, to: destination.0, limit: Self.tiny) }
    _ = try await destination.1.read(exactly: 10)
    try await time.waitForDeadlines(1)
    time.reactor.shutdown()
    await expectPipeError(.reactorShutDown, .first, .reading) { _ = try await piping.value }
  }

  @Test(.inRealTime) func `A transfer takes the time of its bytes beyond the burst`() async throws {
    try await simulated { _ in
      for (count, rate, burst) in [(100_000, 10_000, 1_000), (1_000, 7, 100), (2_000, 1_000_000, 1)] {
        let (source, destination) = (InMemoryConnection.pair(), InMemoryConnection.pair())
        async let writing: Void = {
          try await source.0.write(pattern(count))
          try await source.0.finishWriting()
        }()
        async let received = destination.1.readToEnd()
        let start = ContinuousClock.now
        _ = try await pipe(
          from: source.1, to: destination.0, limit: RateLimit(bytesPerSecond: rate, burst: burst))
        let seconds = start.duration(to: .now) / .seconds(1)
        let expected = Double(count - burst) / Double(rate)
        // Before the end is read, there is one more pause.
        try #require(seconds - expected >= 0, "\(seconds) for \(expected)")
        try #require(seconds - expected < 0.011 + 1 / Double(rate), "\(seconds) for \(expected)")
        let bytes = try await received
        try #require(bytes == pattern(count))
        try await writing
      }
    }
  }
}
