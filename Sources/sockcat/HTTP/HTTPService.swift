import ActorSockets
import Synchronization

/// Has the same page for every path.
final class HTTPService: Service {
  static let headLimit = 16_384

  private struct State {
    var isDraining = false
    /// The connections that wait for a request. Closing them loses nothing.
    var idle: [UInt64: any ByteStream] = [:]
  }

  private let state = Mutex(State())

  func serve(_ connection: some ByteStream) async throws {
    while let reply = try await reply(to: connection) {
      try await connection.write(reply.bytes)
      if reply.isLast { return }
    }
  }

  func drain() async {
    let idle = state.withLock { state in
      state.isDraining = true
      return state.idle.values.map { $0 }
    }
    for connection in idle { connection.beginClose() }
  }

  /// `nil` if no more requests will come.
  private func reply(to connection: some ByteStream) async throws -> HTTPReply? {
    let mayWait = state.withLock { state in
      if !state.isDraining { state.idle[connection.id] = connection }
      return !state.isDraining
    }
    if !mayWait { return nil }
    defer { state.withLock { _ = $0.idle.removeValue(forKey: connection.id) } }
    do {
      return try await connection.withBytes(upTo: Self.headLimit, timeout: nil) { [self] bytes, consumed in
        let isDraining = state.withLock { $0.isDraining }
        return HTTPReply(to: bytes, consumed: &consumed, date: HTTPDate.now, isDraining: isDraining)
      }
    } catch let error as SocketError {
      switch error.code {
      case .limitExceeded: return HTTPReply(refusing: .headTooLarge, date: HTTPDate.now)
      case .endOfStream: return HTTPReply(refusing: .badRequest, date: HTTPDate.now)
      case .closed where state.withLock({ $0.isDraining }): return nil
      default: throw error
      }
    }
  }
}
