import ActorSockets
import ActorSocketsTLS
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct ConnectionTests {
  @Test(arguments: Transport.allCases)
  func `Every connection has a label, and addresses if its transport has`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let client = pair.client
    #expect(client.label == nil)
    client.label = "upstream"
    #expect(client.label == "upstream" && pair.server.label == nil)
    if let carrier = (client as? TLSConnection)?.carrier { #expect(carrier.label == "upstream") }
    #expect(client.localAddress == pair.server.remoteAddress && client.remoteAddress == pair.server.localAddress)
    #expect((client.remoteAddress == nil) == (transport == .inMemory || transport == .tls12InMemory))
    #expect(!client.isDraining && client.id != pair.server.id)
  }

  @Test(arguments: Transport.allCases)
  func `An idle connection knows without a read that its peer has finished`(transport: Transport) async throws {
    let pair = try await transport.pair()
    #expect(!pair.client.hasPeerFinished && !pair.server.hasPeerFinished)
    try await pair.client.write([1])
    try await pair.client.finishWriting()
    // An encrypted stream looks at the peer's end only when it reads.
    if pair.server is TLSConnection { #expect(try await pair.server.readToEnd() == [1]) }
    try await eventually("the server knows") { pair.server.hasPeerFinished }
    #expect(!pair.client.hasPeerFinished)
    if !(pair.server is TLSConnection) { #expect(try await pair.server.readToEnd() == [1]) }
    await pair.server.close()
    #expect(pair.server.hasPeerFinished)
    try await eventually("the client knows") { pair.client.hasPeerFinished }
  }

  @Test(arguments: Transport.allCases, [false, true])
  func `A connection that has ended can not be used again`(transport: Transport, isAborted: Bool) async throws {
    let pair = try await transport.pair()
    if isAborted {
      await pair.client.abort()
      #expect(pair.client.hasPeerFinished)
      try await eventually("the server knows") { pair.server.hasPeerFinished }
    } else {
      await pair.client.close()
      #expect(pair.client.hasPeerFinished)
    }
  }

  @Test(arguments: Transport.allCases)
  func `Options of a socket are there if a socket is`(transport: Transport) async throws {
    let pair = try await transport.pair()
    if transport == .inMemory || transport == .tls12InMemory {
      await expectError(.notASocket) { _ = try await pair.client.get(.receiveBufferSize) }
      await expectError(.notASocket) { try await pair.client.set(.receiveBufferSize, to: 4096) }
    } else {
      try await pair.client.set(.receiveBufferSize, to: 32_768)
      #expect(try await pair.client.get(.receiveBufferSize) >= 32_768)
    }
  }

  @Test(arguments: Transport.allCases)
  func `The session is there if the connection is encrypted`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let version: TLSVersion? = transport == .tls ? .v13 : transport == .tls12InMemory ? .v12 : nil
    #expect(try await pair.client.tlsSession?.version == version)
  }

  @Test func `Ends in memory have the addresses that they are given`() async throws {
    let (first, second) = (
      SocketAddress.ipv4(.loopback, port: 1), SocketAddress.ipv4(IPv4Address(192, 0, 2, 7), port: 2)
    )
    let (client, server) = InMemoryConnection.pair(addresses: (first, second))
    #expect(client.localAddress == first && client.remoteAddress == second)
    #expect(server.localAddress == second && server.remoteAddress == first)
    let error = await expectError(.timedOut) { _ = try await server.read(timeout: .milliseconds(1)) }
    #expect("\(error)" == "read from 127.0.0.1:1: timed out after 1 ms")
  }
}
