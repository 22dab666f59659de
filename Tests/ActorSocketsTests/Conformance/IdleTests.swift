import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct IdleTests {
  private static let limit = Duration.seconds(60)

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A quiet stream ends at its time and not before, and its peer finds the end`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair { $0.idleTimeout = Self.limit }
    let reading = pair.server.enqueueRead(.exactly(4))
    let line = pair.server.enqueueRead(.line())
    await time.advance(by: Self.limit - .nanoseconds(1))
    #expect(await pair.server.state == .open)
    #expect(await pair.client.state == .open)
    await time.advance(by: .nanoseconds(1))
    let error = await expectError(.timedOut) { _ = try await reading.value }
    #expect("\(error)".hasPrefix("read: no byte moved") && "\(error)".hasSuffix("for 60 s"), "\(error)")
    await expectError(.timedOut) { _ = try await line.value }
    #expect(try await "\(pair.server.closed.reason)" == "timedOut")
    #expect(try await "\(pair.client.closed.reason)" == "timedOut")
    await expectError(.timedOut) { try await pair.server.write([1]) }
    await pair.server.close()
    await pair.client.close()
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `The time counts from the last byte in either direction`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair { $0.idleTimeout = Self.limit }
    for round in 0..<10 {
      await time.advance(by: Self.limit - .seconds(1))
      let (from, to) = round % 2 == 0 ? (pair.client, pair.server) : (pair.server, pair.client)
      let reading = to.enqueueRead(.exactly(1))
      try await from.write([1])
      _ = try await reading.value
    }
    // A look that consumes moves bytes, too.
    try await pair.client.write(utf8: "x")
    _ = try await pair.server.withBytes { _, consumed in consumed = 1 }
    await time.advance(by: Self.limit - .nanoseconds(1))
    #expect(await pair.server.state == .open)
    #expect(await pair.client.state == .open)
    await time.advance(by: .nanoseconds(1))
    #expect(try await "\(pair.server.closed.reason)" == "timedOut")
    #expect(try await "\(pair.client.closed.reason)" == "timedOut")
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `A stream whose peer does not read is reset`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair { $0 = .narrow(idleTimeout: Self.limit) }
    let writing = Task.immediate { try await pair.client.write(pattern(tooMuch)) }
    try await pair.client.hasSentPart()
    // As long as bytes move, they arm the timeout again; once the write is stuck, the timeout fires.
    try await eventually("the timeout is reached") {
      await time.advance(by: Self.limit)
      return await pair.client.state != .open
    }
    await expectError(.timedOut) { try await writing.value }
    let report = try await pair.client.closed
    #expect("\(report.reason)" == "timedOut")
    #expect(report.bytesUnsent > 0 && report.bytesSent + report.bytesUnsent == tooMuch)
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `Closing and dropping leave the idle timeout behind`(transport: Transport) async throws {
    let time = ManualTime()
    for _ in 0..<3 {
      let pair = try await transport.pair(on: time.reactor) { $0.idleTimeout = .seconds(1) }
      async let closing: Void = pair.client.close()
      await pair.server.close()
      await closing
      await time.advance(by: .seconds(2))
      #expect(try await "\(pair.client.closed.reason)" != "timedOut")
    }
    // Dropped: what was sent arrives, whatever the deadline.
    let pair = try await transport.pair(on: time.reactor) { $0.idleTimeout = .seconds(1) }
    let client = pair.client
    func drop(_ server: consuming any ByteStream) async throws { try await server.write(Array("bye".utf8)) }
    try await drop(pair.server)
    #expect(try await client.read(exactly: 3) == Array("bye".utf8))
    await time.advance(by: .seconds(1))
  }

  @Test(arguments: Transport.allCases)
  func `On the real clock it is never early`(transport: Transport) async throws {
    let limit = Duration.milliseconds(500)
    let pair: Pair
    do {
      pair = try await transport.pair { $0.idleTimeout = limit }
    } catch let error as SocketError where error.code == .timedOut {
      // The machine stood still for so long.
      return
    }
    var last = ContinuousClock.now
    for _ in 0..<20 {
      let start = ContinuousClock.now
      do {
        let reading = pair.server.enqueueRead(.exactly(1))
        try await pair.client.write([1])
        _ = try await reading.value
      } catch let error as SocketError where error.code == .timedOut {
        // The machine stood still for so long.
        break
      }
      last = start
    }
    #expect(try await "\(pair.server.closed.reason)" == "timedOut")
    #expect(last.duration(to: .now) >= limit)
    #expect(try await "\(pair.client.closed.reason)" == "timedOut")
  }
}
