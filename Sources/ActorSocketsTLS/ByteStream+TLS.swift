public import ActorSockets

extension ByteStream {
  /// The TLS session of an encrypted connection, after its handshake; `nil` for a connection that is not encrypted.
  ///
  /// *Cancellation* only stops the wait for the handshake. *Ordering*: the call has no place in the queues of reads and
  /// writes.
  ///
  /// Throws why the handshake failed, and `CancellationError` if the task is cancelled.
  public nonisolated var tlsSession: TLSSession? {
    get async throws {
      guard let connection = self as? TLSConnection else { return nil }
      return try await connection.session
    }
  }
}
