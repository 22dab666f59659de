import ActorSockets
import ActorSocketsTesting
import Testing

@Suite struct LifetimeTests {
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
    try await within("the end arrives") {
      let (kept, _) = try await drop(transport) { try await $0.write(Array("bye")) }
      #expect(try await kept.readToEnd() == Array("bye"))
      await kept.close()
    }
  }

  @Test(arguments: Transport.allCases)
  func `Dropping with unread input does not destroy what was sent`(transport: Transport) async throws {
    try await within("the end arrives") {
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
  }

  @Test(arguments: Transport.allCases)
  func `A suspended call keeps a stream alive`(transport: Transport) async throws {
    try await within("the read returns") {
      let (kept, reading) = try await drop(transport) { server in
        Task.immediate { try await server.read(exactly: 5) }
      }
      try await kept.write(Array("hello"))
      #expect(try await reading.value == Array("hello"))
      #expect(try await kept.read() == nil)
      await kept.close()
    }
  }

  @Test(arguments: Transport.allCases)
  func `An enqueued read keeps a stream alive until it is done`(transport: Transport) async throws {
    try await within("the end arrives") {
      let (kept, pending) = try await drop(transport) { $0.enqueueRead(.exactly(5)) }
      try await kept.write(Array("hello"))
      #expect(try await pending.value == Array("hello"))
      #expect(try await kept.read() == nil)
      await kept.close()
    }
  }

  @Test(arguments: Transport.allCases)
  func `Enqueued writes are sent although stream and handles are dropped`(transport: Transport) async throws {
    try await within("the end arrives") {
      let (kept, _) = try await drop(transport, { $0.isNarrow = true }) { server in
        server.enqueueWrite(pattern(tooMuch))
      }
      #expect(try await kept.readToEnd() == pattern(tooMuch))
      await kept.close()
    }
  }

  @Test(arguments: Transport.allCases)
  func `A write cancelled in the middle is finished although the stream is dropped`(
    transport: Transport
  ) async throws {
    try await within("the end arrives") {
      let (kept, _) = try await drop(transport, { $0.isNarrow = true }) { server in
        let writing = Task.immediate { try await server.write(pattern(tooMuch)) }
        try await eventually("a part is sent") { (1..<tooMuch).contains(await server.status.unsentBytes) }
        writing.cancel()
        await expectCancellation { try await writing.value }
      }
      #expect(try await kept.readToEnd() == pattern(tooMuch))
      await kept.close()
    }
  }

  @Test(arguments: Transport.allCases)
  func `A stream that is closing finishes although it is dropped`(transport: Transport) async throws {
    try await within("the end arrives") {
      let (kept, _) = try await drop(transport, { $0.isNarrow = true }) { server in
        server.enqueueWrite(pattern(tooMuch))
        let closing = Task.immediate { await server.close() }
        try await eventually("it closes") { await server.state == .closing }
        closing.cancel()
        await closing.value
      }
      #expect(try await kept.readToEnd() == pattern(tooMuch))
      await kept.close()
    }
  }

  @Test(arguments: Transport.allCases)
  func `A stream goes when nothing needs it any more`(transport: Transport) async throws {
    try await within("the streams are gone") {
      func use() async throws -> [Weak] {
        let pair = try await transport.pair()
        for (from, to) in [(pair.client, pair.server), (pair.server, pair.client)] {
          let pending = to.enqueueRead(.exactly(3))
          let timed = to.enqueueRead(.exactly(3), timeout: .seconds(1000))
          timed.cancel()
          try await from.enqueueWrite(Array("abc")).value
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
  }

  private final class Weak: Sendable {
    private weak let stream: (any ByteStream)?
    init(_ stream: any ByteStream) { self.stream = stream }
    var isGone: Bool { stream == nil }
  }
}
