import ActorSockets
import ExampleSupport
import Testing
@testable import rpc

@Suite struct RPCTests {
  /// Runs a body with a connection to a server of calls, and returns how many handlers failed because of the peer.
  @discardableResult
  private func withServer(_ body: @escaping @Sendable (TCPConnection) async throws -> Void) async throws -> Int {
    try await within("the calls and the server have ended") {
      let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)))
      let serving = Task {
        try await listener.serve { connection in
          try await serveCalls(of: connection) { (call: Arithmetic) in try Arithmetic.answer(call) }
        }
      }
      try await body(try await TCPConnection.connect(to: .address(listener.localAddresses[0])))
      await listener.drain(within: .seconds(10))
      return try await serving.value.failedByPeer
    }
  }

  @Test func `A call has its answer, or the error of the procedure`() async throws {
    try await withServer { connection in
      let client = Client<Arithmetic, Int>(connection)
      #expect(try await client.call(.add(3, 4)) == 7)
      let error = RemoteError(description: "1 cannot be divided by 0")
      await #expect(throws: error) { try await client.call(.divide(1, by: 0)) }
      #expect(try await client.call(.divide(-9, by: 2)) == -4)
      await client.close()
    }
  }

  @Test func `Calls that overlap get their own answers`() async throws {
    try await withServer { connection in
      let client = Client<Arithmetic, Int>(connection)
      try await withThrowingTaskGroup { group in
        for number in 0..<200 { group.addTask { #expect(try await client.call(.add(number, number)) == 2 * number) } }
        try await group.waitForAll()
      }
      await client.close()
    }
  }

  @Test func `A request that is no call ends its connection only`() async throws {
    let failed = try await withServer { connection in
      try await connection.write(message: Array("{}".utf8), lengthPrefix: .uint32(.big))
      _ = try? await connection.read()
      _ = try await connection.closed
    }
    #expect(failed == 1)
  }

  @Test func `A request that is too long is refused before it has arrived`() async throws {
    let failed = try await withServer { connection in
      try await connection.write([0xff, 0xff, 0xff, 0xff])
      _ = try? await connection.read()
      _ = try await connection.closed
    }
    #expect(failed == 1)
  }

  @Test func `A call that times out ends the connection`() async throws {
    try await within("the call has timed out") {
      let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)))
      let connection = try await TCPConnection.connect(to: .address(listener.localAddresses[0]))
      let silent = try await listener.accept()
      let client = Client<Arithmetic, Int>(connection)
      let timeout = await #expect(throws: SocketError.self) {
        try await client.call(.add(1, 2), timeout: .within(.milliseconds(20)))
      }
      #expect(timeout?.code == .timedOut)
      let closed = await #expect(throws: SocketError.self) { try await client.call(.add(1, 2)) }
      #expect(closed?.code == .closed)
      await silent.abort()
    }
  }
}
