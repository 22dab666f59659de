import ActorSockets
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct HalfCloseTests {
  @Test(arguments: Transport.allCases)
  func `Either direction may end while the other goes on`(transport: Transport) async throws {
    let pair = try await transport.pair(sent: "question")
    #expect(try await pair.server.readToEnd() == Array("question".utf8))
    for _ in 0..<100 {
      try await pair.server.write(utf8: "answer")
      #expect(try await pair.client.read(exactly: 6) == Array("answer".utf8))
    }
    try await pair.server.finishWriting()
    #expect(try await pair.client.read() == nil)
    #expect(await pair.client.state == .open)
    await pair.client.close()
    await pair.server.close()
    for end in [pair.client, pair.server] {
      #expect(try await "\(end.closed.reason)" == "remote")
    }
  }

  @Test(arguments: Transport.allCases)
  func `The half-close comes behind the writes before it`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let writing = Task.immediate { try await pair.client.write(pattern(tooMuch)) }
    let finishing = Task.immediate { try await pair.client.finishWriting() }
    try await pair.client.hasQueued(writes: 2)
    await expectError(.closed) { try await pair.client.write([1]) }
    await expectError(.closed) { try await pair.client.enqueueWrite([1]).value }
    await expectError(.closed) { try await pair.client.finishWriting() }
    #expect(try await pair.server.readToEnd() == pattern(tooMuch))
    try await writing.value
    try await finishing.value
    await expectError(.closed) { try await pair.client.write([1]) }
    try await pair.server.write(utf8: "still heard")
    #expect(try await pair.client.read(exactly: 11) == Array("still heard".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `The peer's end can be awaited without reading anything`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let waiting = Task.immediate { try await pair.server.peerFinishedWriting() }
    let given = [
      Task.immediate { try await pair.server.peerFinishedWriting() },
      Task.immediate { _ = try await pair.server.closed },
    ]
    for task in given {
      task.cancel()
      await expectCancellation { try await task.value }
    }
    try await pair.client.write(pattern(40_000))
    try await pair.client.finishWriting()
    try await waiting.value
    try await pair.server.peerFinishedWriting()
    try await pair.server.write(Array("goes on".utf8))
    #expect(try await pair.client.read(exactly: 7) == Array("goes on".utf8))
    #expect(try await pair.server.readToEnd() == pattern(40_000))
    try await pair.server.peerFinishedWriting()
  }

  @Test(arguments: Transport.allCases)
  func `Who awaits the peer's end hears of another end instead`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let near = Task.immediate { try await pair.client.peerFinishedWriting() }
    let far = Task.immediate { try await pair.server.peerFinishedWriting() }
    await pair.client.abort()
    await expectError(.closed) { try await near.value }
    await expectError(.closed) { try await pair.client.peerFinishedWriting() }
    if transport.hasReset {
      await expectError(.connectionReset) { try await far.value }
      await expectError(.connectionReset) { try await pair.server.peerFinishedWriting() }
    } else {
      try await far.value
      try await pair.server.peerFinishedWriting()
    }
  }

  @Test(arguments: Transport.allCases)
  func `A half-close is an error when it is repeated, and when the peer has reset the connection`(transport: Transport)
    async throws
  {
    let pair = try await transport.pair()
    try await pair.client.finishWriting()
    for _ in 0..<3 { await expectError(.closed) { try await pair.client.finishWriting() } }
    #expect(try await pair.server.read() == nil)
    // The other side may still write, and then half-close.
    try await pair.server.write([1])
    try await pair.server.finishWriting()
    #expect(try await pair.client.readToEnd() == [1])
    await pair.client.abort()
    await expectError(.closed) { try await pair.client.finishWriting() }

    let broken = try await transport.pair()
    // With this byte unread, the abort of a unix socket reaches the peer as a reset, too.
    try await broken.client.write([1])
    try await broken.server.write([2])
    await broken.server.abort()
    #expect(try await broken.client.read() == [2])
    await expectError(.connectionReset) { _ = try await broken.client.read() }
    for _ in 0..<3 { await expectError(.connectionReset) { try await broken.client.finishWriting() } }
    await broken.client.close()
    await expectError(.closed) { try await broken.client.finishWriting() }
  }

  @Test(arguments: Transport.allCases)
  func `A cancelled half-close goes on`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    _ = pair.client.enqueueWrite(pattern(tooMuch))
    let finishing = Task.immediate { try await pair.client.finishWriting() }
    try await pair.client.hasQueued(writes: 2)
    finishing.cancel()
    await expectCancellation { try await finishing.value }
    #expect(try await pair.server.readToEnd() == pattern(tooMuch))
  }
}
