import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

private struct Refusal: Error, Equatable {
  let number: Int
}

@Suite(.endsInTime) struct PrepareTests {
  @Test func `It sees each socket before it is connected and before it is handed out`() async throws {
    let seen = Notes<String>()
    var configuration = TCPListener.Configuration()
    configuration.connection.prepare = { socket in
      try socket.set(.timeToLive, to: 33)
      let isConnected = (try? BorrowedDescriptor(socket.fileDescriptor).remoteAddress()) != nil
      seen.add("\(isConnected) \(try socket.get(.noDelay))")
    }
    let listener = try TCPListener.onLoopback(configuration)
    let client = try await TCPConnection.connect(to: listener.endpoint, configuration: configuration.connection)
    #expect(seen.all == ["false true"])
    let server = try await listener.accept()
    #expect(seen.all == ["false true", "true true"])
    #expect(try await client.get(.timeToLive) == 33)
    #expect(try await server.get(.timeToLive) == 33)
  }

  @Test func `An error that it throws ends connecting, and reaches the caller unchanged`() async throws {
    let listener = try RawSocket.listening()
    let address = try listener.address
    let calls = Notes<Int>()
    var configuration = TCPConnection.Configuration()
    configuration.prepare = { _ in
      calls.add(1)
      throw Refusal(number: 7)
    }
    await #expect(throws: Refusal(number: 7)) {
      _ = try await TCPConnection.connect(to: .address(address), configuration: configuration)
    }
    #expect(calls.all == [1])
    // Of a name with several addresses, no other one is tried.
    await #expect(throws: Refusal(number: 7)) {
      _ = try await TCPConnection.connect(to: .host("localhost", port: address.port ?? 0), configuration: configuration)
    }
    #expect(calls.all == [1, 1])
    let connection = TCPConnection(to: .address(address), configuration: configuration)
    let error = await expectError(.rejected) { _ = try await connection.read() }
    #expect(error.underlyingError as? Refusal == Refusal(number: 7))
    #expect("\(error)".contains("closure refused: Refusal(number: 7)"))
    guard case .error(let reason) = try await connection.closed.reason else { Issue.record("no error"); return }
    #expect(reason.code == .rejected)
    configuration.prepare = { _ in throw SocketError(.permissionDenied, operation: "test") }
    await expectConnectError(.permissionDenied, to: .address(address), configuration: configuration)
  }

  @Test func `A connection that it refuses is reset, and accepting goes on`() async throws {
    let calls = Notes<Int>()
    let refusals = 200
    var configuration = TCPListener.Configuration()
    configuration.connection.prepare = { _ in
      calls.add(1)
      if calls.all.count <= refusals { throw Refusal(number: 1) }
    }
    let listener = try TCPListener.onLoopback(configuration)
    // All wait in the backlog before the first is accepted: no further edge comes.
    let refused = try (0..<refusals).map { _ in try RawSocket.connected(to: listener.address) }
    let welcome = try RawSocket.connected(to: listener.address)
    let server = try await listener.accept()
    try await server.write(utf8: "hello")
    #expect(try await welcome.receive(exactly: 5) == Array("hello".utf8))
    #expect(calls.all.count == refusals + 1)
    for socket in refused { await socket.expectReset() }
  }

  @Test func `A unix socket is prepared, too`() async throws {
    let calls = Notes<Int>()
    var configuration = TCPListener.Configuration()
    configuration.connection.prepare = { socket in
      if try BorrowedDescriptor(socket.fileDescriptor).isStream() { calls.add(1) }
    }
    let name = "@prepare-\(getpid())"
    let listener = try TCPListener.bind(to: .unix(path: name), configuration: configuration)
    let client = try await TCPConnection.connect(to: .unix(path: name), configuration: configuration.connection)
    _ = try await listener.accept()
    await client.abort()
    #expect(calls.all == [1, 1])
  }
}
