import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.conformance, .endsInTime) struct DeadlineTests {
  @Test(.inRealTime, arguments: Transport.allCases)
  func `Several calls share one deadline`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let deadline = Timeout.until(time.now + .seconds(10))
    let first = Task.immediate { try await pair.server.read(exactly: 1, timeout: deadline) }
    await time.advance(by: .seconds(6))
    try await pair.client.write([1], timeout: deadline)
    #expect(try await first.value == [1])
    let second = Task.immediate { try await pair.server.read(exactly: 1, timeout: deadline) }
    let third = pair.server.enqueueRead(.exactly(1), timeout: deadline)
    await time.advance(by: .seconds(4) - .nanoseconds(1))
    #expect(await pair.server.status.queuedReads == 2)
    await time.advance(by: .nanoseconds(1))
    let error = await expectError(.timedOut) { _ = try await second.value }
    #expect("\(error)".hasSuffix("the deadline has passed"))
    // It failed first, because it was first in the queue.
    await #expect { try await third.value } throws: {
      [.timedOut, .precedingReadFailed].contains(($0 as? SocketError)?.code)
    }
  }

  @Test(arguments: Transport.allCases)
  func `A write whose deadline has passed sends nothing`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let client = pair.client
    // Also a time before the machine was started, where its clock has its zero.
    for past in [Timeout.until(.now - .seconds(1)), .until(.now - .seconds(1_000_000_000))] {
      let calls: [@Sendable () async throws -> Void] = [
        { try await client.write([1], timeout: past) },
        { try await client.write([1].span, timeout: past) },
        { try await client.write(contentsOf: [[1], [1]], timeout: past) },
        { try await client.enqueueWrite([1], timeout: past).value },
      ]
      for call in calls {
        let error = await expectError(.timedOut) { try await call() }
        #expect(error.bytesTransferred == 0)
      }
    }
    try await client.write([2], timeout: .until(.now + .seconds(1_000)))
    #expect(try await pair.server.read() == [2])
  }

  @Test(arguments: Transport.allCases)
  func `A read whose deadline has passed returns what has arrived`(transport: Transport) async throws {
    let pair = try await transport.pair()
    try await pair.client.write([1, 2])
    while try await pair.server.peek()?.count != 2 {}
    let past = Timeout.until(.now - .seconds(1))
    #expect(try await pair.server.read(exactly: 1, timeout: past) == [1])
    await expectError(.timedOut) { _ = try await pair.server.read(exactly: 2, timeout: past) }
    #expect(try await pair.server.read() == [2])
  }

  @Test(.inRealTime) func `A write whose time is over before it begins is not sent, even if there is room again`()
    async throws
  {
    let reactor = Reactor()
    let (socket, other) = try RawSocket.unixPair()
    let connection = try TCPConnection.adopt(fileDescriptor: socket.release(), reactor: reactor)
    // A little more than the kernel takes, so that the rest fits once the peer has read.
    let count = 250_000
    let first = connection.enqueueWrite(Array(repeating: 1, count: count))
    try await eventually("the socket is full") { await (1..<count).contains(connection.status.unsentBytes) }
    let sent = await count - connection.status.unsentBytes
    let deadline = ContinuousClock.now + .milliseconds(20)
    let second = connection.enqueueWrite([2], timeout: .until(deadline))
    try await connection.hasQueued(writes: 2)
    try await reactor.whileBlocked {
      var received = 0
      while received < sent { received += try other.receiveNow(atMost: sent - received).count }
      while ContinuousClock.now <= deadline {}
    }
    #expect(try await other.receive(exactly: count - sent).count == count - sent)
    try await first.value
    await expectError(.timedOut) { try await second.value }
    try await connection.write([3])
    #expect(try await other.receive(exactly: 1) == [3])
    other.close()
  }

  @Test(arguments: Transport.allCases)
  func `A write within no time at all is tried once`(transport: Transport) async throws {
    let pair = try await transport.pair()
    try await pair.client.write([1], timeout: .within(.zero))
    try await pair.client.write(contentsOf: [[2], [3]], timeout: .within(.zero))
    try await pair.client.enqueueWrite([4], timeout: .within(.zero)).value
    #expect(try await pair.server.read(exactly: 4) == [1, 2, 3, 4])
  }

  @Test(.inRealTime, arguments: Transport.allCases)
  func `Each element of a sequence has a timeout, and iteration goes on behind it`(transport: Transport) async throws {
    let (time, pair) = try await transport.timedPair()
    let server = pair.server
    let limit = Timeout(.seconds(5))
    let sequences: [@Sendable () async throws -> Void] = [
      { for try await line in server.lines(timeout: limit) { #expect(line == "a") } },
      { for try await bytes in server.chunks(timeout: limit) { #expect(bytes == Array("a\n".utf8)) } },
      { for try await bytes in server.messages(until: .lf, timeout: limit) { #expect(bytes == Array("a\n".utf8)) } },
      { for try await bytes in server.messages(ofLength: 2, timeout: limit) { #expect(bytes == Array("a\n".utf8)) } },
      { for try await line in server.messages(of: .line(), timeout: limit) { #expect(line == "a") } },
      { for try await lines in server.batches(of: .line(), timeout: limit) { #expect(lines == ["a"]) } },
    ]
    for sequence in sequences {
      let reading = Task.immediate { try await sequence() }
      for _ in 1...2 {
        try await server.hasQueued(reads: 1)
        await time.advance(by: .seconds(4))
        let before = await server.metrics.bytesReceived
        try await pair.client.write(Array("a\n".utf8))
        try await eventually("the line is read") {
          let received = await server.metrics.bytesReceived
          return await server.status.bufferedBytes == 0 && received > before
        }
      }
      try await server.hasQueued(reads: 1)
      await time.advance(by: .seconds(5))
      let error = await expectError(.timedOut) { try await reading.value }
      #expect("\(error)".hasSuffix("timed out after 5 s"), "\(error)")
    }
  }

  @Test func `Errors name the peer`() async throws {
    let pair = try await Transport.tcpOverIPv4.pair()
    let peer = try #require(pair.server.remoteAddress)
    let error = await expectError(.timedOut) { _ = try await pair.server.read(timeout: .milliseconds(1)) }
    #expect("\(error)" == "read from \(peer): timed out after 1 ms")
    let tls = try await Transport.tls.pair()
    let tlsPeer = try #require(tls.server.remoteAddress)
    let tlsError = await expectError(.timedOut) { _ = try await tls.server.read(timeout: .milliseconds(1)) }
    #expect("\(tlsError)" == "read from \(tlsPeer): timed out after 1 ms")
  }

  @Test(.inRealTime) func `A time that was extended is named as a whole`() async throws {
    let time = ManualTime()
    let pair = try await Transport.inMemory.pair(on: time.reactor)
    let reading = Task.immediate {
      try await pair.server.read(
        exactly: 2, timeout: .after(.seconds(1)) { elapsed, _ in elapsed < .seconds(3) ? .seconds(1) : nil })
    }
    try await pair.client.write([1])
    try await pair.server.hasBuffered(1)
    for _ in 1...3 { await time.advance(by: .seconds(1)) }
    let error = await expectError(.timedOut) { _ = try await reading.value }
    #expect("\(error)" == "read: timed out after 3 s with 1 byte received")
  }
}
