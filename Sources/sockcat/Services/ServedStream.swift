import ActorSockets
import ActorSocketsTLS

/// A connection as services see it, plain or encrypted.
protocol ServedStream: ByteStream {
  /// A number that is unique among connections of the same type.
  nonisolated var id: UInt64 { get }
}

extension TCPConnection: ServedStream {}
extension TLSConnection: ServedStream {}

extension ServedStream {
  /// Begins to close, without waiting for the end.
  nonisolated func beginClose() { Task { await close() } }
}
