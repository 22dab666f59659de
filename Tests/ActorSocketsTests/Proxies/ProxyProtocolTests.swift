import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// Listeners behind a load balancer that is played by hand.
@Suite(.endsInTime) struct ProxyProtocolTests {
  private static let client = SocketAddress("192.0.2.1:56324") ?? .ipv4(.any, port: 0)
  private static let line = "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n"

  private static func listener(on reactor: Reactor = .shared) throws -> TCPListener {
    try .onLoopback(.init { $0.proxyProtocol = try ProxyProtocol(.required, from: "127.0.0.1") }, on: reactor)
  }

  /// A server, and what its handlers and its failures were.
  private final class Server: Sendable {
    let time = ManualTime()
    let clients = Notes<SocketAddress?>()
    let headers = Notes<ProxyHeader?>()
    let failures = Notes<ServeFailure>()
    let listener: TCPListener
    private let task: Task<ServeReport, any Error>

    init(
      _ policy: ProxyProtocol.Policy = .required, from network: String = "127.0.0.0/8",
      limits: ServeLimits = .init(), reactors: Int = 1, observer: (any ReactorObserver)? = nil,
      at endpoint: Endpoint = .address(.ipv4(.loopback, port: 0)),
      _ change: (inout TCPListener.Configuration) -> Void = { _ in }
    ) throws {
      time.reactor.observer = observer
      var configuration = try TCPListener.Configuration { $0.proxyProtocol = try ProxyProtocol(policy, from: network) }
      change(&configuration)
      let listener = try TCPListener.bind(to: endpoint, configuration: configuration, reactor: time.reactor)
      self.listener = listener
      task = Task { [clients, headers, failures] in
        var options = ServeOptions(limits: limits, reactors: reactors)
        options.onFailure = { failures.add($0) }
        return try await listener.serve(options) { connection in
          clients.add(connection.remoteAddress)
          headers.add(connection.proxyHeader)
          try await connection.write(utf8: "hello\n")
          for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
        }
      }
    }

    var address: SocketAddress { listener.address }

    func connect(sending text: String = "") throws -> RawSocket {
      let peer = try RawSocket.connected(to: address)
      try peer.send(text)
      return peer
    }

    func stop() async throws -> ServeReport { try await task.stop() }

    /// Waits for a number of failures, and returns their codes.
    func codes(_ count: Int) async throws -> [SocketError.Code?] {
      try await eventually("\(count) connections have failed") { failures.all.count >= count }
      #expect(!failures.all.contains { !$0.isBeforeHandler })
      return failures.all.map { ($0.error as? SocketError)?.code }
    }

    deinit { task.cancel() }
  }

  @Test(arguments: [ProxyHeader.Version.v1, .v2], [ProxyProtocol.Policy.required, .optional])
  func `The handler sees the client, however the header arrives`(
    version: ProxyHeader.Version, policy: ProxyProtocol.Policy
  ) async throws {
    let server = try Server(policy)
    let header = ProxyHeader(version, source: Self.client, destination: server.address)
    let bytes = try header.encoded() + Array("line\n".utf8)
    for cut in [0, 1, 5, 6, 12, 13, 16, bytes.count - 6, bytes.count - 5, bytes.count - 1, bytes.count] {
      let before = server.clients.all.count
      let peer = try server.connect()
      try peer.send(Array(bytes.prefix(cut)))
      try peer.send(Array(bytes.dropFirst(cut)))
      #expect(try await peer.receive(exactly: 11) == Array("hello\nline\n".utf8))
      #expect(server.clients.all.count == before + 1)
    }
    let byByte = try server.connect()
    for byte in bytes { try byByte.send([byte]) }
    #expect(try await byByte.receive(exactly: 11) == Array("hello\nline\n".utf8))
    #expect(
      Set(server.clients.all) == [Self.client] && Set(server.headers.all) == [header] && server.failures.all.isEmpty)
    byByte.close()
    _ = try await server.stop()
  }

  @Test func `The header's addresses are those of the connection, and the balancer's are kept`() async throws {
    let time = ManualTime()
    let listener = try Self.listener(on: time.reactor)
    let peer = try RawSocket.connected(to: listener.address)
    let connection = try await listener.accept()
    let balancer = try peer.address
    #expect(connection.remoteAddress == nil && connection.proxyAddress == nil && connection.proxyHeader == nil)
    async let reading = connection.read(exactly: 2)
    #expect(await connection.state == .connecting)
    try peer.send(Self.line + "hi")
    try await connection.waitUntilOpen()
    #expect(connection.remoteAddress == Self.client && connection.proxyAddress == balancer)
    #expect(connection.proxyHeader?.destination == SocketAddress("198.51.100.2:443") && connection.isIPv4)
    #expect(connection.localAddress == listener.address)
    #expect(try await reading == Array("hi".utf8))
    peer.close()
    await connection.close()
  }

  @Test func `A client sends its header ahead of everything else`() async throws {
    let server = try Server()
    var configuration = TCPConnection.Configuration()
    let header = ProxyHeader(
      source: Self.client, destination: server.address, fields: [.init(.uniqueID, [1, 2, 3])], hasChecksum: true)
    configuration.proxyHeader = header
    let connection = try await TCPConnection.connect(to: .address(server.address), configuration: configuration)
    try await connection.write(utf8: "line\n")
    #expect(try await connection.read(exactly: 11) == Array("hello\nline\n".utf8))
    #expect(
      server.headers.all == [header] && connection.remoteAddress == server.address && connection.proxyAddress == nil)
    configuration.proxyHeader = ProxyHeader(source: Self.client)
    await expectConnectError(.invalidArgument, to: .address(server.address), configuration: configuration)
    await connection.close()
    _ = try await server.stop()
  }

  @Test(arguments: [
    "GET / HTTP/1.1\r\n\r\n", "PROXY TCP4 nonsense\r\n", "PROXY " + String(repeating: "x", count: 200),
    "\r\n\r\n\0\r\nQUIT\n\u{13}",
  ])
  func `A connection that begins with anything else is aborted with a typed error`(text: String) async throws {
    let server = try Server()
    let peer = try server.connect(sending: text)
    #expect(try await server.codes(1) == [.invalidProxyHeader])
    #expect((server.failures.all[0].error as? SocketError)?.address == (try peer.address))
    await #expect(throws: (any Error).self) { try await peer.receive(exactly: 1) }
    let report = try await server.stop()
    #expect(report.accepted == 1 && report.failedByPeer == 1 && report.failed == 0 && server.clients.all.isEmpty)
  }

  @Test(arguments: ["", "P", "PROXY TCP4 192.0.2.1", "\r\n\r\n"], [false, true])
  func `A header that is not completed is an error, at once or when its time is over`(start: String, stalls: Bool)
    async throws
  {
    let server = try Server()
    let peer = try server.connect(sending: start)
    if stalls {
      let other = try server.connect(sending: Self.line)
      #expect(try await other.receive(exactly: 6) == Array("hello\n".utf8))
      await server.time.advance(by: .milliseconds(5000))
      #expect(try await server.codes(1) == [.timedOut])
      #expect("\(server.failures.all[0])".contains("did not arrive within 5 s"))
      other.close()
    } else {
      peer.finishWriting()
      #expect(try await server.codes(1) == [.invalidProxyHeader])
      #expect("\(server.failures.all[0])".contains("it ended the connection"))
    }
    let report = try await server.stop()
    #expect(report.failedByPeer == 1 && report.failed == 0)
  }

  @Test func `If the header is optional, other connections are served as they are`() async throws {
    let server = try Server(.optional)
    let speaking = try server.connect(sending: "line\n")
    #expect(try await speaking.receive(exactly: 11) == Array("hello\nline\n".utf8))
    let silent = try server.connect()
    try await eventually("the silent connection is accepted") { await server.listener.waitingForHeader == 1 }
    await server.time.advance(by: .milliseconds(5000))
    #expect(try await silent.receive(exactly: 6) == Array("hello\n".utf8))
    #expect(server.clients.all == [try speaking.address, try silent.address] && server.headers.all == [nil, nil])
    // A part of a header is not something else.
    let stalling = try server.connect()
    try stalling.send("PROX")
    try await eventually("the stalling connection is accepted") { await server.listener.waitingForHeader == 1 }
    await server.time.advance(by: .milliseconds(5000))
    #expect(try await server.codes(1) == [.timedOut])
    silent.close()
    speaking.close()
    _ = try await server.stop()
  }

  @Test func `Headers from other networks are not believed`() async throws {
    let required = try Server(.required, from: "10.0.0.0/8")
    let refused = try required.connect()
    // The reset may come before the line is sent. Then sending fails, and receiving finds the end.
    await #expect(throws: (any Error).self) {
      try refused.send(Self.line)
      return try await refused.receive(exactly: 1)
    }
    let report = try await required.stop()
    #expect(report.refused == 1 && report.accepted == 0 && required.failures.all.isEmpty)

    let optional = try Server(.optional, from: "10.0.0.0/8")
    let served = try optional.connect(sending: Self.line)
    #expect(
      try await served.receive(exactly: 6 + Self.line.utf8.count - 1)
        == Array("hello\n\(Self.line.dropLast())\n".utf8))
    #expect(optional.clients.all == [try served.address])
    served.close()
    _ = try await optional.stop()
  }

  @Test func `A balancer's own connections have the balancer's address`() async throws {
    let server = try Server()
    for header in [ProxyHeader(), ProxyHeader(.v1)] {
      let peer = try server.connect()
      try peer.send(try header.encoded())
      #expect(try await peer.receive(exactly: 6) == Array("hello\n".utf8))
      #expect(server.clients.all.last == (try peer.address) && server.headers.all.last == header)
      peer.close()
    }
    _ = try await server.stop()
  }

  @Test func `The limit for each peer counts clients, not the balancer`() async throws {
    let server = try Server(limits: .init(connectionsPerPeer: 2))
    var peers: [RawSocket] = []
    for (client, isServed) in [(1, true), (1, true), (1, false), (2, true), (2, true), (2, false)] {
      let peer = try server.connect(sending: "PROXY TCP4 192.0.2.\(client) 198.51.100.2 56324 443\r\n")
      let answer = try? await peer.receive(exactly: 6)
      #expect(answer == (isServed ? Array("hello\n".utf8) : nil))
      peers.append(peer)
    }
    #expect(try await server.codes(2) == [.limitExceeded, .limitExceeded])
    // Those that were refused are not counted for ever.
    peers[0].close()
    try await eventually("another connection of the first client is served") {
      let peer = try server.connect(sending: "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n")
      defer { peer.close() }
      return (try? await peer.receive(exactly: 6)) != nil
    }
    for peer in peers { peer.close() }
    _ = try await server.stop()
  }

  @Test func `Connections over a unix socket are trusted`() async throws {
    let server = try Server(from: "10.0.0.0/8", at: .unix(path: "@\(UInt64.random(in: 0 ... .max))"))
    let connection = try await TCPConnection.connect(to: .address(server.address))
    try await connection.write(utf8: Self.line)
    #expect(try await connection.read(exactly: 6) == Array("hello\n".utf8))
    #expect(server.clients.all == [Self.client])
    await connection.close()
    _ = try await server.stop()
  }

  @Test(arguments: ["", "PROXY "])
  func `Closing, aborting and dropping a connection that waits for its header close its descriptor`(start: String)
    async throws
  {
    let listener = try Self.listener()
    let before = try await settledDescriptors()
    for way in 0..<3 {
      let peer = try RawSocket.connected(to: listener.address)
      try peer.send(start)
      var connection: TCPConnection? = try await listener.accept()
      switch way {
      case 0: await connection?.close()
      case 1: await connection?.abort()
      default: connection = nil
      }
      if let connection {
        await expectError(.closed) { _ = try await connection.read() }
      }
      _ = try? await peer.receive(exactly: 1)
      peer.close()
    }
    try await eventually("all descriptors are closed") { openDescriptors() <= before }
  }

  @Test(arguments: ["", "PROXY TCP4 192.0"])
  func `A header that does not arrive holds a drain for no longer than its grace`(start: String) async throws {
    let server = try Server { $0.proxyProtocol?.timeLimit = .seconds(60) }
    let peer = try server.connect(sending: start)
    try await eventually("it is accepted") { await server.listener.server.active.count == 1 }
    let stopping = Task { try await server.stop() }
    try await eventually("the server drains") { await server.listener.server.isDraining }
    await server.time.advance(by: .milliseconds(4_999))
    #expect(await server.listener.server.active.count == 1)
    await server.time.advance(by: .milliseconds(1))
    let report = try await stopping.value
    #expect(report.failedByPeer == 1 && report.aborted == 0, "\(report)")
    #expect(try await server.codes(1) == [.timedOut])
    await peer.expectReset()
  }

  @Test func `A drain does not wait longer than its time for a header`() async throws {
    let server = try Server()
    let peer = try server.connect()
    try await eventually("the connection is accepted") { await server.listener.waitingForHeader == 1 }
    await server.listener.drain(within: .seconds(1))
    await server.time.advance(by: .seconds(1))
    let report = try await server.stop()
    #expect(report.accepted == 1 && report.aborted == 1)
    withExtendedLifetime(peer) {}
  }

  @Test(arguments: [false, true])
  func `The end that arrives together with the header is seen`(resets: Bool) async throws {
    let time = ManualTime()
    let listener = try Self.listener(on: time.reactor)
    let peer = try RawSocket.connected(to: listener.address)
    // Both are in the kernel before the connection is accepted, so one event announces them.
    try peer.send(Self.line)
    if resets { peer.reset() } else { peer.finishWriting() }
    let connection = try await listener.accept()
    if resets {
      await expectError(.connectionReset) { try await connection.peerFinishedWriting() }
    } else {
      try await connection.peerFinishedWriting()
      #expect(connection.hasPeerFinished)
    }
    peer.close()
    await connection.abort()
  }

  @Test func `The observer hears once of a connection without a valid header`() async throws {
    final class Observer: ReactorObserver {
      let notes = Notes<String>()

      func accepted(_ connection: ObservedConnection) { notes.add("accepted") }
      func connectFailed(_ connection: ObservedConnection, _ error: SocketError) { notes.add("failed \(error.code)") }
      func handlerFailed(_ connection: ObservedConnection, _ error: any Error) { notes.add("handler failed") }
      func closed(_ connection: ObservedConnection, _ report: CloseReport) { notes.add("closed") }
    }
    let observer = Observer()
    let server = try Server(observer: observer)
    let wrong = try server.connect()
    try wrong.send("nonsense")
    #expect(try await server.codes(1) == [.invalidProxyHeader])
    let right = try server.connect(sending: Self.line)
    #expect(try await right.receive(exactly: 6) == Array("hello\n".utf8))
    right.close()
    try await eventually("both have ended") { observer.notes.all.count == 3 }
    #expect(observer.notes.all == ["failed invalidProxyHeader", "accepted", "closed"])
    _ = try await server.stop()
  }

  @Test func `A client that finishes at once is served if the header is optional`() async throws {
    let server = try Server(.optional)
    let peer = try server.connect()
    peer.finishWriting()
    #expect(try await peer.receiveToEnd() == Array("hello\n".utf8))
    #expect(server.headers.all == [nil])
    _ = try await server.stop()
  }

  @Test(.endsInTime(seconds: 120), arguments: [1, 4])
  func `Connections that break in every state leave the counts of peers right`(reactors: Int) async throws {
    let server = try Server(limits: .init(connectionsPerPeer: 2), reactors: reactors)
    for round in 0..<200 {
      let peer = try server.connect()
      try peer.send(String(Self.line.prefix(round % 2 == 0 ? Self.line.count : round % Self.line.count)))
      peer.reset()
    }
    try await eventually("all of them have ended") { await server.listener.hasEnded(200) }
    var peers: [RawSocket] = []
    for isServed in [true, true, false] {
      let peer = try server.connect(sending: Self.line)
      #expect((try? await peer.receive(exactly: 6)) == (isServed ? Array("hello\n".utf8) : nil))
      peers.append(peer)
    }
    for peer in peers { peer.close() }
    try await eventually("all of them have ended") { await server.listener.served == 0 }
    #expect(await server.listener.server.peers.peers == 0)
    _ = try await server.stop()
  }

  @Test func `A limit that is out of range is refused`() throws {
    for length in [15, 16_385, -1] {
      expectErrorNow(.invalidArgument) { _ = try Server(at: .port(0)) { $0.proxyProtocol?.maximumLength = length } }
    }
  }
}

extension TCPListener {
  /// The number of served connections that are not up.
  fileprivate var waitingForHeader: Int {
    server.active.values.count { $0.assumeIsolated { $0.core.state == .connecting } }
  }

  /// The number of served connections whose handler runs or that are being closed.
  fileprivate var served: Int { server.active.count + server.closing }

  /// Whether this number of connections was accepted, and all have ended.
  fileprivate func hasEnded(_ count: Int) -> Bool { server.report.accepted == count && served == 0 }
}
