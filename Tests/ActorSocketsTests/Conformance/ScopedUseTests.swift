import ActorSockets
import ActorSocketsTLS
import ActorSocketsTesting
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct ScopedUseTests {
  private struct Failure: Error {}

  @Test(arguments: Transport.allCases)
  func `A body that returns closes the stream, and what it wrote arrives`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let reader = Task {
      let bytes = try await pair.server.readToEnd()
      await pair.server.close()
      return bytes
    }
    let value = try await pair.client.closeAfter {
      try await pair.client.write(pattern(100_000))
      return 7
    }
    #expect(value == 7)
    #expect(await pair.client.state == .closed)
    #expect(try await reader.value == pattern(100_000))
    let report = try await pair.client.closed
    #expect("\(report.reason)" == "local" && report.bytesUnsent == 0)
  }

  @Test(arguments: Transport.allCases)
  func `A body that throws aborts the stream`(transport: Transport) async throws {
    let pair = try await transport.pair()
    await #expect(throws: Failure.self) { try await pair.client.closeAfter { throw Failure() } }
    #expect(await pair.client.state == .closed)
    if transport.hasReset { await #expect(throws: (any Error).self) { _ = try await pair.server.read() } }
  }

  @Test(arguments: Transport.allCases)
  func `Cancelling the body aborts the stream`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let task = Task.immediate {
      try await pair.client.closeAfter {
        _ = pair.client.enqueueWrite(pattern(tooMuch))
        _ = try await pair.client.read()
      }
    }
    try await pair.client.hasQueued(reads: 1)
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(await pair.client.state == .closed)
    #expect(try await pair.client.closed.bytesUnsent > 0)
  }

  @Test(arguments: Transport.allCases)
  func `A body may encrypt its connection`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let context = try TestContexts.context(.v13)
    let server = Task {
      let secure = pair.server.startTLS(context, as: .server)
      let bytes = try await secure.readToEnd()
      await secure.close()
      return bytes
    }
    try await pair.client.closeAfter {
      let secure = pair.client.startTLS(context, as: .client(serverName: "server.test"))
      try await secure.write([1, 2, 3])
    }
    #expect(try await server.value == [1, 2, 3])
  }

  @Test(arguments: Transport.allCases)
  func `Cancelling while the stream closes drops the rest`(transport: Transport) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let client = pair.client
    let task = Task.immediate { await client.closeAfter { _ = client.enqueueWrite(pattern(tooMuch)) } }
    try await eventually("the stream closes") { await client.state == .closing }
    task.cancel()
    await task.value
    #expect(await client.state == .closed)
    #expect(try await client.closed.bytesUnsent > 0)
  }

  /// Its closures use its state, and return a value that no other isolation may have.
  private actor Counter {
    final class Note { var text = "" }
    private var count = 0

    func use(_ stream: any ByteStream) async -> Int {
      let note = await stream.closeAfter {
        count += 1
        let note = Note()
        note.text = "used"
        return note
      }
      #expect(note.text == "used")
      return count
    }
  }

  @Test(arguments: Transport.allCases)
  func `The body runs in the isolation of its caller`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let reader = Task {
      _ = try await pair.server.readToEnd()
      await pair.server.close()
    }
    #expect(await Counter().use(pair.client) == 1)
    try await reader.value
  }

  @Test func `Connecting in a scope serves plain and encrypted connections`() async throws {
    let reactor = ConformanceReactor.current
    let echoed = try await TCPListener.withListener(boundTo: .address(.ipv4(.loopback, port: 0)), reactor: reactor) {
      listener in
      let server = Task {
        try await listener.serve { connection in
          for try await chunk in connection.chunks { try await connection.write(chunk) }
        }
      }
      let bytes = try await TCPConnection.withConnection(to: .address(listener.localAddresses[0]), reactor: reactor) {
        try await $0.write([1, 2, 3])
        return try await $0.read(exactly: 3)
      }
      server.cancel()
      #expect(try await server.value.accepted == 1)
      return bytes
    }
    #expect(echoed == [1, 2, 3])
    let secure = try await TCPListener.withListener(boundTo: .address(.ipv4(.loopback, port: 0)), reactor: reactor) {
      listener in
      let context = try TestContexts.context(.v13)
      let server = Task {
        try await listener.serve(tls: context) { connection in
          for try await chunk in connection.chunks { try await connection.write(chunk) }
        }
      }
      defer { server.cancel() }
      return try await TLSConnection.withConnection(
        to: .address(listener.localAddresses[0]), context: context, serverName: "server.test", reactor: reactor
      ) {
        try await $0.write([4, 5])
        return try await $0.read(exactly: 2)
      }
    }
    #expect(secure == [4, 5])
  }

  @Test func `A listener is closed when its scope returns or throws`() async throws {
    let reactor = ConformanceReactor.current
    var kept: TCPListener?
    await #expect(throws: Failure.self) {
      try await TCPListener.withListener(boundTo: .address(.ipv4(.loopback, port: 0)), reactor: reactor) {
        kept = $0
        throw Failure()
      }
    }
    let listener = try #require(kept)
    await expectError(.closed) { _ = try await listener.accept() }
    let memory = await InMemoryListener.withListener(reactor: reactor) { $0 }
    await expectError(.closed) { _ = try await memory.accept() }
  }

  @Test func `Connections in memory are used in a scope`() async throws {
    let reactor = ConformanceReactor.current
    let (first, second) = try await InMemoryConnection.withPair(reactor: reactor) { first, second in
      try await first.write([1])
      #expect(try await second.read() == [1])
      return (first, second)
    }
    #expect(await first.state == .closed)
    #expect(await second.state == .closed)
    // Both ends close at the same time: the first one discards the bytes that it has not read, so the second one can send all of them.
    await InMemoryConnection.withPair(reactor: reactor) { _, second in
      _ = second.enqueueWrite(pattern(tooMuch))
    }
    try await InMemoryListener.withListener(reactor: reactor) { listener in
      let server = Task { try await listener.accept().read() }
      try await listener.withConnection { try await $0.write([2]) }
      #expect(try await server.value == [2])
    }
  }

  @Test(arguments: DatagramTransport.allCases)
  func `An endpoint is closed when its scope has ended, and what was enqueued is sent`(
    transport: DatagramTransport
  ) async throws {
    let reactor = ConformanceReactor.current
    let server = try transport.bind()
    let address = try transport.address(of: server)
    let client = try await UDPEndpoint.withEndpoint(connectedTo: .address(address), reactor: reactor) { endpoint in
      for number in 0..<5 as Range<UInt8> { _ = endpoint.enqueueSend(Datagram([number])) }
      return endpoint
    }
    #expect(await client.isClosed)
    #expect(try await server.firstBytes(5, upTo: 5) == [0, 1, 2, 3, 4])
    var kept: UDPEndpoint?
    await #expect(throws: Failure.self) {
      try await UDPEndpoint.withEndpoint(reactor: reactor) {
        kept = $0
        throw Failure()
      }
    }
    #expect(await kept?.isClosed == true)
  }
}
