import ActorSocketsTesting
import EpollReactor
import Foundation
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets
@testable import ActorSocketsTLS

@Suite(.endsInTime) struct SecureServeTests {
  /// A server that answers lines, on manual time, so that nothing here ends because a drain is over.
  private struct Scene {
    let time = ManualTime()
    let listener: TCPListener
    let serving: Task<ServeReport, any Error>
    let server: RawPeer

    init(_ version: TLSVersion, _ idleReads: Drain.IdleReads = .endMessages) async throws {
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0), reactor: time.reactor)
      self.listener = listener
      let context = try Contexts.server(version)
      serving = Task {
        try await listener.serve(tls: context, .init(drain: .within(.seconds(100), idleReads: idleReads))) {
          connection in
          try await connection.echoLines()
        }
      }
      server = try RawPeer(Contexts.client(version), to: listener.localAddresses[0].port ?? 0)
      try await server.handshake()
    }

    func send(_ text: String) throws { try server.send(Array(text.utf8)) }

    func expectLine(_ text: String) async throws {
      while server.engine.received.count < text.utf8.count { try await server.receive() }
      #expect(server.engine.received == Array(text.utf8))
      server.engine.received = []
    }

    func beginDraining() async {
      serving.cancel()
      await expectError(.closed) { _ = try await listener.accept() }
    }

    func expectCleanEnd() async throws {
      try await server.receiveToEnd()
      #expect(server.engine.hasEnded && server.engine.failure == nil && server.engine.received == [])
      server.socket.close()
      let report = try await serving.value
      #expect(report.finished == 1 && report.failed == 0 && report.failedByPeer == 0 && report.aborted == 0)
    }
  }

  @Test(arguments: [true, false])
  func `Plain and encrypted listeners are one server`(isIsolated: Bool) async throws {
    let plain = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let encrypted = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let context = try Contexts.server()
    let served =
      isIsolated
      ? [
        ServedListener(plain) { (connection: isolated TCPConnection) in try await connection.echoLines() },
        ServedListener(encrypted, tls: context) { (connection: isolated TLSConnection) in
          try await connection.echoLines()
        },
      ]
      : [
        ServedListener(plain) { connection in try await connection.echoLines() },
        ServedListener(encrypted, tls: context) { connection in try await connection.echoLines() },
      ]
    let serving = Task { try await served.serve(.init(limits: .init(connections: 1))) }
    // Each is served when the one before has ended.
    for _ in 0..<3 {
      let client = try RawSocket.connected(to: plain.localAddresses[0])
      try client.send("hello\n")
      #expect(try await client.receive(exactly: 6) == Array("hello\n".utf8))
      client.close()
      let peer = try RawPeer(Contexts.client(), to: encrypted.localAddresses[0].port ?? 0)
      try await peer.handshake()
      try peer.send(Array("hello\n".utf8))
      while peer.engine.received.count < 6 { try await peer.receive() }
      #expect(peer.engine.received == Array("hello\n".utf8))
      peer.socket.close()
    }
    serving.cancel()
    let report = try await serving.value
    #expect(report.accepted == 6 && report.finished + report.failedByPeer == 6)
  }

  private static func waitsToOpen(_ connection: isolated TLSConnection) -> Bool {
    connection.core.waiters?.open.isEmpty == false
  }
  private static func keepsWaiters(_ connection: isolated TLSConnection) -> Bool { connection.core.waiters != nil }

  /// A handler that waits for its client's hello, as that of a server does.
  private func handlerInHandshake(
    on stream: InMemoryConnection
  ) async throws -> (server: TLSConnection, handler: Task<Void, any Error>) {
    let server = stream.startTLS(try Contexts.server(), as: .server)
    let handler = Task {
      server.markHandlerTask(true)
      defer { server.markHandlerTask(false) }
      try await server.handshake()
    }
    try await eventually("the handler waits") { await Self.waitsToOpen(server) }
    return (server, handler)
  }

  @Test func `A handler that waits for its handshake leaves no memory for that to its connection`() async throws {
    let (near, far) = InMemoryConnection.pair()
    let (server, handler) = try await handlerInHandshake(on: far)
    let client = near.startTLS(try Contexts.client(), as: .client(serverName: "server.test"))
    try await client.handshake()
    try await handler.value
    #expect(await Self.keepsWaiters(server) == false)
    await client.close()
  }

  @Test
  func `A handler that is cancelled during its handshake, and whose connection is aborted then, is told of the first`()
    async throws
  {
    let (near, far) = InMemoryConnection.pair()
    let (_, handler) = try await handlerInHandshake(on: far)
    handler.cancel()
    await far.abort()
    await #expect(throws: CancellationError.self) { try await handler.value }
    withExtendedLifetime(near) {}
  }

  @Test(arguments: TLSVersion.both)
  func `A handler that waits for the next line returns, and the client gets close_notify`(
    version: TLSVersion
  ) async throws {
    let scene = try await Scene(version)
    try scene.send("hello\n")
    try await scene.expectLine("hello\n")
    await scene.beginDraining()
    try await scene.expectCleanEnd()
  }

  @Test func `Clients that do not close hold up no others of a server at its limit`() async throws {
    let time = ManualTime()
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0), reactor: time.reactor)
    let context = try Contexts.server()
    let serving = Task {
      try await listener.serve(tls: context, .init(limits: .init(connections: 1), drain: .within(.seconds(100)))) {
        try await $0.write(utf8: "answer\n")
      }
    }
    var clients: [RawPeer] = []
    for _ in 0..<10 {
      let client = try RawPeer(Contexts.client(), to: listener.localAddresses[0].port ?? 0)
      try await client.handshake()
      while !client.engine.hasEnded { try await client.receive() }
      #expect(client.engine.received == Array("answer\n".utf8))
      clients.append(client)
    }
    try await eventually("all linger") { await listener.server.lingering.count == 10 }
    serving.cancel()
    await expectError(.closed) { _ = try await listener.accept() }
    await time.advance(by: .milliseconds(500))
    #expect(try await serving.value.finished == 10)
  }

  @Test(arguments: TLSVersion.both)
  func `A record that has begun to arrive is served`(version: TLSVersion) async throws {
    for length in [1, 5, 6, 20] {
      let scene = try await Scene(version)
      try scene.send("hello\n")
      try await scene.expectLine("hello\n")
      scene.server.engine.send(Array("late\n".utf8))
      let record = scene.server.engine.takeOutput()
      // While the reactor stands still, the drain and the first part of the record come.
      try await scene.time.reactor.whileBlocked {
        try scene.server.socket.send(Array(record.prefix(length)))
        scene.serving.cancel()
      }
      await expectError(.closed) { _ = try await scene.listener.accept() }
      try scene.server.socket.send(Array(record.dropFirst(length)))
      try await scene.expectLine("late\n")
      try await scene.expectCleanEnd()
    }
  }

  @Test(arguments: TLSVersion.both)
  func `Idle reads go on waiting if the drain says so`(version: TLSVersion) async throws {
    let scene = try await Scene(version, .wait)
    await scene.beginDraining()
    try scene.send("late\n")
    try await scene.expectLine("late\n")
    try scene.server.finish()
    try await scene.expectCleanEnd()
  }

  @Test func `A handler can run in the isolation of its connection`() async throws {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0), reactor: Reactor())
    let context = try Contexts.server()
    let serving = Task {
      try await listener.serve(tls: context) { (connection: isolated TLSConnection) in
        connection.preconditionIsolated()
        for try await line in connection.lines {
          connection.preconditionIsolated()
          try await connection.write(utf8: line + "\n")
        }
      }
    }
    let peer = try RawPeer(Contexts.client(), to: listener.localAddresses[0].port ?? 0)
    try await peer.handshake()
    try peer.send(Array("first\n".utf8))
    while peer.engine.received.isEmpty { try await peer.receive() }
    #expect(peer.engine.received == Array("first\n".utf8))
    serving.cancel()
    while !peer.engine.hasEnded { try await peer.receive() }
    peer.socket.close()
    #expect(try await serving.value.finished == 1)
  }

  @Test func `An isolated handler begins and ends although all threads of Swift's pool are busy`() async throws {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0), reactor: Reactor())
    let (context, peerContext) = (try Contexts.server(), try Contexts.client())
    let serving = Task {
      try await listener.serve(tls: context) { (connection: isolated TLSConnection) in
        let line = try await connection.read(until: .lf)
        try await connection.write(line)
      }
    }
    @Sendable func echo() async throws {
      let peer = try RawPeer(peerContext, to: listener.localAddresses[0].port ?? 0)
      try await peer.handshake()
      try peer.send(Array("line\n".utf8))
      while !peer.engine.hasEnded { try await peer.receive() }
      #expect(peer.engine.received == Array("line\n".utf8))
      peer.socket.close()
    }
    try await echo()
    try await whilePoolIsBusy { try await echo() }
    serving.cancel()
    #expect(try await serving.value.finished == 2)
  }

  @Test func `A handler can wait for the drain`() async throws {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let context = try Contexts.server()
    let isWaiting = Gate()
    let serving = Task {
      try await listener.serve(tls: context) { connection in
        async let drain: Void = connection.waitUntilDraining()
        isWaiting.open()
        try await drain
        try await connection.write(utf8: "bye")
      }
    }
    let client = try await TLSConnection.connect(
      to: .address(listener.localAddresses[0]), context: Contexts.client(), serverName: "server.test")
    await isWaiting.wait()
    serving.cancel()
    #expect(try await client.read(exactly: 3) == Array("bye".utf8))
    await client.close()
    #expect(try await serving.value.finished == 1)
  }

  // MARK: Errors

  private struct Broken: Error {}

  private final class Observer: ReactorObserver {
    let notes = Notes<String>()
    func handlerFailed(_ connection: ObservedConnection, _ error: any Error) { notes.add("handler \(error)") }
    func handshakeFailed(_ connection: ObservedConnection, _ error: any Error) { notes.add("handshake") }
  }

  @Test func `Handlers and handshakes that fail are told apart, to the program and to observers`() async throws {
    let (reactor, observer, failures) = (Reactor(), Observer(), Notes<String>())
    reactor.observer = observer
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0), reactor: reactor)
    let context = try Contexts.server()
    let serving = Task {
      let options = ServeOptions(onFailure: { failure in
        let isEncrypted = failure.connection is TLSConnection && failure.connection.remoteAddress != nil
        failures.add("\(isEncrypted) \(failure.isBeforeHandler) \(failure.error is TLSError)")
      })
      return try await listener.serve(tls: context, options) { _ in throw Broken() }
    }
    let plain = try RawSocket.connected(to: listener.localAddresses[0])
    try plain.send("GET / HTTP/1.0\r\n\r\n")
    _ = try? await plain.receiveToEnd()
    plain.close()
    try await eventually("the handshake has failed") { failures.all.count == 1 }
    let client = try await TLSConnection.connect(
      to: .address(listener.localAddresses[0]), context: Contexts.client(), serverName: "server.test")
    await #expect(throws: (any Error).self) { while try await client.read() != nil {} }
    await client.close()
    let report = try await serving.ended
    #expect(report.accepted == 2 && report.failedByPeer == 1 && report.failed == 1)
    #expect(failures.all == ["true true true", "true false false"])
    #expect(observer.notes.all == ["handshake", "handler Broken()"])
  }

  @Test func `Errors that the peer did not cause are printed unless the program hears of them`() async throws {
    await #expect(processExitsWith: .success) {
      try await within("the servers end") {
        let before = dup(STDERR_FILENO)
        let pipe = Pipe()
        dup2(pipe.fileHandleForWriting.fileDescriptor, STDERR_FILENO)
        // A server without a certificate cannot shake hands, which is its own fault.
        var configuration = TLSConfiguration()
        configuration.chooseIdentity = { _ in nil }
        for context in [try TLSContext(configuration), try Contexts.server()] {
          for isSilent in [true, false] { try await SecureServeTests.failOnce(context, isSilent: isSilent) }
        }
        let output = pipe.fileHandleForReading
        let lines = try await onThread {
          var text = ""
          while text.count(where: { $0 == "\n" }) < 2 { text += String(decoding: output.availableData, as: UTF8.self) }
          return text.split(separator: "\n")
        }
        dup2(before, STDERR_FILENO)
        #expect(lines.count == 2 && lines[0].contains(": failed before the handler ran: TLS: "))
        #expect(lines[1].hasSuffix(": the handler failed: Broken()"))
      }
    }
  }

  /// Serves one client, whose handler fails, unless its handshake does.
  private static func failOnce(_ context: TLSContext, isSilent: Bool) async throws {
    let ignore: @Sendable (ServeFailure) -> Void = { _ in }
    let silence = isSilent ? ignore : nil
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let serving = Task {
      try await listener.serve(tls: context, .init(onFailure: silence)) { _ in throw Broken() }
    }
    let peer = try RawPeer(Contexts.client(), to: listener.localAddresses[0].port ?? 0)
    try? await peer.handshake()
    try await eventually("it has failed") { await listener.server.report.failed == 1 }
    peer.socket.close()
    #expect(try await serving.ended.failedByPeer == 0)
  }

  @Test
  func `A connection without a valid PROXY header is told as a handshake that failed, and a valid one is encrypted`()
    async throws
  {
    var configuration = TCPListener.Configuration()
    configuration.proxyProtocol = try ProxyProtocol(.required, from: "127.0.0.0/8")
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0), configuration: configuration)
    let failures = Notes<ServeFailure>()
    let clients = Notes<SocketAddress?>()
    let context = try Contexts.server()
    let serving = Task {
      try await listener.serve(tls: context, .init(onFailure: { failures.add($0) })) { connection in
        clients.add(connection.remoteAddress)
        try await connection.echoLines()
      }
    }
    let address = listener.localAddresses[0]
    let wrong = try RawSocket.connected(to: address)
    try wrong.send("PROXY nonsense\r\n")
    try await eventually("the failure is told") { failures.all.count == 1 }
    #expect((failures.all[0].error as? SocketError)?.code == .invalidProxyHeader && failures.all[0].isBeforeHandler)
    var client = TCPConnection.Configuration()
    let source = SocketAddress("192.0.2.1:5")
    client.proxyHeader = ProxyHeader(source: source, destination: address)
    let connection = try await TLSConnection.connect(
      to: .address(address), context: Contexts.client(), serverName: "server.test", configuration: client)
    try await connection.expectEcho()
    #expect(clients.all == [source])
    await connection.close()
    let report = try await serving.ended
    #expect(report.failedByPeer == 1 && report.failed == 0 && report.finished == 1)
  }
}
