import ActorSocketsTesting
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.conformance, .endsInTime) struct SequenceEndTests {
  @Test(.inRealTime, arguments: Transport.allCases)
  func `A loop ends at its instant, and the part of a line stays`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    try await pair.client.write(utf8: "one\ntwo\nthr")
    let lines = pair.server.lines.ending(at: time.now + .seconds(5))
    let loop = Task { try await lines.reduce(into: []) { $0.append($1) } }
    try await eventually("the loop waits for the third line") {
      let status = await pair.server.status
      return status.queuedReads == 1 && status.bufferedBytes == 3
    }
    await time.advance(by: .seconds(5) - .nanoseconds(1))
    #expect(await pair.server.status.queuedReads == 1)
    await time.advance(by: .nanoseconds(1))
    #expect(try await loop.value == ["one", "two"])
    try await pair.client.write(utf8: "ee\n")
    #expect(try await pair.server.read(until: .lf) == Array("three\n".utf8))
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A loop whose elements never stop ends at its instant`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let writer = Task { while true { try await pair.client.write(pattern(10_000)) } }
    defer { writer.cancel() }
    let end = time.now + .seconds(5)
    var count = 0
    for try await _ in pair.server.chunks.ending(at: end) {
      count += 1
      if count == 20 { await time.advance(by: .seconds(5)) }
    }
    #expect(count == 20)
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `Lines that the loop had looked ahead at stay`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    try await pair.client.write(utf8: (0..<100).map { "\($0)\n" }.joined())
    let all = 10 + 90 * 2 + 100
    try await eventually("all lines are there") { try await pair.server.peek()?.count == all }
    var taken: [String] = []
    for try await line in pair.server.lines.ending(at: time.now + .seconds(5)) {
      taken.append(line)
      if taken.count == 10 { await time.advance(by: .seconds(5)) }
    }
    #expect(taken == (0..<10).map { "\($0)" })
    #expect(try await pair.server.read(until: .lf) == Array("10\n".utf8))
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `The timeout of the elements throws if it comes first`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let messages = pair.server.messages(ofLength: 1, timeout: .seconds(3)).ending(at: time.now + .seconds(5))
    let first = Task.immediate { try await messages.first { _ in true } }
    try await pair.server.hasQueued(reads: 1)
    await time.advance(by: .seconds(3))
    await expectError(.timedOut) { _ = try await first.value }
    // Now the end comes first.
    let second = Task.immediate { try await messages.first { _ in true } }
    try await pair.server.hasQueued(reads: 1)
    await time.advance(by: .seconds(2))
    #expect(try await second.value == nil)
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `Of several ends the earliest counts`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let now = time.now
    let chunks = pair.server.chunks.ending(at: now + .seconds(2)).ending(at: now + .seconds(9)).ending(
      at: now + .seconds(4))
    let loop = Task.immediate { try await chunks.first { _ in true } }
    try await pair.server.hasQueued(reads: 1)
    await time.advance(by: .seconds(2))
    #expect(try await loop.value == nil)
  }

  @Test(arguments: Transport.allCases)
  func `A loop whose instant has passed takes nothing, and throws what other reads throw`(
    transport: Transport
  ) async throws {
    let pair = try await transport.pair(sent: "line\n")
    let past = ContinuousClock.now - .seconds(1)
    for try await line in pair.server.lines.ending(at: past) { Issue.record("the loop got \(line)") }
    #expect(try await pair.server.read(until: .lf) == Array("line\n".utf8))
    await pair.server.abort()
    await expectError(.closed) { for try await _ in pair.server.lines.ending(at: past) {} }
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `An error of the stream is thrown, and is not taken for the end`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let chunks = pair.server.chunks.ending(at: time.now + .seconds(5))
    let loop = Task.immediate { try await chunks.first { _ in true } }
    try await pair.server.hasQueued(reads: 1)
    pair.server.submit { $0.core.terminate(SocketError(.timedOut, operation: "keep-alive"), nil) }
    await expectError(.timedOut) { _ = try await loop.value }
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A loop that ends closes no stream, and other reads go on`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair { $0.onTimeout = .close }
    let chunks = pair.server.chunks.ending(at: time.now + .seconds(5))
    let loop = Task.immediate { try await chunks.first { _ in true } }
    try await pair.server.hasQueued(reads: 1)
    let next = Task.immediate { try await pair.server.read(exactly: 3) }
    let enqueued = pair.server.enqueueRead(.exactly(1))
    let answer = pair.server.enqueueAsk([9], for: .exactly(1))
    #expect(try await pair.client.read() == [9])
    await time.advance(by: .seconds(5))
    #expect(try await loop.value == nil)
    try await pair.client.write([1, 2, 3, 4, 5])
    #expect(try await next.value == [1, 2, 3])
    #expect(try await enqueued.value == [4])
    #expect(try await answer.value == [5])
    #expect(await pair.server.state == .open)
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `Each end leaves no deadline behind`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let end = time.now + .seconds(1_000)
    func armed() async -> Int { await Task(executorPreference: time.reactor) { time.reactor.waitingDeadlines }.value }
    let before = await armed()
    let chunks = pair.server.chunks.ending(at: end)
    for number in 0..<100 as Range<UInt8> {
      async let chunk = chunks.first { _ in true }
      try await pair.server.hasQueued(reads: 1)
      try await pair.client.write([number])
      #expect(try await chunk == [number])
    }
    let cancelled = Task.immediate { try await pair.server.chunks.ending(at: end).first { _ in true } }
    try await pair.server.hasQueued(reads: 1)
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { _ = try await cancelled.value }
    #expect(await armed() == before)
  }
}
