import ActorSockets
import Glibc
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct SendFileTests {
  @Test(arguments: Transport.allCases)
  func `The bytes of a file arrive as they are, all of them or a range`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let file = try TemporaryFile(pattern(50_000))
    let source = try file.source
    #expect(try source.count == 50_000)
    for range in [0..<0, 0..<1, 5..<5, 50_000..<50_000, 49_999..<50_000, 17..<40_000, 0..<50_000] {
      try await pair.client.sendFile(source, range: range)
      let expected = pattern(range.count, from: range.lowerBound)
      #expect(try await pair.server.read(exactly: range.count) == expected)
    }
    try await pair.client.sendFile(file.source)
    try await pair.client.finishWriting()
    #expect(try await pair.server.readToEnd() == pattern(50_000))
    await expectError(.closed) { try await pair.client.sendFile(source) }
  }

  @Test(arguments: Transport.allCases)
  func `A range that the file does not have is refused before anything is sent`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let source = try TemporaryFile(pattern(10)).source
    for range in [0..<11, 11..<11, -1..<5, 3..<Int.max, Int.min..<0] {
      await expectError(.invalidArgument) { try await pair.client.sendFile(source, range: range) }
    }
    try await pair.client.sendFile(source)
    #expect(try await pair.server.read(exactly: 10) == pattern(10))
    #expect(await pair.client.metrics.bytesSent == 10)
  }

  @Test func `Only a regular file that can be read is a source`() async throws {
    await expectError(.pathNotFound) { _ = try FileSource(path: "/nonexistent/file") }
    await expectError(.invalidArgument) { _ = try FileSource(path: "/") }
    await expectError(.invalidArgument) { _ = try FileSource(path: "/dev/zero") }
    await expectError(.invalidArgument) { _ = try FileSource(path: "a\0b") }
    let path = try TemporaryFile().path + ".fifo"
    // SAFETY: the text is valid for the calls.
    unsafe mkfifo(path, 0o600)
    defer { unsafe unlink(path) }
    await expectError(.invalidArgument) { _ = try FileSource(path: path) }
  }

  @Test(arguments: Transport.allCases, [1, 2] as [UInt64])
  func `Files and writes leave in the order of their calls, however little the peer takes`(
    transport: Transport, seed: UInt64
  ) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let source = try TemporaryFile(pattern(300_000)).source
    var random = SeededRandom(seed: seed)
    var expected: [UInt8] = []
    var tasks: [Task<Void, any Error>] = []
    for _ in 0..<60 {
      let from = Int.random(in: 0...300_000, using: &random)
      let range = from..<Int.random(in: from...min(300_000, from + 60_000), using: &random)
      expected += pattern(range.count, from: from)
      if Bool.random(using: &random) {
        tasks.append(Task.immediate { try await pair.client.sendFile(source, range: range) })
      } else {
        tasks.append(Task.immediate { try await pair.client.write(pattern(range.count, from: range.lowerBound)) })
      }
    }
    let finishing = Task.immediate { try await pair.client.finishWriting() }
    #expect(try await pair.server.readToEnd() == expected)
    for task in tasks { try await task.value }
    try await finishing.value
    #expect(await pair.client.metrics.bytesSent == expected.count)
    #expect(await pair.client.status.unsentBytes == 0)
  }

  @Test(arguments: Transport.allCases, [-1, 0, 255])
  func `A write can be enqueued while a file waits, however small the write budget is`(
    transport: Transport, budget: Int
  ) async throws {
    let pair = try await transport.pair { $0 = .narrow(writeBudget: budget) }
    let source = try TemporaryFile(pattern(tooMuch)).source
    let sending = Task.immediate { try await pair.client.sendFile(source) }
    let accepted = pair.client.enqueueWrite(Array("accepted".utf8))
    let refused = pair.client.enqueueWrite(Array("refused".utf8))
    await expectError(.limitExceeded) { try await refused.value }
    #expect(try await pair.server.read(exactly: tooMuch) == pattern(tooMuch))
    #expect(try await pair.server.read(exactly: 8) == Array("accepted".utf8))
    try await sending.value
    try await accepted.value
  }

  @Test(.inRealTime) func `Offsets and lengths beyond 32 bits are right`() async throws {
    let (connection, peer) = try RawSocket.peerOfConnection()
    let file = try TemporaryFile()
    let beyond = 3 << 30
    file.truncate(to: beyond + 1_000_000)
    try file.write(pattern(1000), at: beyond)
    let source = try file.source
    try await connection.sendFile(source, range: beyond - 10..<beyond + 1010)
    let zeros = [UInt8](repeating: 0, count: 10)
    #expect(try await peer.receive(exactly: 1020) == zeros + pattern(1000) + zeros)
    if patience > 1 { return }
    let length = 2_200_000_000
    let sending = Task {
      try await connection.sendFile(source, range: beyond - length..<beyond)
      try await connection.finishWriting()
    }
    let received = try await onThread {
      var received = 0
      while case let count = recv(peer.number, nil, 1 << 20, Int32(MSG_TRUNC)), count > 0 {
        received += count
      }
      return received
    }
    #expect(received == length)
    try await sending.value
  }

  @Test(arguments: Transport.allCases)
  func `A file that has not begun is taken back, one that has goes on`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let source = try TemporaryFile(pattern(tooMuch)).source
    let first = Task.immediate { try await pair.client.sendFile(source) }
    let second = Task.immediate { try await pair.client.sendFile(source) }
    try await pair.client.hasQueued(writes: 2)
    try await pair.client.hasSentPart(of: 2 * tooMuch)
    second.cancel()
    await expectCancellation { try await second.value }
    first.cancel()
    await expectCancellation { try await first.value }
    await expectError(.timedOut) {
      try await pair.client.sendFile(source, range: nil, timeout: .within(.milliseconds(1)))
    }
    let last = Task.immediate { try await pair.client.write(utf8: "last") }
    #expect(try await pair.server.read(exactly: tooMuch + 4) == pattern(tooMuch) + Array("last".utf8))
    try await last.value
  }

  @Test(arguments: Transport.allCases.filter(\.hasReset))
  func `A file that becomes shorter while it is sent breaks the connection, and the error says where`(
    transport: Transport
  ) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let file = try TemporaryFile(pattern(tooMuch))
    let source = try file.source
    let sending = Task.immediate { try await pair.client.sendFile(source) }
    let behind = Task.immediate { try await pair.client.write([1]) }
    try await eventually("a part is sent") { await (2..<tooMuch).contains(pair.client.status.unsentBytes) }
    file.truncate(to: 0)
    await expectError(.connectionReset) { _ = try await pair.server.readToEnd() }
    let error = await expectError(.system) { try await sending.value }
    let sent = await pair.client.metrics.bytesSent
    #expect(error.bytesTransferred == sent && sent > 0)
    #expect(error.description.hasPrefix("sendFile: the file was shortened"))
    await #expect(throws: SocketError.self) { try await behind.value }
    #expect(await pair.client.state == .closed)
  }

  @Test(arguments: Transport.allCases)
  func `If a file became shorter before its turn, only its send fails`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let file = try TemporaryFile(pattern(1000))
    let source = try file.source
    let first = Task.immediate { try await pair.client.write(pattern(tooMuch)) }
    let sending = Task.immediate { try await pair.client.sendFile(source, range: 500..<1000) }
    let last = Task.immediate { try await pair.client.write(utf8: "last") }
    try await pair.client.hasQueued(writes: 3)
    file.truncate(to: 500)
    #expect(try await pair.server.read(exactly: tooMuch + 4) == pattern(tooMuch) + Array("last".utf8))
    try await first.value
    let error = await expectError(.system) { try await sending.value }
    #expect(error.description == "sendFile: the file was shortened while it was being sent")
    try await last.value
  }

  @Test(.inRealTime) func `Closing sends the rest of a file`() async throws {
    let (connection, peer) = try RawSocket.peerOfConnection()
    let file = try TemporaryFile(pattern(5_000_000))
    let source = try file.source
    let sending = Task.immediate { try await connection.sendFile(source) }
    let closing = Task.immediate { await connection.close() }
    #expect(try await peer.receiveToEnd() == pattern(5_000_000))
    peer.close()
    try await sending.value
    await closing.value
  }

  @Test(.inRealTime) func `Sending a file on a broken connection does not end the process`() async {
    await #expect(processExitsWith: .success) {
      signal(SIGPIPE, SIG_DFL)
      try await within("the sends throw") {
        let source = try TemporaryFile(pattern(1000)).source
        for isReset in [false, true] {
          let (connection, peer) = try RawSocket.peerOfConnection()
          if isReset { peer.reset() }
          // Behind the connection's back, so that it finds out by sending.
          try await connection.withFileDescriptor { _ = shutdown($0, Int32(SHUT_WR)) }
          await expectError(.connectionReset) { try await connection.sendFile(source) }
        }
      }
    }
  }
}
