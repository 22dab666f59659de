import ActorSockets
import EpollReactor
import SocketSystem
import TestSupport

enum HandlerPlace: String, CaseIterable, Codable {
  case pool, reactor, isolated
  /// A thread of Swift's pool that the pool starts on the reactor's thread: no other code uses this priority.
  case threadOfReactor

  /// Serves one connection, and calls `body` in its handler, or in a task that the handler starts.
  func serve(_ body: @escaping @Sendable () -> Void) async throws {
    try await within("it is served") {
      let listener = try TCPListener.onLoopback(on: Reactor())
      let serving = Task {
        switch self {
        case .pool: try await listener.serve { _ in body() }
        case .reactor: try await listener.serve(.init(on: .reactor)) { _ in body() }
        case .isolated: try await listener.serve { (_: isolated TCPConnection) in body() }
        case .threadOfReactor:
          try await listener.serve(.init(on: .reactor)) { _ in
            await Task.detached(priority: .background) { body() }.value
          }
        }
      }
      _ = try await RawSocket.connected(to: listener.address).receiveToEnd()
      _ = try await serving.stop()
    }
  }
}
