import ActorSocketsTesting
import TestSupport
import Testing

@testable import ActorSockets
@testable import ActorSocketsTLS

@Suite(.endsInTime) struct SecureInMemoryTests {
  private struct Broken: Error {}

  private static func client(_ listener: InMemoryListener) async throws -> TLSConnection {
    try await listener.connect().startTLS(try Contexts.client(), as: .client(serverName: "server.test"))
  }

  @Test(arguments: [false, true])
  func `Bytes that no read has asked for stay in the stream beneath, except the first`(isEndAwaited: Bool) async throws
  {
    var configuration = InMemoryConnection.Configuration()
    configuration.capacity = 1 << 20
    let (near, far) = InMemoryConnection.pair(configuration: configuration)
    let server = near.startTLS(try Contexts.server(), as: .server)
    let client = far.startTLS(try Contexts.client(), as: .client(serverName: "server.test"))
    try await client.handshake()
    try await server.handshake()
    let waiting = isEndAwaited ? Task.immediate { try await server.peerFinishedWriting() } : nil
    try await client.write(pattern(500_000))
    // All bytes have arrived: this call waits in the queue after them.
    let taken = await near.metrics.bytesReceived
    #expect(taken < (isEndAwaited ? 100_000 : 60_000))
    #expect(try await server.read(exactly: 500_000) == pattern(500_000))
    waiting?.cancel()
  }

  @Test(arguments: [true, false])
  func `A server without sockets shakes hands, serves, and reports errors`(isIsolated: Bool) async throws {
    let listener = InMemoryListener()
    let context = try Contexts.server()
    let failures = Notes<ServeFailure>()
    let serving = Task {
      let options = ServeOptions(reactors: 4, onFailure: { failures.add($0) })
      if isIsolated {
        return try await listener.serve(tls: context, options) { (connection: isolated TLSConnection) in
          connection.preconditionIsolated()
          if try await connection.read(exactly: 1) == [0] { throw Broken() }
          try await connection.write([1])
        }
      }
      return try await listener.serve(tls: context, options) { connection in
        // Connections in memory are on one reactor, whatever the options say.
        #expect(connection.executor.reactor === listener.executor.reactor)
        if try await connection.read(exactly: 1) == [0] { throw Broken() }
        try await connection.write([1])
      }
    }
    let good = try await Self.client(listener)
    try await good.write([2])
    #expect(try await good.read(exactly: 1) == [1])
    #expect(try await good.read() == nil)
    await good.close()
    let bad = try await Self.client(listener)
    try await bad.write([0])
    await #expect(throws: (any Error).self) { try await bad.read(exactly: 1) }
    try await eventually("the program is told") { failures.all.count == 1 }
    let plain = try await listener.connect()
    try await plain.write(utf8: "GET / HTTP/1.0\r\n\r\n")
    try await eventually("both are told") { failures.all.count == 2 }
    await plain.close()
    let report = try await serving.ended
    #expect(report.accepted == 3 && report.finished == 1 && report.failed == 1 && report.failedByPeer == 1)
    #expect(
      failures.all.map(\.isBeforeHandler) == [false, true] && failures.all.map(\.isCausedByPeer) == [false, true])
    #expect(failures.all.allSatisfy { $0.connection is TLSConnection })
  }

  @Test func `A loop over a listener without sockets gets connections whose handshakes are done`() async throws {
    let listener = InMemoryListener()
    let failures = Notes<ServeFailure>()
    let connections = listener.connections(tls: try Contexts.server()) { failures.add($0) }
    let loop = Task {
      for try await connection in connections {
        try await connection.echo()
        await connection.close()
      }
    }
    let silent = try await listener.connect()
    let client = try await Self.client(listener)
    try await client.write([1, 2, 3])
    #expect(try await client.read(exactly: 3) == [1, 2, 3])
    await client.close()
    try await silent.write(utf8: "GET / HTTP/1.0\r\n\r\n")
    try await eventually("the handshake has failed") { failures.all.count == 1 }
    #expect(failures.all[0].isBeforeHandler && failures.all[0].isCausedByPeer)
    await listener.close()
    try await loop.value
    await silent.close()
  }
}
