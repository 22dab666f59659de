extension TCPListener {
  /// The connections, one for each pass of a `for` loop; the loop ends when the listener is closed.
  ///
  /// ```swift
  /// for try await connection in listener.connections { … }
  /// ```
  public nonisolated var connections: Connections { Connections(listener: self) }

  /// The connections of a listener, accepted as they are asked for.
  public struct Connections: AsyncSequence, AsyncIteratorProtocol, Sendable {
    fileprivate let listener: TCPListener

    /// Begins to iterate.
    ///
    /// - Returns: The iterator.
    public func makeAsyncIterator() -> Connections { self }

    /// Accepts the next connection.
    ///
    /// - Returns: The connection; `nil` when the listener is closed.
    /// - Throws: What broke the listener, and `CancellationError` when the task is cancelled.
    public func next() async throws -> TCPConnection? {
      do {
        return try await listener.accept()
      } catch let error as SocketError where error.code == .closed {
        return nil
      }
    }

    /// Accepts the next connection from any isolation.
    ///
    /// - Parameter actor: The caller's isolation.
    /// - Returns: The connection; `nil` when the listener is closed.
    /// - Throws: What broke the listener, and `CancellationError` when the task is cancelled.
    public func next(isolation actor: isolated (any Actor)?) async throws -> TCPConnection? { try await next() }
  }
}
