import ActorSockets
import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

/// Connections through proxies that are played by hand.
@Suite(.endsInTime) struct ProxyTests {
  /// A kind of proxy, with what it says.
  enum Kind: String, CaseIterable, CustomTestStringConvertible {
    case socks5, http

    var testDescription: String { rawValue }

    func proxy(at address: SocketAddress) -> Proxy {
      switch self {
      case .socks5: .socks5(.address(address))
      case .http: .http(.address(address))
      }
    }

    /// The messages of the client to `example.test:25`, each followed by the proxy's answer.
    var conversation: [(asked: [UInt8], answer: [UInt8])] {
      switch self {
      case .socks5:
        [
          ([5, 1, 0], [5, 0]),
          ([5, 1, 0, 3, 12] + Array("example.test".utf8) + [0, 25], [5, 0, 0, 1, 127, 0, 0, 1, 0, 80]),
        ]
      case .http:
        [
          (
            Array("CONNECT example.test:25 HTTP/1.1\r\nHost: example.test:25\r\n\r\n".utf8),
            Array("HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n".utf8)
          )
        ]
      }
    }
  }

  /// A proxy that listens, and the configuration that uses it. No name can be looked up.
  private func proxy(_ kind: Kind) throws -> (RawSocket, TCPConnection.Configuration) {
    let listener = try RawSocket.listening()
    var configuration = TCPConnection.Configuration()
    configuration.resolver = try StaticResolver([:])
    configuration.proxy = kind.proxy(at: try listener.address)
    return (listener, configuration)
  }

  private static let target = Endpoint.host("example.test", port: 25)

  @Test(arguments: Kind.allCases, [true, false])
  func `Bytes that come together with the proxy's answer are the first of the stream`(kind: Kind, inPieces: Bool)
    async throws
  {
    let (listener, configuration) = try proxy(kind)
    let connection = TCPConnection(to: Self.target, configuration: configuration)
    async let greeting = connection.read(until: .crlf)
    async let writing: Void = connection.write(utf8: "EHLO me\r\n")
    let peer = try await listener.accept()
    for (asked, answer) in kind.conversation {
      #expect(try await peer.receive(exactly: asked.count) == asked)
      let isLast = answer == kind.conversation.last?.answer
      let bytes = answer + (isLast ? Array("220 mail\r\n".utf8) : [])
      if inPieces { for byte in bytes { try peer.send([byte]) } } else { try peer.send(bytes) }
    }
    #expect(try await greeting == Array("220 mail\r\n".utf8))
    try await writing
    #expect(try await peer.receive(exactly: 9) == Array("EHLO me\r\n".utf8))
    let address = try listener.address
    #expect(connection.proxyAddress == address && connection.remoteAddress == nil && connection.proxyHeader == nil)
    await connection.close()
  }

  @Test(arguments: Kind.allCases)
  func `A target that is an address is the remote address`(kind: Kind) async throws {
    let (listener, configuration) = try proxy(kind)
    let target = SocketAddress.ipv4(IPv4Address(192, 0, 2, 1), port: 25)
    async let connecting = TCPConnection.connect(to: .address(target), configuration: configuration)
    let peer = try await listener.accept()
    switch kind {
    case .socks5:
      _ = try await peer.receive(exactly: 3)
      try peer.send([5, 0])
      #expect(try await peer.receive(exactly: 10) == [5, 1, 0, 1, 192, 0, 2, 1, 0, 25])
      try peer.send([5, 0, 0, 3, 1, 97, 0, 1])
    case .http:
      let request = "CONNECT 192.0.2.1:25 HTTP/1.1\r\nHost: 192.0.2.1:25\r\n\r\n"
      #expect(try await peer.receive(exactly: request.utf8.count) == Array(request.utf8))
      try peer.send("HTTP/1.0 200\r\n\r\n")
    }
    let connection = try await connecting
    #expect(connection.remoteAddress == target && connection.proxyAddress != nil && connection.isIPv4)
    await connection.close()
  }

  /// The places at which a conversation can stop: after a number of bytes of the proxy's.
  private static let stops = Kind.allCases.flatMap { kind in
    (0..<kind.conversation.reduce(0) { $0 + $1.answer.count }).filter { kind == .socks5 || $0 % 9 == 0 }.map {
      (kind, $0)
    }
  }

  private func play(_ kind: Kind, upTo count: Int, _ listener: RawSocket) async throws -> RawSocket {
    let peer = try await listener.accept()
    var rest = count
    for (asked, answer) in kind.conversation {
      #expect(try await peer.receive(exactly: asked.count) == asked)
      try peer.send(Array(answer.prefix(rest)))
      if rest < answer.count { break }
      rest -= answer.count
    }
    return peer
  }

  @Test(arguments: stops)
  func `A proxy that ends the conversation fails the connection, and says where`(kind: Kind, count: Int) async throws {
    for resets in [false, true] {
      let (listener, configuration) = try proxy(kind)
      let address = try listener.address
      let connection = TCPConnection(to: Self.target, configuration: configuration)
      let writing = Task { try await connection.write([1]) }
      let peer = try await play(kind, upTo: count, listener)
      if resets { peer.reset() } else { peer.close() }
      let thrown = await expectError(.proxyFailed, saying: "proxy's answer to") { try await writing.value }
      #expect(thrown.address == address)
      guard case .error(let error) = try await connection.closed.reason else { Issue.record("no error"); return }
      #expect(error.code == .proxyFailed)
    }
  }

  @Test(arguments: stops.filter { $0.1 % 3 == 0 })
  func `A proxy that stalls is given up after the connect timeout, and the error says where`(kind: Kind, count: Int)
    async throws
  {
    let (listener, configuration) = try proxy(kind)
    let time = ManualTime()
    let connection = TCPConnection(to: Self.target, configuration: configuration, reactor: time.reactor)
    let peer = try await play(kind, upTo: count, listener)
    await time.advance(by: .milliseconds(29_999))
    #expect(await connection.state == .connecting)
    await time.advance(by: .milliseconds(1))
    let error = await expectError(.timedOut, saying: "proxy's answer to") { _ = try await connection.read(exactly: 1) }
    #expect(error.description.contains("was not complete within 30 s"))
    withExtendedLifetime(peer) {}
  }

  @Test(arguments: Kind.allCases)
  func `Cancelling, closing and dropping end the conversation and close the descriptor`(kind: Kind) async throws {
    let (listener, configuration) = try proxy(kind)
    let before = try await settledDescriptors()
    for way in 0..<3 {
      let task = Task { try await TCPConnection.connect(to: Self.target, configuration: configuration) }
      var connection: TCPConnection? = way == 0 ? nil : TCPConnection(to: Self.target, configuration: configuration)
      if way > 0 { task.cancel() }
      let first = try await listener.accept()
      switch way {
      case 0:
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
      case 1: await connection?.close()
      default: connection = nil
      }
      _ = connection
      first.close()
      _ = await task.result
    }
    // A task that was cancelled early may have connected.
    try await eventually("all descriptors are closed") { openDescriptors() <= before }
  }

  @Test func `An unreachable proxy is an error like an unreachable server`() async throws {
    let (listener, configuration) = try proxy(.socks5)
    let address = try listener.address
    listener.close()
    let error = await expectConnectError(.connectionRefused, to: Self.target, configuration: configuration)
    #expect(error.address == address)
    await expectConnectError(.invalidArgument, to: .unix(path: "/run/x"), configuration: configuration)
  }

  @Test func `The name of the proxy is looked up, and the name of the target is not`() async throws {
    let listener = try RawSocket.listening()
    var configuration = TCPConnection.Configuration()
    configuration.resolver = try StaticResolver(["proxy.test": ["127.0.0.1"]])
    configuration.proxy = .http(.host("proxy.test", port: try #require(try listener.address.port)))
    async let connecting = TCPConnection.connect(to: Self.target, configuration: configuration)
    let peer = try await play(.http, upTo: .max, listener)
    await (try connecting).close()
    withExtendedLifetime(peer) {}
  }

  @Test func `A proxy that asks again and again is refused`() async throws {
    let (listener, configuration) = try proxy(.http)
    let connecting = Task { try await TCPConnection.connect(to: Self.target, configuration: configuration) }
    let peer = try await listener.accept()
    try? peer.send(Array(repeating: UInt8(ascii: "x"), count: 100_000))
    await expectError(.proxyFailed) { _ = try await connecting.value }
    let (second, other) = try proxy(.http)
    let another = Task { try await TCPConnection.connect(to: Self.target, configuration: other) }
    let endless = try await second.accept()
    try? endless.send("HTTP/1.1 200 OK\r\n" + String(repeating: "A: b\r\n", count: 4000))
    await expectError(.proxyFailed, saying: "more than 16384 bytes") { _ = try await another.value }
  }
}
