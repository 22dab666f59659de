import ActorSockets
import ActorSocketsTesting
import EpollReactor
import TestSupport
import Testing

// Bodies of looks, progress and extensions are closures of the user's that run in the middle of a stream's work, isolated to
// it: whatever they do to it or to other streams, everything has its outcome.

@Suite(.conformance, .endsInTime) struct ReentrancyTests {
  private func crowd(_ body: @escaping @Sendable () async throws -> Void) -> [Task<Void, any Error>] {
    (0..<100).map { _ in Task.immediate { try await body() } }
  }

  // MARK: Looks

  @Test(arguments: Transport.allCases)
  func `A look that makes another stream read sees only its own bytes, and so does the other`(
    transport: Transport
  ) async throws {
    let reactor = Reactor()
    let pair = try await transport.pair(on: reactor)
    let far = try await transport.pair(on: reactor)
    let (stream, other) = (pair.server, far.server)
    try await far.client.write([UInt8](repeating: 2, count: 100))
    try await pair.client.write([UInt8](repeating: 1, count: 100))
    let read = Notes<Task<[UInt8], any Error>>()
    let seen = try await stream.withBytes { bytes, consumed in
      // Its bytes were announced first, so it takes them on the spot.
      read.add(
        other.assumeIsolated { other in
          Task.immediate {
            _ = other
            return try await other.read(exactly: 100)
          }
        })
      consumed = 40
      return [UInt8](copying: bytes)
    }
    #expect(seen == [UInt8](repeating: 1, count: 100))
    #expect(try await read.all.first?.value == [UInt8](repeating: 2, count: 100))
    // The bytes that were not consumed were not overwritten either.
    #expect(try await stream.read(exactly: 60) == [UInt8](repeating: 1, count: 60))
  }

  enum Act: CaseIterable { case abort, close, takeBuffered, read, look }

  @Test(arguments: Transport.allCases, Act.allCases)
  func `A look may end its own stream, empty it or read from it`(transport: Transport, act: Act) async throws {
    for isBuffered in [true, false] {
      let pair = try await transport.pair()
      let stream = pair.server
      try await pair.client.write([1, 2, 3, 4, 5])
      if isBuffered { _ = try await stream.peek() }
      let inner = Notes<Task<Void, any Error>>()
      let seen = try await stream.withBytes { bytes, consumed in
        stream.assumeIsolated { Self.perform(act, $0, inner) }
        consumed = 3
        return [UInt8](copying: bytes)
      }
      #expect(seen == [1, 2, 3, 4, 5])
      async let closed: Void = pair.client.close()
      await stream.close()
      await closed
      for call in inner.all {
        // A read goes on with what the look left.
        do { try await call.value } catch let error as SocketError where error.code == .closed {}
      }
      let status = await stream.status
      #expect(status.queuedReads == 0 && status.state == .closed)
    }
  }

  @Test(arguments: Transport.allCases, [true, false])
  func `What a look makes its own stream read comes behind what the look uses`(
    transport: Transport, looks: Bool
  ) async throws {
    for (isBuffered, usesAtOnce) in [(true, true), (true, false), (false, true), (false, false)] {
      let pair = try await transport.pair()
      let stream = pair.server
      let sent = pattern(10_001)
      try await pair.client.write(Array(sent[..<10_000]))
      if isBuffered { _ = try await stream.peek() }
      let inner = Notes<Task<[UInt8]?, any Error>>()
      let looking = Task {
        try await stream.withBytes { bytes, consumed in
          let isFirst = inner.all.isEmpty
          if isFirst { stream.assumeIsolated { inner.add(Self.begin(looks, on: $0)) } }
          if usesAtOnce || !isFirst { consumed = 3 }
          return bytes[0]
        }
      }
      try await eventually("it has looked") { !inner.all.isEmpty }
      try await pair.client.write(Array(sent[10_000...]))
      #expect(try await looking.value == sent[0])
      #expect(try await inner.all.first?.value == [sent[3]])
      #expect(try await stream.read(exactly: sent.count - 4) == Array(sent[4...]))
    }
  }

  private static func begin(_ looks: Bool, on stream: isolated any ByteStream) -> Task<[UInt8]?, any Error> {
    Task.immediate {
      _ = stream
      if !looks { return try await stream.read(upTo: 1) }
      return try await stream.withBytes { bytes, consumed in
        consumed = 1
        return [bytes[0]]
      }
    }
  }

  private static func perform(
    _ act: Act, _ stream: isolated any ByteStream, _ inner: Notes<Task<Void, any Error>>
  ) {
    switch act {
    case .abort: stream.abort()
    case .takeBuffered: _ = stream.takeBuffered()
    case .close, .read, .look:
      inner.add(
        Task.immediate {
          switch act {
          case .close: await stream.close()
          case .read: _ = try await stream.read(upTo: 1)
          default: _ = try await stream.withBytes { bytes, consumed in consumed = bytes.count }
          }
        })
    }
  }

  @Test(arguments: Transport.allCases, [true, false])
  func `A look whose stream was ended before its turn came is refused and sees nothing`(
    transport: Transport, aborts: Bool
  ) async throws {
    let pair = try await transport.pair()
    let stream = pair.server
    // One event brings bytes for both, and the first uses it to end the stream.
    let reading = Task { try await stream.readAndEnd(aborts) }
    try await stream.hasQueued(reads: 1)
    let shown = Notes<Int>()
    let looking = Task {
      _ = try await stream.withBytes { bytes, consumed in
        shown.add(bytes.count)
        consumed = bytes.count
      }
    }
    try await stream.hasQueued(reads: 2)
    try await pair.client.write([1, 2])
    try await reading.value
    await expectError(.closed) { try await looking.value }
    #expect(shown.all == [])
    #expect(await stream.takeBuffered() == [2])
    async let closed: Void = pair.client.close()
    await stream.close()
    await closed
  }

  // MARK: Progress and extensions

  @Test(arguments: Transport.allCases)
  func `Progress of a write may abort the stream, and all that waits fails`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let stream = pair.client
    let writing = Task.immediate {
      try await stream.write(pattern(tooMuch)) { _, _ in stream.assumeIsolated { $0.abort() } }
    }
    let writes = crowd { try await stream.write([1]) }
    let reads = crowd { _ = try await stream.read(exactly: 1) }
    // The first step may have come before; if not, it comes when there is room.
    _ = try? await pair.server.readToEnd()
    for call in [writing] + writes + reads { await expectError(.closed) { try await call.value } }
    #expect(await stream.state == .closed)
  }

  @Test(arguments: Transport.allCases)
  func `Progress of a read may read, close and abort, and all that waits fails`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let stream = pair.client
    let inner = Notes<Task<Void, any Error>>()
    let reading = Task.immediate {
      _ = try await stream.read(exactly: 1000) { _, _ in
        stream.assumeIsolated { stream in
          Self.perform(.read, stream, inner)
          Self.perform(.close, stream, inner)
          Self.perform(.abort, stream, inner)
        }
      }
    }
    let reads = crowd { _ = try await stream.read(exactly: 1) }
    try await stream.hasQueued(reads: 101)
    try await pair.server.write([1, 2, 3])
    for call in [reading] + reads { await expectError(.closed) { try await call.value } }
    let calls = inner.all
    #expect(calls.count == 2)
    if let read = calls.first { await expectError(.closed) { try await read.value } }
    if let close = calls.last { try await close.value }
    #expect(await stream.takeBuffered() == [1, 2, 3])
  }

  @Test(.inRealTime, arguments: Transport.allCases, [true, false])
  func `A closure that is asked for more time may abort the stream, and all that waits fails`(
    transport: Transport, hasNoTime: Bool
  ) async throws {
    let (time, pair) = try await transport.timedPair()
    let stream = pair.client
    let timeout = Timeout.after(hasNoTime ? .zero : .seconds(1)) { _, _ in
      stream.assumeIsolated { $0.abort() }
      return hasNoTime ? nil : .seconds(1)
    }
    let first = Task.immediate { try await stream.read(exactly: 1) }
    let timed = Task.immediate { _ = try await stream.read(upTo: 1, timeout: timeout) }
    let reads = crowd { _ = try await stream.read(exactly: 1) }
    try await stream.hasQueued(reads: 102)
    try await pair.server.write([1])
    #expect(try await first.value == [1])
    await time.advance(by: .seconds(1))
    for read in reads { await expectError(.closed) { try await read.value } }
    await expectError(hasNoTime ? .timedOut : .closed) { try await timed.value }
    #expect(await stream.status.queuedReads == 0)
  }
}

extension ByteStream {
  /// Reads a byte and ends the stream in the same breath: its caller is the stream itself.
  fileprivate func readAndEnd(_ aborts: Bool) async throws {
    _ = try await read(exactly: 1)
    if aborts { return abort() }
    Task.immediate { await close() }
  }
}
