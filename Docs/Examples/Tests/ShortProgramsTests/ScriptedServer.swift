import ActorSockets
import ExampleSupport
import Synchronization

/// Runs a server on a port of this machine while a closure runs.
func withServer<Value: Sendable>(
  _ listener: TCPListener? = nil, _ script: @escaping @Sendable (TCPConnection) async throws -> Void,
  _ body: (_ server: Endpoint) async throws -> Value
) async throws -> Value {
  let listener = try listener ?? TCPListener.bind(to: .host("127.0.0.1", port: 0))
  return try await withThrowingTaskGroup(of: Void.self) { group in
    group.addTask { try await listener.serve(.init(drain: .immediately, onFailure: { _ in }), handler: script) }
    let value = try await body(.address(listener.localAddresses[0]))
    group.cancelAll()
    try await group.waitForAll()
    return value
  }
}

/// Runs a server of its own kind while a closure runs, and returns what both return. The closure must make the server end.
func during<Report: Sendable, Value: Sendable>(
  _ serve: @escaping @Sendable () async throws -> Report, _ body: () async throws -> Value
) async throws -> (Report, Value) {
  async let report = serve()
  let value = try await body()
  return (try await report, value)
}

/// Sends nothing until the peer has gone.
func stall(_ connection: some ByteStream) async throws { _ = try await connection.closed }

extension ByteStream {
  /// Reads a line, and fails the test if it does not arrive.
  func nextLine() async throws -> String? { try await read(.line(), timeout: .seconds(30)) }
}

/// Returns the code of the error that a closure throws; `nil` if it throws something else, or nothing.
func failure(_ body: () async throws -> Void) async -> SocketError.Code? {
  do {
    try await body()
    return nil
  } catch {
    return (error as? SocketError)?.code
  }
}

final class Flag: Sendable {
  private let value = Mutex(false)

  var isSet: Bool { value.withLock { $0 } }
  func set() { value.withLock { $0 = true } }
}
