import ActorSockets
import TestSupport
import Testing

/// Two connections with something in between: `near` – `inner` … `outer` – `far`.
private struct Chain: Sendable {
  let near: any ByteStream
  let inner: any ByteStream
  let outer: any ByteStream
  let far: any ByteStream

  init(_ transport: Transport, isNarrow: Bool = false) async throws {
    let first = try await transport.pair { $0.isNarrow = isNarrow }
    let second = try await transport.pair { $0.isNarrow = isNarrow }
    (near, inner, outer, far) = (first.client, first.server, second.client, second.server)
  }
}

@Suite(.conformance, .endsInTime) struct PipeTests {
  @Test(arguments: Transport.allCases, [false, true])
  func `All bytes go through, and the end behind them`(transport: Transport, isNarrow: Bool) async throws {
    let chain = try await Chain(transport, isNarrow: isNarrow)
    let total = 5_000_000
    async let moved = pipe(from: chain.inner, to: chain.outer)
    async let written: Void = {
      var random = SeededRandom(seed: 1)
      var sent = 0
      while sent < total {
        let count = min(total - sent, Int.random(in: 1...200_000, using: &random))
        try await chain.near.write(pattern(count, from: sent))
        sent += count
      }
      try await chain.near.finishWriting()
    }()
    #expect(try await chain.far.readToEnd() == pattern(total))
    try await written
    #expect(try await moved == total)
    // The other direction is as it was.
    try await chain.far.write(utf8: "back")
    #expect(try await chain.outer.read(exactly: 4) == Array("back".utf8))
    for end in [chain.inner, chain.outer] { #expect(await end.state == .open) }
  }

  @Test(arguments: Transport.allCases)
  func `A reader that is slow holds the writer back`(transport: Transport) async throws {
    let chain = try await Chain(transport, isNarrow: true)
    let total = 8 * tooMuch
    async let moved = pipe(from: chain.inner, to: chain.outer)
    let writing = Task.immediate { try await chain.near.write(pattern(total)) }
    try await eventually("the pipe is full") { await chain.outer.status.unsentBytes > 0 }
    // The reactor looks for events between any two of these calls, so a pipe that did not wait would have moved everything.
    for _ in 0..<1000 {
      // One chunk is under way, and nothing is kept beside it.
      #expect(await chain.outer.status.unsentBytes <= 65_536)
      #expect(await chain.inner.status.bufferedBytes == 0)
    }
    #expect(await chain.near.status.unsentBytes > total / 2)
    #expect(try await chain.far.read(exactly: total) == pattern(total))
    try await writing.value
    try await chain.near.finishWriting()
    #expect(try await moved == total)
  }

  // In virtual time no byte would move while the test looks.
  @Test(.inRealTime, arguments: Transport.allCases, 1...5 as ClosedRange<UInt64>)
  func `A pipe that is cancelled at any moment loses nothing, and another goes on`(
    transport: Transport, seed: UInt64
  ) async throws {
    let chain = try await Chain(transport, isNarrow: true)
    let total = 2_000_000
    // The second half waits for the first cancellation, so one always comes before the end.
    let hasCancelled = Gate()
    async let written: Void = {
      let bytes = pattern(total)
      try await chain.near.write(Array(bytes[..<(total / 2)]))
      await hasCancelled.wait()
      try await chain.near.write(Array(bytes[(total / 2)...]))
      try await chain.near.finishWriting()
    }()
    async let arrived = chain.far.readToEnd()
    var random = SeededRandom(seed: seed)
    var cancelled = 0
    while true {
      let moving = begin(on: .shared, using: &random) { try await pipe(from: chain.inner, to: chain.outer) }
      let patience = Int.random(in: 0..<100_000, using: &random)
      let before = await chain.inner.metrics.bytesReceived
      var looks = 0
      while looks < 50, await chain.inner.metrics.bytesReceived < before + patience { looks += 1 }
      // The last one is left to itself.
      let received = await chain.inner.metrics.bytesReceived
      if cancelled == 0 || received < total / 2 { moving.cancel() }
      do {
        _ = try await moving.value
        break
      } catch is CancellationError {
        cancelled += 1
        hasCancelled.open()
      }
    }
    try await written
    #expect(try await arrived == pattern(total))
    #expect(cancelled > 0)
  }

  @Test(arguments: Transport.allCases)
  func `A chunk that waits for room stays when its pipe is cancelled`(transport: Transport) async throws {
    let chain = try await Chain(transport, isNarrow: true)
    let moving = Task { try await pipe(from: chain.inner, to: chain.outer) }
    try await chain.inner.hasQueued(reads: 1)
    // A write in front of the chunk waits, so no byte of the chunk can be sent.
    let first = Task.immediate { try await chain.outer.write(pattern(tooMuch)) }
    try await eventually("the way is full") { await chain.outer.status.unsentBytes > 0 }
    try await chain.near.write(utf8: "kept")
    try await chain.outer.hasQueued(writes: 2)
    moving.cancel()
    await expectCancellation { _ = try await moving.value }
    #expect(await chain.outer.status.queuedWrites == 2)
    #expect(try await chain.far.read(exactly: tooMuch) == pattern(tooMuch))
    try await first.value
    #expect(try await chain.far.read(exactly: 4) == Array("kept".utf8))
  }

  @Test(arguments: Transport.allCases.filter(\.hasReset))
  func `A source that breaks leaves the destination without an end`(transport: Transport) async throws {
    let chain = try await Chain(transport)
    let moving = Task { try await pipe(from: chain.inner, to: chain.outer) }
    try await chain.near.write(utf8: "part")
    #expect(try await chain.far.read(exactly: 4) == Array("part".utf8))
    await chain.near.abort()
    let error = await expectPipeError(.connectionReset, .first, .reading) { _ = try await moving.value }
    #expect(error.operation == "read")
    try await chain.outer.write(utf8: "more")
    #expect(try await chain.far.read(exactly: 4) == Array("more".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `A destination that takes nothing more fails the pipe, and the source stays open`(
    transport: Transport
  ) async throws {
    let chain = try await Chain(transport)
    try await chain.outer.finishWriting()
    try await chain.near.write(utf8: "in vain")
    let error = await expectPipeError(.closed, .second, .writing) {
      _ = try await pipe(from: chain.inner, to: chain.outer)
    }
    #expect(error.operation == "write")
    try await chain.inner.write(utf8: "sorry")
    #expect(try await chain.near.read(exactly: 5) == Array("sorry".utf8))
  }
}

@Suite(.conformance, .endsInTime) struct RelayTests {
  @Test(arguments: Transport.allCases)
  func `Both directions move, each to its own end`(transport: Transport) async throws {
    let chain = try await Chain(transport)
    async let counts = relay(between: chain.inner, and: chain.outer)
    try await chain.near.write(utf8: "question")
    try await chain.near.finishWriting()
    #expect(try await chain.far.readToEnd() == Array("question".utf8))
    for _ in 0..<50 {
      try await chain.far.write(utf8: "answer")
      #expect(try await chain.near.read(exactly: 6) == Array("answer".utf8))
    }
    try await chain.far.finishWriting()
    #expect(try await chain.near.read() == nil)
    let (fromFirst, fromSecond) = try await counts
    #expect(fromFirst == 8 && fromSecond == 300)
    for end in [chain.inner, chain.outer] { #expect(await end.state == .open) }
  }

  @Test(arguments: Transport.allCases.filter(\.hasReset), [false, true])
  func `The reset of one side reaches the other, behind what came before`(
    transport: Transport, isFar: Bool
  ) async throws {
    let chain = try await Chain(transport)
    let (breaking, other) = isFar ? (chain.far, chain.near) : (chain.near, chain.far)
    let relaying = Task { try await relay(between: chain.inner, and: chain.outer) }
    try await breaking.write(utf8: "last words")
    #expect(try await other.read(exactly: 10) == Array("last words".utf8))
    await breaking.abort()
    await expectPipeError(.connectionReset, isFar ? .second : .first, .reading) { _ = try await relaying.value }
    await expectError(.connectionReset) { _ = try await other.read() }
    for end in [chain.inner, chain.outer] { #expect(await end.state == .closed) }
  }

  @Test(arguments: Transport.allCases.filter(\.hasReset))
  func `A reset met by a write is found behind the bytes that came before it`(transport: Transport) async throws {
    let chain = try await Chain(transport)
    try await chain.far.write(utf8: "the reason")
    await chain.far.abort()
    let writing = Task.immediate { try? await chain.near.write(pattern(100_000)) }
    // The read or the write finds it first.
    await expectError(.connectionReset) {
      do { try await relay(between: chain.inner, and: chain.outer) } catch let error as PipeError {
        #expect(error.stream == .second, "\(error)")
        throw error.underlyingError
      }
    }
    await writing.value
    let received = await chain.outer.metrics.bytesReceived
    #expect(await chain.inner.metrics.bytesSent == received)
  }

  @Test(arguments: Transport.allCases, [false, true])
  func `A stream to which nothing more can be written is named`(transport: Transport, isFar: Bool) async throws {
    let chain = try await Chain(transport)
    let (finished, sender) = isFar ? (chain.outer, chain.near) : (chain.inner, chain.far)
    try await finished.finishWriting()
    let relaying = Task { try await relay(between: chain.inner, and: chain.outer) }
    try await sender.write(utf8: "in vain")
    // The other direction goes on until its source ends.
    let other = isFar ? chain.far : chain.near
    try await other.finishWriting()
    await expectPipeError(.closed, isFar ? .second : .first, .writing) { _ = try await relaying.value }
  }

  @Test(arguments: Transport.allCases)
  func `A relay that is cancelled leaves both streams open`(transport: Transport) async throws {
    let chain = try await Chain(transport)
    let relaying = Task { try await relay(between: chain.inner, and: chain.outer) }
    try await chain.near.write(utf8: "1")
    #expect(try await chain.far.read(exactly: 1) == Array("1".utf8))
    relaying.cancel()
    await expectCancellation { _ = try await relaying.value }
    async let again = relay(between: chain.inner, and: chain.outer)
    try await chain.near.write(utf8: "2")
    #expect(try await chain.far.read(exactly: 1) == Array("2".utf8))
    try await chain.near.finishWriting()
    try await chain.far.finishWriting()
    #expect(try await again == (1, 0))
  }

  @Test(arguments: Transport.allCases)
  func `A pipe and a relay that have passed on an end may be called again`(transport: Transport) async throws {
    let chain = try await Chain(transport)
    try await chain.near.write(pattern(10))
    try await chain.near.finishWriting()
    let relaying = Task { try await relay(between: chain.inner, and: chain.outer) }
    let received = try await chain.far.readToEnd()
    #expect(received == pattern(10))
    relaying.cancel()
    await expectCancellation { _ = try await relaying.value }
    let moved = try await pipe(from: chain.inner, to: chain.outer)
    #expect(moved == 0)
    try await chain.far.write(pattern(5))
    try await chain.far.finishWriting()
    for expected in [5, 0] {
      let counts = try await relay(between: chain.inner, and: chain.outer)
      #expect(counts == (0, expected))
    }
    let answer = try await chain.near.readToEnd()
    #expect(answer == pattern(5))
    await chain.outer.abort()
    await expectPipeError(.closed, .second, .writing) { _ = try await pipe(from: chain.inner, to: chain.outer) }
  }

  @Test func `Streams on two reactors are joined, too`() async throws {
    let other = Reactor()
    let first = try await Transport.tcpOverIPv4.pair()
    let second = try await Transport.tcpOverIPv4.pair(on: other)
    async let counts = relay(between: first.server, and: second.client)
    for (from, to) in [(first.client, second.server), (second.server, first.client)] {
      async let written: Void = {
        try await from.write(pattern(3_000_000))
        try await from.finishWriting()
      }()
      #expect(try await to.readToEnd() == pattern(3_000_000))
      try await written
    }
    #expect(try await counts == (3_000_000, 3_000_000))
  }
}
