import ActorSockets
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite(.endsInTime) struct SocketBeneathTests {
  @Test func `Label and number are those of the connection beneath`() async throws {
    let pair = try await CarrierKind.tcp.pair()
    let ends = try pair.encrypted()
    let plain = try #require(pair.client as? TCPConnection)
    #expect(ends.client.label == nil)
    ends.client.label = "upstream"
    #expect(plain.label == "upstream" && ends.client.label == "upstream" && ends.server.label == nil)
    plain.label = nil
    #expect(ends.client.label == nil)
    #expect(ends.client.id == plain.id && ends.client.id == pair.client.id && ends.server.id == pair.server.id)
    await close(ends.client, ends.server)
  }

  @Test func `Connections of all kinds are numbered by one counter`() async throws {
    let tcp = try await CarrierKind.tcp.pair()
    let memory = try await CarrierKind.inMemory.pair()
    let (one, other) = InMemoryConnection.pair()
    let ids = [tcp.client.id, tcp.server.id, memory.client.id, memory.server.id, one.id, other.id]
    #expect(Set(ids).count == ids.count, "\(ids)")
    #expect(try memory.encrypted().client.id == memory.client.id)
    for stream in [tcp.client, tcp.server, memory.client, memory.server, one, other] { await stream.abort() }
  }

  @Test(arguments: [CarrierKind.tcp, .unix])
  func `Options and the descriptor are those of the socket beneath`(carrier: CarrierKind) async throws {
    let pair = try await carrier.pair()
    let ends = try pair.encrypted()
    let plain = try #require(pair.client as? TCPConnection)
    try await ends.client.set(.sendBufferSize, to: 40_000)
    #expect(try await ends.client.get(.sendBufferSize) == plain.get(.sendBufferSize))
    #expect(try await ends.client.get(.sendBufferSize) != ends.server.get(.sendBufferSize))
    let number = try await plain.withFileDescriptor { $0 }
    #expect(try await ends.client.withFileDescriptor { $0 } == number)
    await expectError(.invalidArgument) { try await ends.client.set(.sendBufferSize, to: -1) }
    await close(ends.client, ends.server)
    await expectError(.closed) { try await ends.client.set(.sendBufferSize, to: 40_000) }
    await expectError(.closed) { _ = try await ends.client.get(.sendBufferSize) }
    await expectError(.closed) { try await ends.client.withFileDescriptor { _ in } }
  }

  @Test func `A class that is not Sendable can be made with the descriptor, on every kind of connection`() async throws
  {
    final class Number {
      let value: Int32
      init(_ value: Int32) { self.value = value }
    }
    for carrier in CarrierKind.allCases {
      let pair = try await carrier.pair()
      let ends = try pair.encrypted()
      for end in [pair.client, ends.client] as [any ByteStream] {
        if carrier == .inMemory {
          await expectError(.notASocket) { try await end.withFileDescriptor { _ in } }
        } else {
          #expect(try await end.withFileDescriptor { Number($0) }.value >= 0)
        }
      }
      await close(ends.client, ends.server)
    }
  }

  @Test func `A listener lends the descriptor of its first socket`() async throws {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let address = listener.localAddresses[0]
    #expect(try await listener.withFileDescriptor { try BorrowedDescriptor($0).localAddress() } == address)
    await listener.close()
    await expectError(.closed) { try await listener.withFileDescriptor { _ in } }
  }

  @Test func `TLS in TLS passes calls on to the socket below both`() async throws {
    let tcp = try await CarrierKind.tcp.pair()
    let outer = try tcp.encrypted()
    let inner = try PlainPair(client: outer.client, server: outer.server).encrypted()
    inner.client.label = "inner"
    #expect((tcp.client as? TCPConnection)?.label == "inner" && inner.client.id == tcp.client.id)
    try await inner.client.set(.sendBufferSize, to: 40_000)
    #expect(try await (tcp.client as? TCPConnection)?.get(.sendBufferSize) == inner.client.get(.sendBufferSize))
    await close(inner.client, inner.server)
  }

  @Test func `Without a socket beneath, the label works and the other calls throw a typed error`() async throws {
    let ends = try await CarrierKind.inMemory.pair().encrypted()
    ends.client.label = "in memory"
    #expect(ends.client.label == "in memory" && ends.server.label == nil)
    await expectError(.notASocket) { try await ends.client.set(.sendBufferSize, to: 40_000) }
    await expectError(.notASocket) { _ = try await ends.client.get(.sendBufferSize) }
    await expectError(.notASocket) { try await ends.client.withFileDescriptor { _ in } }
    await close(ends.client, ends.server)
  }

  @Test(arguments: TLSVersion.both)
  func `Both ends export the same keying material, which depends on every argument`(version: TLSVersion) async throws {
    let ends = try await CarrierKind.inMemory.pair().encrypted(
      client: Contexts.client(version), server: Contexts.server(version))
    func exported(_ end: TLSConnection, _ label: String, _ context: [UInt8]?, _ count: Int) async throws -> [UInt8] {
      try await end.exportKeyingMaterial(label: label, context: context, count: count)
    }
    let secret = try await exported(ends.client, "EXPERIMENTAL-one", [1], 100)
    #expect(secret.count == 100 && Set(secret).count > 20)
    #expect(try await exported(ends.server, "EXPERIMENTAL-one", [1], 100) == secret)
    #expect(try await exported(ends.server, "EXPERIMENTAL-two", [1], 100) != secret)
    #expect(try await exported(ends.server, "EXPERIMENTAL-one", [2], 100) != secret)
    let (none, empty) = (
      try await exported(ends.client, "EXPERIMENTAL-one", nil, 32),
      try await exported(ends.client, "EXPERIMENTAL-one", [], 32)
    )
    #expect((none == empty) == (version == .v13))
    #expect(
      try await exported(ends.client, "EXPORTER-Channel-Binding", [], 32) == ends.server.session.channelBinding)
    #expect(try await exported(ends.client, "x", [], 8_160).count == 8_160)
    for (label, context, count) in [("", [], 1), ("x", [], 0), ("x", [], -1), ("x", [], 8_161)]
      as [(String, [UInt8], Int)]
    {
      await expectError(.invalidArgument) { _ = try await exported(ends.client, label, context, count) }
    }
    let long = String(repeating: "x", count: 250)
    await expectError(.invalidArgument) { _ = try await exported(ends.client, long, nil, 1) }
    await close(ends.client, ends.server)
    await expectError(.closed) { _ = try await exported(ends.client, "x", nil, 1) }
  }
}
