extension StreamListener {
  /// The connections, one for each iteration of a `for` loop. The loop ends when the listener is closed.
  ///
  /// ```swift
  /// for try await connection in listener.connections { … }
  /// ```
  public nonisolated var connections: ListenerConnections<Self> { connections() }

  /// Returns the connections, one for each iteration of a `for` loop: see ``connections``.
  ///
  /// - Parameter timeout: The longest time to wait for each connection. When it expires, the loop throws `.timedOut`. A new loop
  ///   continues with the next connection. `nil` means no limit.
  /// - Returns: The connections.
  public nonisolated func connections(timeout: Timeout? = nil) -> ListenerConnections<Self> {
    ListenerConnections(listener: self, timeout: timeout)
  }
}

/// The connections of a listener. Each is accepted when the loop asks for it.
public struct ListenerConnections<Listener: StreamListener>: AsyncSequence, AsyncIteratorProtocol, Sendable {
  fileprivate let listener: Listener
  fileprivate let timeout: Timeout?

  init(listener: Listener, timeout: Timeout?) {
    self.listener = listener
    self.timeout = timeout
  }

  /// Returns an iterator over the connections.
  ///
  /// - Returns: The iterator.
  public func makeAsyncIterator() -> ListenerConnections { self }

  /// Accepts the next connection, as ``StreamListener/accept(timeout:)`` does.
  ///
  /// *Cancellation* and *ordering* are those of ``StreamListener/accept(timeout:)``.
  ///
  /// - Returns: The connection; `nil` when the listener is closed.
  /// - Throws: ``SocketError`` with what broke the listener; `CancellationError` when the task is cancelled.
  public func next() async throws -> Listener.Connection? {
    do {
      return try await listener.accept(timeout: timeout)
    } catch let error as SocketError where error.code == .closed {
      return nil
    }
  }

  /// Accepts the next connection, called from any isolation.
  ///
  /// *Cancellation* and *ordering* are those of ``StreamListener/accept(timeout:)``.
  ///
  /// - Parameter actor: The caller's isolation.
  /// - Returns: The connection; `nil` when the listener is closed.
  /// - Throws: ``SocketError`` with what broke the listener; `CancellationError` when the task is cancelled.
  public func next(isolation actor: isolated (any Actor)?) async throws -> Listener.Connection? { try await next() }
}
