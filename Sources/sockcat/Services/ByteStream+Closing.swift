import ActorSockets

extension ByteStream {
  /// Begins to close, without waiting for the end.
  nonisolated func beginClose() { Task { await close() } }
}
