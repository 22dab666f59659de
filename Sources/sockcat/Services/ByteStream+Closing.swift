import ActorSockets

extension ByteStream {
  nonisolated func beginClose() { Task { await close() } }
}
