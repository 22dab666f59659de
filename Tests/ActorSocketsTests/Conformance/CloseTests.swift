import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct CloseTests {
  @Test(arguments: Transport.allCases)
  func `Closing sends what was written before`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    #expect(await pair.client.state == .open)
    _ = pair.client.enqueueWrite(pattern(tooMuch))
    let closing = Task.immediate { await pair.client.close() }
    #expect(await pair.client.state == .closing)
    await expectError(.closed) { try await pair.client.write([1]) }
    #expect(try await pair.server.readToEnd() == pattern(tooMuch))
    await pair.server.close()
    await closing.value
    #expect(await pair.client.state == .closed)
    #expect(await pair.client.status.state == .closed)
    let report = try await pair.client.closed
    #expect(report.bytesSent == tooMuch && report.bytesUnsent == 0 && report.bytesReceived == 0)
    #expect("\(report.reason)" == "local")
    let far = try await pair.server.closed
    #expect(far.bytesSent == 0 && far.bytesUnsent == 0 && far.bytesReceived == tooMuch)
    #expect("\(far.reason)" == "remote")
  }

  @Test(arguments: Transport.allCases)
  func `Closing with unread input does not destroy what was sent`(transport: Transport) async throws {
    let pair = try await transport.pair()
    try await pair.server.write(pattern(50_000))
    _ = try await pair.client.peek()
    _ = pair.client.enqueueWrite(pattern(100_000))
    let closing = Task.immediate { await pair.client.close() }
    #expect(try await pair.server.readToEnd() == pattern(100_000))
    await pair.server.close()
    await closing.value
    #expect(await !pair.client.takeBuffered().isEmpty)
  }

  @Test(arguments: Transport.allCases)
  func `After closing every operation is refused`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let stream = pair.client
    async let far: Void = pair.server.close()
    await stream.close()
    await far
    #expect(await stream.state == .closed)
    await expectError(.closed) { _ = try await stream.read() }
    await expectError(.closed) { _ = try await stream.read(exactly: 0) }
    await expectError(.closed) { _ = try await stream.peek() }
    await expectError(.closed) { _ = try await stream.withBytes { _, _ in } }
    await expectError(.closed) { _ = try await stream.enqueueRead(.exactly(1)).value }
    await expectError(.closed) { try await stream.write([1]) }
    await expectError(.closed) { try await stream.write([]) }
    await expectError(.closed) { try await stream.write([1].span) }
    await expectError(.closed) { try await stream.write(contentsOf: [[1]]) }
    await expectError(.closed) { try await stream.enqueueWrite([1]).value }
    await expectError(.closed) { try await stream.finishWriting() }
    await expectError(.closed) { for try await _ in stream.chunks {} }
    #expect(await stream.takeBuffered() == [])
    await stream.close()
    await stream.close(after: .pendingReadsAndWrites)
    await stream.abort()
    _ = try await stream.closed
    _ = await stream.status
  }

  enum Ending: CaseIterable { case close, abort, peerAborts, peerCloses, shutdown }
  enum Waiting: CaseIterable {
    case read, exactly, until, peek, look, pending, chunks, lines, write, pieces, pendingWrite, peerFinished
  }

  @Test(arguments: Transport.allCases, Ending.allCases)
  func `The end reaches every operation that waits, once`(transport: Transport, ending: Ending) async throws {
    let reactor = Reactor()
    let pair = try await transport.pair(on: reactor) { $0 = .narrow(writeBudget: 4 * tooMuch) }
    let stream = pair.client
    let calls = Waiting.allCases.map { waiting in Task.immediate { try await Self.wait(waiting, stream) } }
    try await stream.hasQueued(reads: 8, writes: 3)
    switch ending {
    case .close:
      Task.immediate { await stream.close() }
      // The writes are sent first.
      #expect(try await pair.server.readToEnd().count == 2 * tooMuch + 2)
      await pair.server.close()
    case .abort: await stream.abort()
    case .peerAborts: await pair.server.abort()
    case .peerCloses:
      // From now on the peer answers everything that is sent to it with a reset.
      Task.immediate { await pair.server.close() }
      try await stream.peerFinishedWriting()
      await stream.abort()
    case .shutdown: reactor.shutdown()
    }
    for (waiting, call) in zip(Waiting.allCases, calls) {
      let code = try await call.code
      switch (ending, waiting) {
      case (.close, .write), (.close, .pieces), (.close, .pendingWrite): #expect(code == nil)
      case (.peerCloses, .peerFinished): #expect(code == nil)
      case (.peerCloses, _): break
      case (.close, .peerFinished): #expect(code == nil || code == .closed)
      case (.peerAborts, .pending), (.peerAborts, .peerFinished):
        #expect(code == .connectionReset || code == .precedingReadFailed)
      case (.peerAborts, _): #expect(code == .connectionReset, "\(waiting)")
      case (.shutdown, _): #expect(code == .reactorShutDown, "\(waiting)")
      default: #expect(code == .closed, "\(waiting)")
      }
    }
    #expect(await stream.state == .closed)
    reactor.shutdown()
  }

  private static func wait(_ waiting: Waiting, _ stream: any ByteStream) async throws {
    switch waiting {
    case .read: _ = try await stream.read()
    case .exactly: _ = try await stream.read(exactly: 10)
    case .until: _ = try await stream.read(until: .lf)
    case .peek: _ = try await stream.peek()
    case .look: _ = try await stream.withBytes { _, _ in }
    case .pending: _ = try await stream.enqueueRead(.integer(Int.self)).value
    case .chunks: for try await _ in stream.chunks {}
    case .lines: for try await _ in stream.lines {}
    case .write: try await stream.write(pattern(tooMuch))
    case .pieces: try await stream.write(contentsOf: [pattern(tooMuch), [1]])
    case .pendingWrite: try await stream.enqueueWrite([2]).value
    case .peerFinished: try await stream.peerFinishedWriting()
    }
  }

  @Test(arguments: Transport.allCases)
  func `Closing after the reads that wait finishes them and takes no new ones`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let first = Task.immediate { try await pair.client.read(exactly: 3) }
    let second = pair.client.enqueueRead(.until(.lf))
    let closing = Task.immediate { await pair.client.close(after: .pendingReads) }
    try await eventually("it is closing") { await pair.client.state == .closing }
    await expectError(.closed) { _ = try await pair.client.read() }
    await expectError(.closed) { try await pair.client.write([1]) }
    try await pair.server.write(utf8: "abcline\n")
    #expect(try await first.value == Array("abc".utf8))
    #expect(try await second.value == Array("line\n".utf8))
    #expect(try await pair.server.read() == nil)
    await pair.server.close()
    await closing.value
  }

  @Test(arguments: Transport.allCases)
  func `Closing after the writes that wait lets reads go on until then`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let writing = Task.immediate { try await pair.client.write(pattern(tooMuch)) }
    let reading = Task.immediate { try await pair.client.read(exactly: 3) }
    let endless = Task.immediate { try await pair.client.read(exactly: 3) }
    let closing = Task.immediate { await pair.client.close(after: .pendingWrites) }
    try await eventually("it is closing") { await pair.client.state == .closing }
    try await pair.server.write(utf8: "abc")
    #expect(try await reading.value == Array("abc".utf8))
    #expect(try await pair.server.readToEnd() == pattern(tooMuch))
    try await writing.value
    await expectError(.closed) { _ = try await endless.value }
    await pair.server.close()
    await closing.value
  }

  @Test(arguments: Transport.allCases)
  func `Closing after both waits for both`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let writing = Task.immediate { try await pair.client.write(pattern(tooMuch)) }
    let reading = Task.immediate { try await pair.client.read(exactly: 3) }
    let closing = Task.immediate { await pair.client.close(after: .pendingReadsAndWrites) }
    #expect(try await pair.server.read(exactly: tooMuch) == pattern(tooMuch))
    try await writing.value
    #expect(await pair.client.state == .closing)
    try await pair.server.write(utf8: "abc")
    #expect(try await reading.value == Array("abc".utf8))
    #expect(try await pair.server.read() == nil)
    await pair.server.close()
    await closing.value
  }

  @Test(arguments: Transport.allCases)
  func `A read that fails is finished too, for a close that waits for it`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let reading = Task.immediate { _ = try await pair.client.read(exactly: 3) }
    let closing = Task.immediate { await pair.client.close(after: .pendingReads) }
    try await eventually("it is closing") { await pair.client.state == .closing }
    await pair.server.close()
    await expectError(.endOfStream) { try await reading.value }
    await closing.value
    let cancelled = try await transport.pair()
    let hopeless = Task.immediate { _ = try await cancelled.client.read(exactly: 3) }
    let waiting = Task.immediate { await cancelled.client.close(after: .pendingReads) }
    try await eventually("it is closing") { await cancelled.client.state == .closing }
    hopeless.cancel()
    await expectCancellation { try await hopeless.value }
    #expect(try await cancelled.server.read() == nil)
    await cancelled.server.close()
    await waiting.value
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A peer that does not take the last bytes is given up after the close timeout`(
    transport: Transport
  ) async throws {
    let (time, pair) = try await transport.timedPair { $0 = .narrow(closeTimeout: .seconds(20)) }
    let writing = Task.immediate { try await pair.client.write(pattern(tooMuch)) }
    let closing = Task.immediate { await pair.client.close() }
    try await eventually("it is closing") { await pair.client.state == .closing }
    await time.advance(by: .seconds(20) - .nanoseconds(1))
    #expect(await pair.client.state == .closing)
    await time.advance(by: .nanoseconds(1))
    await closing.value
    let error = await expectError(.closed) { try await writing.value }
    let report = try await pair.client.closed
    #expect("\(report.reason)" == "timedOut")
    #expect(report.bytesUnsent > 0 && report.bytesSent + report.bytesUnsent == tooMuch)
    #expect(error.bytesTransferred == report.bytesSent)
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `Closing at once what closes after its writes gives it the whole close timeout`(
    transport: Transport
  ) async throws {
    let (time, pair) = try await transport.timedPair { $0 = .narrow(closeTimeout: .seconds(20)) }
    _ = pair.client.enqueueWrite(pattern(tooMuch))
    let patient = Task.immediate { await pair.client.close(after: .pendingWrites) }
    await time.advance(by: .seconds(15))
    let closing = Task.immediate { await pair.client.close() }
    await time.advance(by: .seconds(15))
    #expect(await pair.client.state == .closing)
    await time.advance(by: .seconds(5))
    await closing.value
    await patient.value
  }

  @Test(arguments: Transport.allCases)
  func `Aborting resets the peer, and what came before can still be read`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let stuck = Task.immediate { try await pair.server.write(pattern(tooMuch)) }
    try await pair.client.write(Array("last words".utf8))
    try await eventually("the write is stuck") { await pair.server.status.unsentBytes > 0 }
    await pair.client.abort()
    await expectError(.connectionReset) { try await stuck.value }
    #expect(try await pair.server.read(exactly: 10) == Array("last words".utf8))
    await expectError(.connectionReset) { _ = try await pair.server.read() }
    await expectError(.connectionReset) { _ = try await pair.server.read(exactly: 1) }
    await expectError(.connectionReset) { try await pair.server.write([1]) }
    await expectError(.connectionReset) { try await pair.server.finishWriting() }
    await expectError(.connectionReset) { try await pair.server.peerFinishedWriting() }
    #expect(try await "\(pair.client.closed.reason)" == "local")
    let far = try await pair.server.closed
    #expect("\(far.reason)" == "reset")
    #expect(far.bytesSent + far.bytesUnsent == tooMuch)
    await pair.server.close()
  }

  @Test(arguments: Transport.allCases)
  func `An abort leaves what had arrived`(transport: Transport) async throws {
    let pair = try await transport.pair()
    try await pair.client.write(Array("arrived".utf8))
    let reading = Task.immediate { _ = try await pair.server.read(exactly: 100) }
    try await pair.server.hasBuffered(7)
    await pair.server.abort()
    await expectError(.closed) { try await reading.value }
    #expect(await pair.server.takeBuffered() == Array("arrived".utf8))
    #expect(await pair.server.takeBuffered() == [])
  }

  @Test(arguments: Transport.allCases)
  func `Cancelling a close only stops the wait`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    _ = pair.client.enqueueWrite(pattern(tooMuch))
    let closing = Task.immediate { await pair.client.close() }
    try await eventually("it is closing") { await pair.client.state == .closing }
    closing.cancel()
    await closing.value
    #expect(await pair.client.state == .closing)
    #expect(try await pair.server.readToEnd() == pattern(tooMuch))
    await pair.server.close()
    await pair.client.close()
    #expect(await pair.client.state == .closed)
  }

  @Test(arguments: Transport.allCases)
  func `Many may close one stream at once`(transport: Transport) async throws {
    let pair = try await transport.pair()
    await withDiscardingTaskGroup { group in
      for number in 0..<20 {
        group.addTask { [stream = number % 2 == 0 ? pair.client : pair.server] in
          switch number % 5 {
          case 0, 1: await stream.close()
          case 2: await stream.close(after: .pendingReadsAndWrites)
          case 3: _ = try? await stream.closed
          default: await stream.close(after: .pendingWrites)
          }
        }
      }
    }
    #expect(await pair.client.state == .closed)
    #expect(await pair.server.state == .closed)
  }

  @Test(arguments: Transport.allCases)
  func `A stream may close itself at the end of the other's`(transport: Transport) async throws {
    let idle = try await transport.pair { $0.closesOnEndOfStream = true }
    try await idle.client.finishWriting()
    #expect(try await "\(idle.server.closed.reason)" == "remote")
  }

  @Test(arguments: Transport.allCases)
  func `A stream that closes itself at the end lets a read that waits see the end`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.closesOnEndOfStream = true }
    let iterating = Task.immediate {
      var bytes: [UInt8] = []
      for try await chunk in pair.server.chunks { bytes += chunk }
      return bytes
    }
    try await pair.client.write(Array("all of it".utf8))
    try await pair.client.finishWriting()
    #expect(try await iterating.value == Array("all of it".utf8))
    _ = try await pair.server.closed
  }

  @Test(arguments: Transport.allCases)
  func `A stream that closes itself at the end waits until everything was read`(transport: Transport) async throws {
    for takes in [true, false] {
      let pair = try await transport.pair { $0.closesOnEndOfStream = true }
      try await pair.client.write(Array("rest".utf8))
      try await pair.client.finishWriting()
      await expectError(.endOfStream) { _ = try await pair.server.read(exactly: 10) }
      #expect(await pair.server.state == .open)
      if takes {
        #expect(await pair.server.takeBuffered() == Array("rest".utf8))
      } else {
        #expect(try await pair.server.read() == Array("rest".utf8))
      }
      _ = try await pair.server.closed
    }
  }

  @Test(arguments: Transport.allCases)
  func `Whoever begins to wait for the end just before it comes hears of it`(transport: Transport) async throws {
    for _ in 0..<20 {
      let reactor = Reactor()
      let pair = try await transport.pair(on: reactor)
      let client = pair.client
      let (closed, finished, gone) = await Task(executorPreference: reactor) {
        let closed = Task.immediate { try await client.closed }
        let finished = Task.immediate { try await client.peerFinishedWriting() }
        let gone = Task.immediate { await client.close() }
        await client.abort()
        return (closed, finished, gone)
      }.value
      _ = try await closed.value
      await expectError(.closed) { try await finished.value }
      await gone.value
      await pair.server.abort()
    }
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `An abort ends a close that lingers for the peer`(transport: Transport) async throws {
    // Time does not move, so nothing but the abort ends the wait.
    let (_, pair) = try await transport.timedPair()
    let closing = Task.immediate { await pair.client.close() }
    #expect(try await pair.server.read() == nil)
    await pair.client.abort()
    await closing.value
    // The descriptor is closed, too, so the peer's writes fail.
    await #expect(throws: (any Error).self) { while true { try await pair.server.write([1]) } }
    await pair.server.abort()
  }

  @Test func `Reasons can be compared`() {
    let (timedOut, closed) = (SocketError(.timedOut, operation: "read"), SocketError(.closed, operation: "read"))
    let reasons: [CloseReport.Reason] = [
      .local, .remote, .reset, .timedOut, .peerTooSlow, .error(timedOut), .error(closed),
    ]
    for (index, reason) in reasons.enumerated() { #expect(reasons.firstIndex(of: reason) == index) }
    #expect(CloseReport.Reason.error(closed) == .error(SocketError(.closed, operation: "write")))
  }
}
