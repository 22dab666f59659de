import ActorSockets
import ActorSocketsTLS
import ActorSocketsTesting
import TestSupport
import Testing

/// `startTLS` as an entry in both queues.
@Suite(.endsInTime) struct UpgradeTests {
  @Test(arguments: CarrierKind.allCases, TLSVersion.both)
  func `A whole dialogue can be queued without waiting for any of it`(
    carrier: CarrierKind, version: TLSVersion
  ) async throws {
    let pair = try await carrier.pair()
    // The client's side of STARTTLS.
    let greeting = pair.client.enqueueRead(.until(.crlf))
    let command = pair.client.enqueueWrite(Array("STARTTLS\r\n".utf8), timeout: nil)
    let goAhead = pair.client.enqueueRead(.until(.crlf))
    let client = pair.client.startTLS(try Contexts.client(version), as: .client(serverName: "server.test"))
    let hello = client.enqueueWrite(Array("EHLO me\r\n".utf8), timeout: nil)
    let answer = client.enqueueRead(.until(.crlf))
    // The server's.
    let welcome = pair.server.enqueueWrite(Array("220 hello\r\n".utf8), timeout: nil)
    #expect(try await pair.server.read(until: .crlf) == Array("STARTTLS\r\n".utf8))
    let ready = pair.server.enqueueWrite(Array("220 go ahead\r\n".utf8), timeout: nil)
    let server = pair.server.startTLS(try Contexts.server(version), as: .server)
    #expect(try await server.read(until: .crlf) == Array("EHLO me\r\n".utf8))
    try await server.write(utf8: "250 welcome\r\n")

    #expect(try await greeting.value == Array("220 hello\r\n".utf8))
    #expect(try await goAhead.value == Array("220 go ahead\r\n".utf8))
    #expect(try await answer.value == Array("250 welcome\r\n".utf8))
    for write in [command, hello, welcome, ready] { try await write.value }
    #expect(try await client.session.version == version)
    await close(client, server)
  }

  @Test func `An upgrade to an endpoint verifies the name in it`() async throws {
    for (endpoint, isRight) in [(.host("server.test", port: 587), true), (.host("other.test", port: 587), false)]
      as [(Endpoint, Bool)]
    {
      let pair = try await CarrierKind.tcp.pair()
      let client = pair.client.startTLS(try Contexts.client(.v13), to: endpoint)
      let server = pair.server.startTLS(try Contexts.server(.v13), as: .server)
      if isRight {
        try await client.handshake()
        #expect(try await client.session.serverName == "server.test")
      } else {
        let error = await #expect(throws: TLSError.self) { try await client.handshake() }
        #expect(error?.code == .nameMismatch)
      }
      await close(client, server)
    }
  }

  @Test func `Taking the bytes of a connection that still connects does not hold up its upgrade`() async throws {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let reactor = Reactor()
    let client = try await withTaskExecutorPreference(reactor) {
      let plain = TCPConnection(to: .address(listener.localAddresses[0]), reactor: reactor)
      let client = plain.startTLS(try Contexts.client(.v13), as: .client(serverName: "server.test"))
      #expect(await plain.takeBuffered().isEmpty)
      return client
    }
    let server = try await listener.accept().startTLS(try Contexts.server(.v13), as: .server)
    try await client.handshake()
    await close(client, server)
    await listener.close()
  }

  @Test func `A client without a context verifies its server with the system's roots`() async throws {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let context = try Contexts.server(.v13)
    let serving = Task { try await listener.serve(tls: context, .init(onFailure: { _ in })) { _ in } }
    let endpoint = Endpoint.address(listener.localAddresses[0])
    let error = await #expect(throws: TLSError.self) {
      _ = try await TLSConnection.connect(to: endpoint, serverName: "server.test")
    }
    let scopeError = await #expect(throws: TLSError.self) {
      try await TLSConnection.withConnection(to: endpoint, serverName: "server.test") { _ in }
    }
    #expect(error?.code == .selfSigned && scopeError?.code == .selfSigned)
    await listener.drain(within: .zero)
    _ = try await serving.value
  }

  @Test(arguments: CarrierKind.allCases)
  func `The plain face takes nothing any more, but tells, and closes both`(carrier: CarrierKind) async throws {
    for aborts in [false, true] {
      let pair = try await carrier.pair()
      let ends = try pair.encrypted()
      try await ends.client.handshake()
      try await ends.server.handshake()
      await expectError(.upgraded) { _ = try await pair.client.read() }
      await expectError(.upgraded) { _ = try await pair.client.read(exactly: 0) }
      await expectError(.upgraded) { try await pair.client.write([1]) }
      await expectError(.upgraded) { try await pair.client.write(contentsOf: [[1], [2]]) }
      await expectError(.upgraded) { try await pair.client.finishWriting() }
      await expectError(.upgraded) { _ = try await pair.client.enqueueRead(.exactly(1)).value }
      await expectError(.upgraded) { try await pair.client.enqueueWrite([1], timeout: nil).value }
      await expectError(.upgraded) { try await pair.client.flush(until: .acknowledged, timeout: nil) }
      #expect(await pair.client.state == .open)
      let before = await pair.client.metrics.bytesSent
      try await ends.client.write(pattern(1_000))
      #expect(try await ends.server.read(exactly: 1_000) == pattern(1_000))
      #expect(await pair.client.metrics.bytesSent > before + 1_000)
      #expect(await ends.client.metrics.bytesSent == 1_000)
      // The entries of the upgrade are not operations of the user.
      #expect(await pair.client.pendingOperations.isEmpty)
      let status = await pair.client.status
      #expect(status.queuedReads == 0 && status.queuedWrites == 0 && status.readProgress == nil)
      if let plain = pair.client as? TCPConnection {
        #expect(plain.remoteAddress == ends.client.remoteAddress && plain.localAddress == ends.client.localAddress)
      }
      async let ended = pair.client.closed
      let closing = Task {
        if aborts { await pair.client.abort() } else { await pair.client.close() }
      }
      await expectError(.closed) { _ = try await ends.client.read() }
      await expectError(.closed) { try await ends.client.write([1]) }
      if aborts, carrier == .unix {
        // There is no reset: it is an end without notice.
        await expectTLSError(.truncated) { _ = try await ends.server.read() }
      } else if aborts {
        await expectError(.connectionReset) { _ = try await ends.server.read() }
      } else {
        // The plain face's close is the encrypted one's: there is a notice.
        #expect(try await ends.server.read() == nil)
      }
      await ends.server.close()
      await closing.value
      #expect(try await ended.isByUs)
      #expect(try await ends.client.closed.isByUs)
    }
  }

  @Test(arguments: CarrierKind.allCases)
  func `A read that fails before it lets it fail, and nothing goes out in the clear`(carrier: CarrierKind) async throws
  {
    let pair = try await carrier.pair()
    let line = pair.client.enqueueRead(.until(.crlf, maximumLength: 4))
    let client = pair.client.startTLS(try Contexts.client(), as: .client(serverName: "server.test"))
    let secret = client.enqueueWrite(Array("secret".utf8), timeout: nil)
    let answer = client.enqueueRead(.exactly(1))
    try await pair.server.write(utf8: "too long\r\n")
    await expectError(.limitExceeded) { _ = try await line.value }
    await expectError(.precedingReadFailed) { try await client.handshake() }
    await expectError(.precedingReadFailed) { try await secret.value }
    await expectError(.precedingReadFailed) { _ = try await answer.value }
    #expect(try await pair.server.readToEnd().isEmpty)
    await pair.server.close()
  }

  @Test(arguments: [false, true], CarrierKind.allCases)
  func `Bytes from before the handshake are refused, in both roles`(isServer: Bool, carrier: CarrierKind) async throws {
    let pair = try await carrier.pair()
    let own = isServer ? pair.server : pair.client
    let peer = isServer ? pair.client : pair.server
    // The injected bytes come with the line before.
    try await peer.write(utf8: "220 go ahead\r\n250 injected\r\n")
    _ = try await own.read(until: .crlf)
    let secure = own.startTLS(
      try isServer ? Contexts.server() : Contexts.client(),
      as: isServer ? .server : .client(serverName: "server.test"))
    let read = secure.enqueueRead(.upTo(100))
    await expectTLSError(.plaintextBeforeTLS) { try await secure.handshake() }
    await expectTLSError(.plaintextBeforeTLS) { _ = try await read.value }
    #expect(await secure.takeBuffered().isEmpty)
    _ = try await peer.readToEnd()
    await peer.close()
  }

  @Test(arguments: CarrierKind.allCases)
  func `A greeting that came with a line before it is taken if one says so`(carrier: CarrierKind) async throws {
    let engine = try EngineEnd(greeting: Contexts.client())
    let pair = try await carrier.pair()
    try await pair.client.write(Array("PROXY TCP4\r\n".utf8) + engine.takeOutput())
    #expect(try await pair.server.read(until: .crlf) == Array("PROXY TCP4\r\n".utf8))
    let server = pair.server.startTLS(try Contexts.server(), as: .server, bufferedBytes: .asHandshake)
    try await engine.handshake(over: pair.client)
    try await server.handshake()
    engine.send(pattern(10))
    try await pair.client.write(engine.takeOutput())
    #expect(try await server.read(exactly: 10) == pattern(10))
    await close(server, pair.client)
  }

  @Test(arguments: CarrierKind.allCases, TLSVersion.both)
  func `A handshake that fails reaches each operation once, and closes what carries it`(
    carrier: CarrierKind, version: TLSVersion
  ) async throws {
    let pair = try await carrier.pair()
    let distrust = try Contexts.client(version) {
      $0.trustRoots = [.certificates([try Identities.stranger.get().certificate])]
    }
    let ends = try pair.encrypted(client: distrust, server: Contexts.server(version))
    let writes = (0..<5).map { ends.client.enqueueWrite(pattern($0), timeout: nil) }
    let reads = (0..<5).map { ends.client.enqueueRead(.exactly($0 + 1)) }
    let refused = await expectTLSError(.selfSigned) { try await ends.client.handshake() }
    #expect(refused.alert != nil)
    for write in writes { await expectTLSError(.selfSigned) { try await write.value } }
    for read in reads { await expectTLSError(.selfSigned) { _ = try await read.value } }
    await expectTLSError(.selfSigned) { try await ends.client.write([1]) }
    await expectTLSError(.selfSigned) { _ = try await ends.client.session }
    // The server hears why, in its handshake or, of TLS 1.3, perhaps behind it.
    let heard = await expectTLSError(.alertReceived) { _ = try await ends.server.read() }
    #expect(heard.alert == refused.alert)
    _ = try await pair.client.closed
    _ = try await pair.server.closed
    await expectError(.upgraded, or: .closed) { try await pair.client.write([1]) }
  }

  /// Of TLS 1.3 a client is up before the server has seen its certificate.
  @Test func `A write that meets a closed socket says what the peer had said`() async throws {
    let reactor = Reactor()
    let demanding = try Contexts.server(.v13, clientCertificates: .required)
    let (context, listener) = (try Contexts.client(.v13), try RawSocket.listening())
    for _ in 0..<10 {
      let gone = Gate()
      let plain = try await TCPConnection.connect(to: .address(listener.address), reactor: reactor)
      let accepted = try await listener.accept()
      let client = plain.startTLS(context, as: .client(serverName: "server.test"))
      let writing = Task(executorPreference: reactor) {
        try await client.handshake()
        // The reactor sees nothing of what arrives meanwhile.
        while !gone.isOpen {}
        while true { try await client.write([1]) }
      }
      let server = try EngineEnd(demanding, .server)
      while server.failure == nil {
        server.take(try await accepted.receive())
        try accepted.send(server.takeOutput())
      }
      #expect(server.failure?.code == .clientCertificateRequired)
      accepted.close()
      gone.open()
      let error = await expectTLSError(.clientCertificateRequired) { try await writing.value }
      #expect(error.alert == "certificate_required")
      await client.close()
    }
  }

  @Test func `Several reactors have encrypted connections of their own`() async throws {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let address = try #require(listener.localAddresses.first)
    let serverContext = try Contexts.server()
    let serving = Task {
      try await listener.serve(tls: serverContext, .init(reactors: 3)) { try await $0.echo() }
    }
    let clientContext = try Contexts.client()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<30 {
        group.addTask {
          let reactor = number.isMultiple(of: 3) ? Reactor() : Reactor.shared
          let client = try await TLSConnection.connect(
            to: .address(address), context: clientContext, serverName: "server.test", reactor: reactor)
          try await client.write(pattern(50_000, from: number))
          try await client.finishWriting()
          #expect(try await client.readToEnd() == pattern(50_000, from: number))
          await client.close()
        }
      }
      try await group.waitForAll()
    }
    #expect(try await serving.ended.finished == 30)
  }

  @Test(arguments: TLSVersion.both)
  func `TLS in TLS`(version: TLSVersion) async throws {
    let outer = try await CarrierKind.tcp.pair().encrypted(client: Contexts.client(version))
    let pair = PlainPair(client: outer.client, server: outer.server)
    try await pair.client.write(utf8: "inside\n")
    #expect(try await pair.server.read(until: .lf) == Array("inside\n".utf8))
    let inner = try pair.encrypted()
    async let arrived = inner.server.readToEnd()
    try await inner.client.write(pattern(300_000))
    try await inner.client.finishWriting()
    #expect(try await arrived == pattern(300_000))
    try await inner.server.write(pattern(10))
    #expect(try await inner.client.read(exactly: 10) == pattern(10))
    await expectError(.upgraded) { try await outer.client.write([1]) }
    await close(inner.client, inner.server)
    #expect(try await outer.client.closed.isByUs)
  }
}
