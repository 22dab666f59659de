import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct LifetimeTests {
  /// One end, and the outcome of what is done with the other before it is dropped.
  private func drop<Value: Sendable>(
    _ transport: Transport, on reactor: Reactor = .shared, _ change: (inout PairOptions) -> Void = { _ in },
    after body: (any ByteStream) async throws -> Value
  ) async throws -> (kept: any ByteStream, value: Value) {
    let pair = try await transport.pair(on: reactor, change)
    return (pair.client, try await body(pair.server))
  }

  @Test(arguments: Transport.allCases)
  func `Dropping the last reference closes`(transport: Transport) async throws {
    let (kept, _) = try await drop(transport) { try await $0.write(Array("bye".utf8)) }
    #expect(try await kept.readToEnd() == Array("bye".utf8))
    await kept.close()
  }

  @Test(arguments: Transport.allCases)
  func `Dropping with unread input does not destroy what was sent`(transport: Transport) async throws {
    let pair = try await transport.pair()
    try await pair.client.write(pattern(10_000))
    let client = pair.client
    func last(_ server: consuming any ByteStream) async throws {
      _ = try await server.peek()
      try await server.write(pattern(10_000))
    }
    try await last(pair.server)
    let (kept, _) = try await drop(transport) { server in
      _ = try await server.write(pattern(20_000))
    }
    #expect(try await kept.readToEnd() == pattern(20_000))
    #expect(try await client.read(exactly: 10_000) == pattern(10_000))
  }

  @Test(arguments: Transport.allCases, [false, true])
  func `A read that waits keeps a stream alive until it is done`(transport: Transport, isEnqueued: Bool) async throws {
    let (kept, outcome) = try await drop(transport) { server -> @Sendable () async throws -> [UInt8] in
      if isEnqueued {
        let pending = server.enqueueRead(.exactly(5))
        return { try await pending.value }
      }
      let reading = Task.immediate { try await server.read(exactly: 5) }
      return { try await reading.value }
    }
    try await kept.write(Array("hello".utf8))
    #expect(try await outcome() == Array("hello".utf8))
    #expect(try await kept.read() == nil)
    await kept.close()
  }

  enum Unfinished: CaseIterable { case enqueuedWrite, cancelledWrite, cancelledClose }

  @Test(arguments: Transport.allCases, Unfinished.allCases)
  func `Bytes that were written are sent although stream and handles are dropped`(
    transport: Transport, unfinished: Unfinished
  ) async throws {
    let (kept, _) = try await drop(transport, { $0.isNarrow = true }) { server in
      if unfinished != .cancelledWrite { _ = server.enqueueWrite(pattern(tooMuch)) }
      switch unfinished {
      case .enqueuedWrite: break
      case .cancelledWrite:
        let writing = Task.immediate { try await server.write(pattern(tooMuch)) }
        try await server.hasSentPart()
        writing.cancel()
        await expectCancellation { try await writing.value }
      case .cancelledClose:
        let closing = Task.immediate { await server.close() }
        try await eventually("it closes") { await server.state == .closing }
        closing.cancel()
        await closing.value
      }
    }
    #expect(try await kept.readToEnd() == pattern(tooMuch))
    await kept.close()
  }

  @Test(arguments: Transport.allCases)
  func `A stream goes when nothing needs it any more`(transport: Transport) async throws {
    func use() async throws -> [Weak] {
      let pair = try await transport.pair()
      for (from, to) in [(pair.client, pair.server), (pair.server, pair.client)] {
        let pending = to.enqueueRead(.exactly(3))
        let timed = to.enqueueRead(.exactly(3), timeout: .seconds(1000))
        timed.cancel()
        try await from.enqueueWrite(Array("abc".utf8)).value
        _ = try await pending.value
        await expectCancellation { _ = try await timed.value }
        let reading = Task.immediate { try await to.read(exactly: 1, timeout: .seconds(1000)) }
        reading.cancel()
        await expectCancellation { _ = try await reading.value }
      }
      return [Weak(pair.client), Weak(pair.server)]
    }
    let streams = try await use()
    try await eventually("the streams are gone") { streams.allSatisfy(\.isGone) }
  }

  @Test(.inRealTime, arguments: Transport.allCases.filter(\.hasReset))
  func `The rest of a write that was given up keeps a dropped stream for the close timeout, then the peer is reset`(
    transport: Transport
  ) async throws {
    let time = ManualTime()
    let (kept, stream) = try await drop(transport, on: time.reactor, Self.narrow) { try await Self.giveUp($0, time) }
    await time.advance(by: .seconds(20) - .nanoseconds(1))
    #expect(!stream.isGone)
    // A few more bytes may find room by then, and the time begins anew.
    try await eventually("the stream is gone") {
      await time.advance(by: .seconds(20))
      return stream.isGone
    }
    // The bytes that were sent arrive. A reset follows them, so that they are not taken for all.
    await expectError(.connectionReset) { _ = try await kept.readToEnd() }
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A peer that takes its time but takes something gets all of a write that was given up`(
    transport: Transport
  ) async throws {
    let time = ManualTime()
    let (kept, stream) = try await drop(transport, on: time.reactor, Self.narrow) { try await Self.giveUp($0, time) }
    await time.advance(by: .seconds(20) - .nanoseconds(1))
    // More than is under way, so that more is sent.
    #expect(try await kept.read(exactly: tooMuch / 2) == pattern(tooMuch / 2))
    await time.advance(by: .seconds(20) - .nanoseconds(1))
    #expect(!stream.isGone)
    #expect(try await kept.readToEnd() == pattern(tooMuch / 2, from: tooMuch / 2))
    await kept.close()
    try await eventually("the stream is gone") { stream.isGone }
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A write that was given up is not torn as long as somebody has the stream`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair(Self.narrow)
    _ = try await Self.giveUp(pair.client, time)
    await time.advance(by: .seconds(1000))
    #expect(await pair.client.state == .open)
    #expect(try await pair.server.read(exactly: tooMuch) == pattern(tooMuch))
    try await pair.client.write(Array("and more".utf8))
    #expect(try await pair.server.read(exactly: 8) == Array("and more".utf8))
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A read that waits keeps the rest of a write that was given up`(transport: Transport) async throws {
    let time = ManualTime()
    func use() async throws -> any ByteStream {
      let pair = try await transport.pair(on: time.reactor, Self.narrow)
      let (stream, peer) = (pair.client, pair.server)
      // A read that is over leaves its operation to the next one.
      try await peer.write([1])
      #expect(try await stream.read(upTo: 10) == [1])
      _ = try await Self.giveUp(stream, time)
      let reading = Task.immediate { try await stream.read(upTo: 10) }
      try await stream.hasQueued(reads: 1)
      await time.advance(by: .seconds(1000))
      try await peer.write([2])
      #expect(try await reading.value == [2])
      return peer
    }
    let kept = try await use()
    #expect(try await kept.readToEnd() == pattern(tooMuch))
    await kept.close()
  }

  private static func narrow(_ options: inout PairOptions) { options = .narrow(closeTimeout: .seconds(20)) }

  /// Writes too much, and gives it up when a part is sent.
  private static func giveUp(_ stream: any ByteStream, _ time: ManualTime) async throws -> Weak {
    let writing = Task.immediate { try await stream.write(pattern(tooMuch), timeout: .seconds(1)) }
    try await stream.hasSentPart()
    await time.advance(by: .seconds(1))
    await expectError(.timedOut) { try await writing.value }
    return Weak(stream)
  }

  enum Ending: CaseIterable {
    case abort, close, cancelledClose, closeAfterReads, peerFinishes, peerAborts, givenUpWrite, shutdown
  }

  @Test(.inRealTime, arguments: Transport.allCases, Ending.allCases)
  func `Nothing keeps a stream that is over, whatever was done with it`(
    transport: Transport, ending: Ending
  ) async throws {
    let time = ManualTime()
    func use() async throws -> [Weak] {
      let pair = try await transport.pair(on: time.reactor) {
        $0.isNarrow = true
        $0.closesOnEndOfStream = ending == .peerFinishes
      }
      let (stream, peer) = (pair.client, pair.server)
      let read = stream.enqueueRead(.exactly(5), timeout: .seconds(1000))
      _ = stream.enqueueWrite(pattern(tooMuch))
      let looking = Task.immediate { _ = try await stream.withBytes(timeout: .seconds(1000)) { _, _ in } }
      let watching = [
        Task.immediate { _ = try await stream.closed }, Task.immediate { try await stream.peerFinishedWriting() },
      ]
      try await stream.hasQueued(reads: 2)
      for task in [looking] + watching { task.cancel() }
      switch ending {
      case .abort: await stream.abort()
      case .close: Task.immediate { await stream.close() }
      case .cancelledClose:
        let closing = Task.immediate { await stream.close() }
        closing.cancel()
        await closing.value
      case .closeAfterReads:
        Task.immediate { await stream.close(after: .pendingReads) }
        read.cancel()
      case .peerFinishes: try await peer.finishWriting()
      case .peerAborts: await peer.abort()
      case .givenUpWrite: _ = try await Self.giveUp(peer, time)
      case .shutdown: time.reactor.shutdown()
      }
      for task in [looking] + watching { _ = await task.result }
      return [Weak(stream), Weak(peer)]
    }
    let streams = try await use()
    // What waits for the peer waits for a limited time.
    try await eventually("the streams are gone") {
      await time.advance(by: .seconds(100))
      return streams.allSatisfy(\.isGone)
    }
  }

  private final class Weak: Sendable {
    private weak let stream: (any ByteStream)?
    init(_ stream: any ByteStream) { self.stream = stream }
    var isGone: Bool { stream == nil }
  }
}
