import ActorSockets
import SocketSystem
import TestSupport
import Testing

/// The outcome of each operation in a task that was cancelled before the call. Its documentation says the same.
@Suite(.conformance, .endsInTime) struct CancelledBeforeTests {
  private static func cancelled<Value: Sendable>(
    _ body: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    let task = Task {
      try await eventually("the task is cancelled") { Task.isCancelled }
      return try await body()
    }
    task.cancel()
    return try await task.value
  }

  enum Refused: String, CaseIterable, CustomTestStringConvertible {
    case read, exactly, nothing, until, integer, peek, look, lookWithState, readInto, chunks, lines, messages, batches
    case write, writeNothing, span, sequence, pieces, text, message, sendFile
    case flushSent, flushAcknowledged, peerFinished, closed, enqueuedRead, pipe, relay, ask, sequenceEnd

    var testDescription: String { rawValue }

    func run(on stream: some ByteStream, _ peer: some ByteStream) async throws {
      switch self {
      case .read: _ = try await stream.read()
      case .ask: _ = try await stream.ask([1], for: .exactly(1))
      case .sequenceEnd: for try await _ in stream.chunks.ending(at: .now + .seconds(100)) { break }
      case .exactly: _ = try await stream.read(exactly: 5)
      case .nothing: _ = try await stream.read(exactly: 0)
      case .until: _ = try await stream.read(until: "e")
      case .integer: _ = try await stream.readInteger(as: UInt8.self)
      case .peek: _ = try await stream.peek()
      case .look: _ = try await stream.withBytes { _, consumed in consumed = 1 }
      case .lookWithState:
        var state = 0
        _ = try await stream.withBytes(&state) { _, _, consumed in consumed = 1 }
      case .readInto:
        var bytes: [UInt8] = []
        _ = try await stream.read(into: &bytes)
      case .chunks: for try await _ in stream.chunks {}
      case .lines: for try await _ in stream.lines {}
      case .messages: for try await _ in stream.messages(ofLength: 1) {}
      case .batches: for try await _ in stream.batches(of: .message(ofLength: 1)) {}
      case .write: try await stream.write([1])
      case .writeNothing: try await stream.write([])
      case .span: try await stream.write([1].span)
      case .sequence: try await stream.write([1].lazy.map { $0 + 1 })
      case .pieces: try await stream.write(contentsOf: [[1], [2]])
      case .text: try await stream.write(utf8: "x")
      case .message: try await stream.write(message: [1], lengthPrefix: .uint8)
      case .sendFile: try await stream.sendFile(TemporaryFile([1, 2, 3]).source)
      case .flushSent: try await stream.flush(until: .sent)
      case .flushAcknowledged: try await stream.flush(until: .acknowledged)
      case .peerFinished: try await stream.peerFinishedWriting()
      case .closed: _ = try await stream.closed
      // The peer sends fewer bytes: the operation is taken back.
      case .enqueuedRead: _ = try await stream.enqueueRead(.exactly(1000)).value
      case .pipe: _ = try await ActorSockets.pipe(from: stream, to: peer)
      case .relay: _ = try await ActorSockets.relay(between: stream, and: peer)
      }
    }
  }

  @Test(arguments: Transport.allCases, Refused.allCases)
  func `Cancelled before the call: each operation throws and changes nothing`(
    transport: Transport, operation: Refused
  ) async throws {
    let pair = try await transport.pair()
    let (stream, peer) = (pair.server, pair.client)
    try await peer.write(Array("there".utf8))
    #expect(try await stream.peek() == Array("there".utf8))
    await expectCancellation {
      try await Self.cancelled { try await operation.run(on: stream, peer) }
    }
    let status = await stream.status
    #expect(status.queuedReads == 0 && status.queuedWrites == 0)
    // The operation took no byte and sent no byte.
    #expect(try await stream.read(exactly: 5) == Array("there".utf8))
    try await stream.write(Array("ok".utf8))
    #expect(try await peer.read() == Array("ok".utf8))
  }

  enum CarriedOut: String, CaseIterable, CustomTestStringConvertible {
    case finishWriting, close, closeAfterWrites, closeAfterAll

    var testDescription: String { rawValue }

    func run(on stream: some ByteStream) async throws {
      switch self {
      case .finishWriting: try await stream.finishWriting()
      case .close: await stream.close()
      case .closeAfterWrites: await stream.close(after: .pendingWrites)
      case .closeAfterAll: await stream.close(after: .pendingReadsAndWrites)
      }
    }
  }

  @Test(.endsInTime(seconds: 20), arguments: Transport.allCases, CarriedOut.allCases)
  func `Cancelled before the call: a half-close and a close are carried out`(
    transport: Transport, operation: CarriedOut
  ) async throws {
    let pair = try await transport.pair()
    let (stream, peer) = (pair.server, pair.client)
    do {
      try await Self.cancelled { try await operation.run(on: stream) }
    } catch is CancellationError {}
    #expect(try await peer.read() == nil)
    await expectError(.closed) { try await stream.write([1]) }
    if operation == .finishWriting {
      try await peer.write(Array("still read".utf8))
      #expect(try await stream.read(exactly: 10) == Array("still read".utf8))
    }
    await peer.close()
  }

  @Test(.endsInTime(seconds: 20), arguments: Transport.allCases, CarriedOut.allCases)
  func `Cancelled before the call: what was written before is sent, and the end behind it`(
    transport: Transport, operation: CarriedOut
  ) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let (stream, peer) = (pair.server, pair.client)
    _ = stream.enqueueWrite(pattern(tooMuch))
    // A call that waits would not return before the peer reads.
    do {
      try await Self.cancelled { try await operation.run(on: stream) }
      #expect(operation != .finishWriting)
    } catch is CancellationError {
      #expect(operation == .finishWriting)
    }
    #expect(try await peer.readToEnd() == pattern(tooMuch))
    await peer.close()
  }

  @Test(arguments: Transport.allCases)
  func `Cancelled before the call: waiting for an enqueued write takes it back`(transport: Transport) async throws {
    let pair = try await transport.pair { $0 = .narrow(writeBudget: 2 * tooMuch) }
    let first = pair.server.enqueueWrite(pattern(tooMuch))
    let second = pair.server.enqueueWrite(Array("never".utf8))
    await expectCancellation { try await Self.cancelled { try await second.value } }
    #expect(try await pair.client.read(exactly: tooMuch) == pattern(tooMuch))
    try await first.value
    try await pair.server.write(Array("ok".utf8))
    #expect(try await pair.client.read() == Array("ok".utf8))
  }

  @Test(.inRealTime) func `Cancelled before the call: no connection is made`() async throws {
    let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)))
    let endpoint = Endpoint.address(listener.localAddresses[0])
    await expectCancellation { _ = try await Self.cancelled { try await TCPConnection.connect(to: endpoint) } }
    await expectCancellation { _ = try await Self.cancelled { try await listener.accept() } }
    // This is the first connection that arrives.
    let client = try await TCPConnection.connect(to: endpoint)
    #expect(try await listener.accept().remoteAddress == client.localAddress)
  }

  enum OfEndpoint: String, CaseIterable, CustomTestStringConvertible {
    case send, sendTo, sendToName, sendDatagram, sendBatch, connect, receive, receiveSeveral, look, answer, next

    var testDescription: String { rawValue }

    func run(on endpoint: UDPEndpoint, _ peer: SocketAddress) async throws {
      switch self {
      case .send: try await endpoint.send([1])
      case .sendTo: try await endpoint.send([1], to: peer)
      case .sendToName: try await endpoint.send([1], to: .host("localhost", port: peer.port ?? 9))
      case .sendDatagram: try await endpoint.send(Datagram([1], to: peer))
      case .sendBatch: try await endpoint.send([Datagram([1], to: peer), Datagram([2], to: peer)])
      case .connect: try await endpoint.connect(to: .address(peer))
      case .receive: _ = try await endpoint.receive()
      case .receiveSeveral: _ = try await endpoint.receive(upTo: 9)
      case .look: _ = try await endpoint.withDatagrams { _, _ in }
      case .answer: _ = try await endpoint.withDatagrams { _, _, _ in }
      case .next: for try await _ in endpoint.datagrams {}
      }
    }
  }

  @Test(arguments: [DatagramTransport.ipv4, .unix], OfEndpoint.allCases)
  func `Cancelled before the call: each operation of an endpoint throws and changes nothing`(
    transport: DatagramTransport, operation: OfEndpoint
  ) async throws {
    let (endpoint, peer) = try (transport.bind(), transport.bind())
    let (own, far) = try (transport.address(of: endpoint), transport.address(of: peer))
    try await peer.send(Array("there".utf8), to: own)
    await expectCancellation { try await Self.cancelled { try await operation.run(on: endpoint, far) } }
    #expect(!endpoint.isConnected)
    #expect(try await endpoint.receive().bytes == Array("there".utf8))
    try await endpoint.send(Array("ok".utf8), to: far)
    #expect(try await peer.receive().bytes == Array("ok".utf8))
  }

  @Test func `Cancelled before the call: an endpoint closes, and a loop over its errors ends`() async throws {
    let endpoint = try DatagramTransport.ipv4.bind()
    #expect(try await Self.cancelled { await endpoint.errors.makeAsyncIterator().next() } == nil)
    try await Self.cancelled { await endpoint.closeAfterPendingSends() }
    #expect(await endpoint.isClosed)
    let connected = try DatagramTransport.ipv4.bind()
    await expectCancellation {
      _ = try await Self.cancelled { try await UDPEndpoint.connect(to: .address(connected.localAddresses[0])) }
    }
  }
}
