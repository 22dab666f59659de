import ActorSockets
import EpollReactor
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

// The counterpart for reads: the peer sends numbered records, and the calls must get them in the order of their tickets.

@Suite struct ReadOrderTests {
  enum Form: CaseIterable, Sendable {
    case enqueued, exactly, integer, until, look, parse, upTo, loop
  }

  private static func read(_ form: Form, _ stream: any ByteStream) async throws -> UInt32 {
    @Sendable func number(_ bytes: [UInt8]) -> UInt32 { bytes.prefix(4).reduce(0) { $0 << 8 | UInt32($1) } }
    switch form {
    case .enqueued: return try await stream.enqueueRead(.integer(UInt32.self)).value
    case .exactly: return number(try await stream.read(exactly: 4))
    case .integer: return try await stream.readInteger()
    case .until: return number(try await stream.read(until: Delimiter([255])))
    case .look:
      let seen = try await stream.withBytes { bytes, consumed in
        if bytes.count >= 4 { consumed = 4 }
        return number([UInt8](copying: bytes.extracting(first: consumed)))
      }
      return seen ?? 0
    case .parse:
      var parsed: UInt32 = 0
      try await stream.withBytes(&parsed) { parsed, bytes, consumed in
        if bytes.count >= 4 { consumed = 4 }
        parsed = number([UInt8](copying: bytes.extracting(first: consumed)))
      }
      return parsed
    case .upTo: return number(try await stream.read(upTo: 4) ?? [])
    case .loop:
      var messages = stream.messages(ofLength: 4).makeAsyncIterator()
      return number(try await messages.next() ?? [])
    }
  }

  /// Records whose last byte is the only one with all bits set.
  private static func record(_ ticket: Int) -> [UInt8] {
    [UInt8(ticket >> 14 & 127), UInt8(ticket >> 7 & 127), UInt8(ticket & 127), 255]
  }

  private static func number(_ ticket: Int) -> UInt32 { record(ticket).reduce(0) { $0 << 8 | UInt32($1) } }

  @Test(arguments: [Transport.tcpOverIPv4, .inMemory])
  func `Reads from everywhere get the bytes in the order of their calls`(transport: Transport) async throws {
    try await within("all records arrive", seconds: 120) {
      let reactor = Reactor()
      let pair = try await transport.pair(on: reactor)
      let server = pair.server
      let tickets = Locked(0)
      let readers = 16
      let perReader = 300
      // Records go out whole: a read of up to four bytes would otherwise see a part.
      async let written: Void = {
        for ticket in 0..<readers * perReader { try await pair.client.write(Self.record(ticket)) }
      }()
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 0..<readers {
          let body: @Sendable () async throws -> Void = {
            var random = SeededRandom(seed: UInt64(number))
            for _ in 0..<perReader {
              let form = Form.allCases.randomElement(using: &random) ?? .exactly
              let (ticket, reading) = tickets.withLock { ticket -> (Int, Task<UInt32, any Error>) in
                ticket += 1
                return (ticket - 1, Task.immediate { try await Self.read(form, server) })
              }
              let got = try await reading.value
              if got != Self.number(ticket) { throw Overdue(description: "\(form) \(ticket) read \(got)") }
            }
          }
          let preference: (any TaskExecutor)? = [reactor, nil, WorkerPool.shared][number % 3]
          group.addTask(executorPreference: preference, priority: number % 2 == 0 ? .low : .high) { try await body() }
        }
        try await group.waitForAll()
      }
      try await written
    }
  }

  @Test(arguments: Transport.allCases, Form.allCases)
  func `A read that begins on the reactor's thread comes before one enqueued after it`(
    transport: Transport, form: Form
  ) async throws {
    try await within("both read") {
      let reactor = Reactor()
      let pair = try await transport.pair(on: reactor)
      let server = pair.server
      let (first, second) = await Task(executorPreference: reactor) {
        let first = Task.immediate { try await Self.read(form, server) }
        return (first, server.enqueueRead(.integer(UInt32.self)))
      }.value
      try await pair.client.write(Self.record(1) + Self.record(2))
      #expect(try await first.value == Self.number(1))
      #expect(try await second.value == Self.number(2))
    }
  }

  @Test func `Enqueued reads behind a failed withBytes fail too`() async throws {
    let (client, server) = InMemoryConnection.pair()
    let look = Task.immediate { try await client.withBytes(upTo: 4, timeout: nil) { _, _ in } }
    let behind = client.enqueueRead(.exactly(2), timeout: nil)
    try await server.write([1, 2, 3, 4], timeout: nil, progress: nil)
    await expectError(.limitExceeded) { _ = try await look.value }
    await expectError(.precedingReadFailed) { _ = try await behind.value }
    #expect(await client.takeBuffered() == [1, 2, 3, 4])
  }
}
