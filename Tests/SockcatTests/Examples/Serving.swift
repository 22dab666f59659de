import ActorSockets
import TestSupport

/// Serves on a free port of the loopback interface while `body` runs.
func serving(
  _ serve: @escaping @Sendable (TCPListener) async throws -> Void, _ body: (Endpoint) async throws -> Void
) async throws {
  try await within("server and clients are done") {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let server = Task { try await serve(listener) }
    try await body(.address(listener.localAddresses[0]))
    server.cancel()
    try await server.value
  }
}
