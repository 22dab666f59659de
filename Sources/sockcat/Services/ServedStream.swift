import ActorSockets
import ActorSocketsTLS

/// A connection as the services take it: plain or encrypted.
protocol ServedStream: QueuedByteStream {
  /// A number that no other connection of its kind has.
  nonisolated var id: UInt64 { get }
}

extension TCPConnection: ServedStream {}
extension TLSConnection: ServedStream {}

extension ServedStream {
  /// Begins to close, for those who need not know when it is done.
  nonisolated func beginClose() { Task { await close() } }
}
