import ActorSockets
import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

// Where a caller goes on after a call: where it was. An optimised build has its own ways to get that wrong, see
// Docs/Toolchain.md, so this is worth its time in `make check` above all.

@Suite struct ReturnTests {
  @Test(arguments: Transport.allCases)
  func `A call returns to the actor that made it`(transport: Transport) async throws {
    try await within("the calls return") {
      let pair = try await transport.pair()
      try await Caller().use(pair.client, pair.server)
    }
  }

  @Test func `Scopes and questions return to the actor that used them`() async throws {
    try await within("the calls return") { try await Caller().useScopes() }
  }

  @Test func `Pools, servers and interfaces return to the actor that used them`() async throws {
    try await within("the calls return") { try await Caller().usePoolsAndServers() }
  }

  @Test func `Listening and connecting return to the actor that did it`() async throws {
    try await within("the calls return") { try await Caller().listenAndConnect() }
  }
}

extension ReturnTests {
  @Test(arguments: DatagramTransport.allCases)
  func `A call of an endpoint returns to the actor that made it`(transport: DatagramTransport) async throws {
    try await within("the calls return") {
      let endpoint = try transport.bind()
      try await Caller().use(endpoint, transport.address(of: endpoint))
    }
  }
}

/// An actor on a thread of its own, so that it shows where its code runs.
private actor Caller: ReactorActor {
  nonisolated let executor = ReactorExecutor(Reactor())

  private func here(_ what: String) {
    #expect(executor.isIsolatingCurrentContext() == true, "it went on elsewhere after \(what)")
  }

  func use(_ client: any ByteStream, _ server: any ByteStream) async throws {
    try await client.write(Array("a".utf8))
    here("write")
    try await client.write(Array("b".utf8), timeout: .seconds(60))
    here("write with a timeout")
    try await client.write(Array("c".utf8).span)
    here("write of a span")
    try await client.write(Array("d".utf8).lazy.map { $0 })
    here("write of a sequence")
    try await client.write(contentsOf: [Array("e".utf8), Array("f".utf8)])
    here("write of pieces")
    try await client.write(utf8: "g\nh\n")
    here("write of a text")
    try await client.write(message: Array("ij".utf8), lengthPrefix: .uint8)
    here("write of a message")
    try await client.enqueueWrite(Array("klmno".utf8)).value
    here("an enqueued write")

    #expect(try await server.peek(upTo: 1) == Array("a".utf8))
    here("peek")
    #expect(try await server.read(exactly: 2) == Array("ab".utf8))
    here("read of a length")
    #expect(try await server.readInteger(as: UInt8.self) == UInt8(ascii: "c"))
    here("readInteger")
    #expect(try await server.read(until: .lf) == Array("defg\n".utf8))
    here("read through a delimiter")
    for try await line in server.lines {
      #expect(line == "h")
      here("next line")
      break
    }
    for try await message in server.messages(lengthPrefix: .uint8) {
      #expect(message == Array("ij".utf8))
      here("next message")
      break
    }
    var bytes: [UInt8] = []
    try await server.read(into: &bytes, exactly: 1)
    here("read into an array")
    #expect(try await server.enqueueRead(.exactly(1)).value == Array("l".utf8))
    here("an enqueued read")
    let looked = try await server.withBytes { bytes, consumed in
      consumed = 1
      return bytes[0]
    }
    #expect(looked == UInt8(ascii: "m"))
    here("a look")
    #expect(try await server.read(upTo: 1) == Array("n".utf8))
    here("read")
    _ = await server.status
    here("status")

    try await client.finishWriting()
    here("finishWriting")
    try await server.peerFinishedWriting()
    here("peerFinishedWriting")
    #expect(try await server.read() == Array("o".utf8))
    #expect(try await server.read() == nil)
    here("the end")
    await server.closeAfter { here("the body of a scope") }
    here("a scope")
    await server.close()
    here("close")
    _ = try await server.closed
    here("closed")
    await client.abort()
    here("abort")
  }

  func use(_ endpoint: UDPEndpoint, _ address: SocketAddress) async throws {
    try await endpoint.send([1], to: address)
    here("send to an address")
    try await endpoint.send(Datagram([2], to: address))
    here("send of a datagram")
    try await endpoint.send([Datagram([3], to: address)])
    here("send of a batch")
    try await endpoint.connect(to: .address(address))
    here("connect")
    try await endpoint.send([4])
    here("send to the peer")
    await expectError(.limitExceeded) { try await endpoint.send([UInt8](repeating: 5, count: 70_000)) }
    here("send of too much")
    #expect(try await endpoint.receive().bytes == [1])
    here("receive")
    for try await datagram in endpoint.datagrams {
      here("next datagram")
      if datagram.bytes == [4] { break }
    }
    #expect(try await endpoint.receive(until: .now - .seconds(1)) == nil)
    here("receive until an instant")
    for try await _ in endpoint.datagrams.ending(at: .now - .seconds(1)) {}
    here("a loop until an instant")
    let peer = Endpoint.address(.ipv4(.loopback, port: 9))
    let other = try await UDPEndpoint.connect(to: peer)
    here("connect of a new endpoint")
    try await UDPEndpoint.withEndpoint(connectedTo: peer) { _ in here("the body of a scope") }
    here("a scope")
    await other.close()
    await endpoint.close()
    here("close")
  }

  func useScopes() async throws {
    let address = try await TCPListener.withListener(boundTo: .host("127.0.0.1", port: 0)) { listener in
      let target = Endpoint.address(listener.localAddresses[0])
      let answering = Task {
        let connection = try await listener.accept()
        for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
        await connection.close()
      }
      try await TCPConnection.withConnection(to: target) { connection in
        here("the beginning of a scope")
        let first = try await connection.ask(utf8: "a\n", for: .line())
        here("ask")
        let second = try await connection.enqueueAsk(utf8: "b\n", for: .line()).value
        #expect(first == "a" && second == "b")
        here("an enqueued question")
      }
      here("the scope of a connection")
      try await answering.value
      return target
    }
    here("the scope of a listener")
    await #expect(throws: (any Error).self) { try await TCPConnection.withConnection(to: address) { _ in } }
    here("the scope of a connection that failed")
  }

  func usePoolsAndServers() async throws {
    let listeners = try (0..<2).map { _ in try TCPListener.bind(to: .host("127.0.0.1", port: 0)) }
    let target = Endpoint.address(listeners[0].localAddresses[0])
    let pool = ConnectionPool { try await TCPConnection.connect(to: target) }
    let serving = Task {
      let report = try await listeners.serve { connection in
        for try await line in connection.lines { try await connection.write(utf8: line + "\n") }
      }
      here("serve of several listeners")
      return report
    }
    let answer = try await pool.withConnection { connection in
      here("the beginning of a call of a pool")
      return try await connection.ask(utf8: "a\n", for: .line())
    }
    #expect(answer == "a")
    here("a call of a pool")
    await #expect(throws: CancellationError.self) { try await pool.withConnection { _ in throw CancellationError() } }
    here("a call of a pool that failed")
    await pool.close()
    here("close of a pool")
    serving.cancel()
    #expect(try await serving.value.failed == 0)
    let endpoint = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)))
    await endpoint.drain(within: .zero)
    #expect(try await endpoint.serve { _ in }.received == 0)
    here("serve of an endpoint")
    for try await interfaces in NetworkInterface.changes() where !interfaces.isEmpty { break }
    here("the list of the interfaces")
  }

  func listenAndConnect() async throws {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let client = try await TCPConnection.connect(to: .address(listener.localAddresses[0]))
    here("connect")
    let server = try await listener.accept()
    here("accept")
    await client.abort()
    await server.abort()
    let next = try await TCPConnection.connect(to: .address(listener.localAddresses[0]))
    here("connect")
    for try await connection in listener.connections {
      here("the next connection")
      await connection.abort()
      break
    }
    await next.abort()
    let serving = Task {
      let report = try await listener.serve { _ in }
      here("serve")
      return report
    }
    let last = try await TCPConnection.connect(to: .address(listener.localAddresses[0]))
    #expect(try await last.read() == nil)
    serving.cancel()
    #expect(try await serving.value.finished == 1)
    await last.abort()
    await listener.close()
    here("close")
  }
}
