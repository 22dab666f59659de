import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// The examples of the articles about timeouts and about errors.
@Suite struct TimeoutsTests {
  @Test func `A request and its answer share one deadline`() async throws {
    try await within("the answer arrives") {
      let (client, server) = InMemoryConnection.pair()
      async let answer = request("time?\n", on: client)
      #expect(try await server.read(until: .lf) == Array("time?\n".utf8))
      try await server.write(utf8: "noon\n")
      #expect(try await answer == Array("noon\n".utf8))
    }
  }

  @Test func `A body that arrives too slowly times out, and no byte of it is lost`() async throws {
    try await within("the body times out") {
      let time = ManualTime()
      let (client, server) = InMemoryConnection.pair(reactor: time.reactor)
      let reading = Task { try await readBody(100_000, from: client) }
      for _ in 1...3 {
        try await server.write([UInt8](repeating: 1, count: 10_000))
        try await time.advance(by: .seconds(10), whenWaiting: 1)
      }
      // 9,999 bytes in the last ten seconds are too few.
      try await server.write([UInt8](repeating: 1, count: 9_999))
      try await time.advance(by: .seconds(10), whenWaiting: 1)
      let error = await #expect(throws: SocketError.self) { try await reading.value }
      #expect(error?.code == .timedOut && error?.bytesTransferred == 39_999)
      #expect(try await client.read(exactly: 39_999).count == 39_999)
    }
  }

  @Test func `A client may be silent before a line, but not within it`() async throws {
    try await within("the second line times out") {
      let time = ManualTime()
      let (client, server) = InMemoryConnection.pair(reactor: time.reactor)
      let serving = Task { try await answerLines(on: server) }
      await time.advance(by: .seconds(3_600))
      try await client.write(utf8: "hello\n")
      #expect(try await client.read(until: .lf) == Array("hello\n".utf8))
      try await client.write(utf8: "hel")
      try await time.advance(by: .seconds(10), whenWaiting: 1)
      let error = await #expect(throws: SocketError.self) { try await serving.value }
      #expect(error?.code == .timedOut)
    }
  }

  @Test func `A line that is incomplete stays`() async throws {
    try await within("the line arrives") {
      let (client, server) = InMemoryConnection.pair()
      #expect(try await lineThatHasArrived(on: client) == nil)
      try await server.write(utf8: "hel")
      try await server.flush()
      #expect(try await lineThatHasArrived(on: client) == nil)
      try await server.write(utf8: "lo\n")
      try await eventually("the line is complete") { try await lineThatHasArrived(on: client) == "hello" }
    }
  }

  @Test func `The lines for a log have the causes`() {
    let cause = SocketError(.unreachable, operation: "connect")
    let error = SocketError(.unreachable, operation: "connect", detail: "two addresses", causes: [cause, cause])
    #expect(logLines(for: error).count == 3)
    #expect(logLines(for: error).first == "unreachable: connect: two addresses")
    #expect(logLines(for: CancellationError()) == ["CancellationError()"])
  }
}
