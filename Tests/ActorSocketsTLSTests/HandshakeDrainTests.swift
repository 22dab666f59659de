import ActorSocketsTesting
import EpollReactor
import TestSupport
import Testing

@testable import ActorSockets
@testable import ActorSocketsTLS

/// Drains while handshakes are not complete. Time is manual, so no handshake ends because its own time is over.
@Suite(.endsInTime) struct HandshakeDrainTests {
  private struct Scene {
    let time = ManualTime()
    let listener: TCPListener
    let context: TLSContext

    init(_ version: TLSVersion? = nil) throws {
      listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0), reactor: time.reactor)
      context = try Contexts.server(version)
    }

    func client(_ version: TLSVersion? = nil) throws -> RawPeer {
      try RawPeer(Contexts.client(version), to: listener.localAddresses[0].port ?? 0)
    }

    func accepts() async throws {
      try await eventually("it is accepted") { await listener.server.active.count == 1 }
    }

    /// Begins a drain, and returns when the listener accepts no more.
    func drain(_ serving: Task<ServeReport, any Error>) async {
      serving.cancel()
      await expectError(.closed) { _ = try await listener.accept() }
    }
  }

  @Test(arguments: TLSVersion.both, [0, 1, 2])
  func `A client whose handshake or first line comes after the drain began is answered`(
    version: TLSVersion, stage: Int
  ) async throws {
    let scene = try Scene(version)
    let serving = Task {
      try await scene.listener.serve(tls: scene.context, .init(drain: .within(.seconds(100)))) { connection in
        try await connection.echoLines()
      }
    }
    let client = try scene.client(version)
    if stage == 1 {
      // The server has answered, and waits for the rest of the handshake.
      try await client.beginHandshake()
    }
    if stage == 2 { try await client.handshake() }
    try await scene.accepts()
    // Its own timeout says that the handshake has begun. One that begins later has a grace of its own.
    if stage < 2 { try await scene.time.waitForDeadlines(1) }
    await scene.drain(serving)
    await scene.time.advance(by: .milliseconds(4_999))
    if stage < 2 { try await client.handshake() }
    try client.send(Array("hello\n".utf8))
    try await client.receiveToEnd()
    #expect(client.engine.received == Array("hello\n".utf8) && client.engine.failure == nil)
    client.socket.close()
    #expect(try await serving.value.finished == 1)
  }

  @Test(arguments: TLSVersion.both, [Duration.zero, .seconds(3)])
  func `An upgrade that begins during the drain, after a plain line, has a grace of its own`(
    version: TLSVersion, idleGrace: Duration
  ) async throws {
    let scene = try Scene(version)
    let (isAsked, mayUpgrade) = (Gate(), Gate())
    let drain = Drain.within(.seconds(100), idleConnectionGrace: idleGrace)
    let serving = Task {
      try await scene.listener.serve(.init(drain: drain)) { connection in
        _ = try await connection.read(until: .lf)
        isAsked.open()
        await mayUpgrade.wait()
        try await connection.startTLS(scene.context, as: .server).echoLines()
      }
    }
    let client = try scene.client(version)
    try client.socket.send("STARTTLS\n")
    await isAsked.wait()
    await scene.drain(serving)
    mayUpgrade.open()
    try await client.handshake()
    await scene.time.advance(by: .milliseconds(4_999))
    try client.send(Array("hello\n".utf8))
    try await client.receiveToEnd()
    #expect(client.engine.received == Array("hello\n".utf8) && client.engine.failure == nil)
    client.socket.close()
    #expect(try await serving.value.finished == 1)
  }

  @Test(arguments: TLSVersion.both, [false, true])
  func `A handshake that is not completed holds a drain for no longer than its grace`(
    version: TLSVersion, hasBegun: Bool
  ) async throws {
    let scene = try Scene(version)
    let failures = Notes<String>()
    let serving = Task {
      var options = ServeOptions(drain: .within(.seconds(100)))
      options.onFailure = { failures.add("\($0.error)") }
      return try await scene.listener.serve(tls: scene.context, options) { _ in }
    }
    let client = try scene.client(version)
    if hasBegun {
      try await client.beginHandshake()
    }
    try await scene.accepts()
    // Its own timeout says that the handshake has begun. One that begins later has a grace of its own.
    try await scene.time.waitForDeadlines(1)
    await scene.drain(serving)
    await scene.time.advance(by: .milliseconds(4_999))
    #expect(await scene.listener.server.active.count == 1)
    await scene.time.advance(by: .milliseconds(1))
    let report = try await serving.value
    #expect(report.failedByPeer == 1 && report.aborted == 0, "\(report)")
    #expect(failures.all == ["handshake: the server stops, and nothing was served yet"])
    client.socket.close()
  }

  @Test(arguments: TLSVersion.both)
  func `A handshake that begins when the grace is over holds a drain for no longer than a grace`(
    version: TLSVersion
  ) async throws {
    let scene = try Scene(version)
    let mayBegin = Gate()
    let failures = Notes<String>()
    let serving = Task {
      var options = ServeOptions(drain: .within(.seconds(100)))
      options.onFailure = { failures.add("\($0.error)") }
      return try await scene.listener.serve(options) { plain in
        await mayBegin.wait()
        try await plain.startTLS(scene.context, as: .server).handshake()
      }
    }
    let peer = try RawSocket.connected(to: scene.listener.localAddresses[0])
    try await scene.accepts()
    await scene.drain(serving)
    await scene.time.advance(by: .seconds(5))
    mayBegin.open()
    // That of the drain, that of the handshake, and that of its grace.
    try await scene.time.waitForDeadlines(3)
    await scene.time.advance(by: .milliseconds(4_999))
    #expect(await scene.listener.server.active.count == 1)
    await scene.time.advance(by: .milliseconds(1))
    #expect(try await serving.value.failedByPeer == 1)
    #expect(failures.all == ["handshake: the server stops, and nothing was served yet"])
    peer.close()
  }

  // If `isEnqueued`, the handshake waits for the line when the drain begins. Otherwise it is asked for after the line.
  @Test(arguments: TLSVersion.both, [false, true])
  func `A handshake that begins late in the grace, after a line in plain text, is not cut off`(
    version: TLSVersion, isEnqueued: Bool
  ) async throws {
    let scene = try Scene(version)
    let waits = Gate()
    let serving = Task {
      try await scene.listener.serve(.init(drain: .within(.seconds(100)))) { plain in
        let line = plain.enqueueRead(.line())
        var secure = isEnqueued ? plain.startTLS(scene.context, as: .server) : nil
        waits.open()
        #expect(try await line.value == "STARTTLS")
        if secure == nil { secure = plain.startTLS(scene.context, as: .server) }
        let connection = try #require(secure)
        try await connection.echoLines()
      }
    }
    let socket = try RawSocket.connected(to: scene.listener.localAddresses[0])
    await waits.wait()
    await scene.drain(serving)
    await scene.time.advance(by: .milliseconds(4_900))
    try socket.send("STARTTLS\n")
    // That of the drain, that of the grace before the line, and that of the handshake.
    try await scene.time.waitForDeadlines(3)
    await scene.time.advance(by: .milliseconds(100))
    let client = try RawPeer(Contexts.client(version), .client(serverName: "server.test"), on: socket)
    try await client.handshake()
    await scene.time.advance(by: .milliseconds(4_899))
    try client.send(Array("hello\n".utf8))
    try await client.receiveToEnd()
    #expect(client.engine.received == Array("hello\n".utf8) && client.engine.failure == nil)
    socket.close()
    #expect(try await serving.value.finished == 1)
  }

  @Test func `A call that waits for the drain returns when the notice begins, also over TLS`() async throws {
    let scene = try Scene()
    let served = Notes<TLSConnection>()
    let serving = Task {
      let drain = Drain.within(.seconds(100), notice: .seconds(10))
      return try await scene.listener.serve(tls: scene.context, .init(drain: drain)) { connection in
        #expect(try await connection.read(.line()) == "first")
        served.add(connection)
        try await connection.waitUntilDraining()
        #expect(connection.isDraining)
        try await connection.write(utf8: "bye")
      }
    }
    let peer = try scene.client()
    try await peer.handshake()
    try peer.send(Array("first\n".utf8))
    try await eventually("the handler waits") { await served.all.first?.waitsForDrain == true }
    serving.cancel()
    // The clock stands still, so the drain does not begin.
    while !peer.engine.hasEnded { try await peer.receive() }
    #expect(peer.engine.received == Array("bye".utf8))
    peer.socket.close()
    await scene.listener.drain(within: .seconds(100))
    #expect(try await serving.value.finished == 1)
  }

  @Test func `A connection whose handshake is not done when the drain begins gets its first message`() async throws {
    let scene = try Scene()
    let serving = Task {
      try await scene.listener.serve(tls: scene.context) { connection in
        try await connection.waitUntilDraining()
        #expect(connection.isDraining)
        #expect(try await connection.read(.line()) == "first")
        #expect(try await connection.read(.line()) == nil)
      }
    }
    let peer = try scene.client()
    try await scene.accepts()
    await scene.listener.drain(within: .seconds(100))
    try await peer.handshake()
    try await eventually("the handler waits") {
      let connection = await scene.listener.server.active.values.first
      return await connection?.state == .open
    }
    try peer.send(Array("first\n".utf8))
    while !peer.engine.hasEnded { try await peer.receive() }
    peer.socket.close()
    #expect(try await serving.value.finished == 1)
  }
}

extension TLSConnection {
  fileprivate var waitsForDrain: Bool { core.waiters?.draining.isEmpty == false }
}
