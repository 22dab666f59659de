public import ActorSockets

extension StreamListener {
  /// Returns the accepted connections, encrypted, one for each iteration of a `for` loop. Each is delivered when its
  /// handshake is done.
  ///
  /// ```swift
  /// for try await connection in listener.connections(tls: context) { … }
  /// ```
  ///
  /// The handshakes of several connections run at the same time, so a slow one delays no other connection. Connections
  /// are delivered in the order in which their handshakes end. A connection whose handshake fails is not delivered; its
  /// peer gets the alert.
  ///
  /// The loop accepts only while it waits for a connection; handshakes that have begun continue meanwhile.
  /// ``TLSConfiguration/handshakeTimeout`` limits the time of each.
  ///
  /// When the listener is closed, the loop gets the connections whose handshakes have begun, and then ends. To end at
  /// once, cancel the task. When the sequence and its iterators are dropped, connections that were not delivered are
  /// reset.
  ///
  /// - Parameters:
  ///   - context: The certificates, trust roots and other settings.
  ///   - handshakeLimit: The most handshakes at a time, at least 1. Further connections wait in the kernel's backlog
  ///     until one of the handshakes ends.
  ///   - timeout: The longest time to wait for each connection. When it expires, the loop throws `.timedOut`;
  ///     handshakes continue, and a new loop over the same sequence continues with the next connection. With `.zero`,
  ///     only a connection whose handshake is done is delivered, but the handshakes of all waiting connections begin.
  ///     `nil` means no limit.
  ///   - onFailure: Called with each handshake that failed, but not with those that end because of a cancellation. With
  ///     `nil`, the default, errors that no peer caused are printed in one line on standard error.
  /// - Returns: The connections.
  public nonisolated func connections(
    tls context: TLSContext, handshakeLimit: Int = 1_000, timeout: Timeout? = nil,
    onFailure: (@Sendable (ServeFailure) -> Void)? = nil
  ) -> TLSConnections {
    let layer = HandshakeLayer<TLSConnection>(
      begin: { plain in plain.startTLS(context, as: .server) },
      wait: { connection in try await connection.handshake() },
      failed: onFailure)
    return TLSConnections(acceptor: HandshakeAcceptor(self, limit: handshakeLimit, layer), timeout: timeout)
  }
}

/// The encrypted connections of a listener: see
/// ``ActorSockets/StreamListener/connections(tls:handshakeLimit:timeout:onFailure:)``.
public struct TLSConnections: AsyncSequence, AsyncIteratorProtocol, Sendable {
  fileprivate let acceptor: HandshakeAcceptor<TLSConnection>
  fileprivate let timeout: Timeout?

  var handshakes: Int { get async { await acceptor.handshakes } }

  /// Returns an iterator over the connections. All iterators of a sequence share its handshakes.
  ///
  /// - Returns: The iterator.
  public func makeAsyncIterator() -> TLSConnections { self }

  /// Waits for the next connection whose handshake is done.
  ///
  /// *Cancellation* ends the wait. If no other call waits, it also aborts the handshakes that run.
  ///
  /// *Ordering*: calls get connections in the order in which the calls were made.
  ///
  /// - Returns: The connection; `nil` when the listener is closed and all handshakes have ended.
  /// - Throws: ``SocketError``: `.timedOut`, `.invalidArgument` if `handshakeLimit` is less than 1, or what broke the
  ///   listener; `CancellationError` when the task is cancelled.
  public func next() async throws -> TLSConnection? { try await acceptor.next(timeout: timeout) }

  /// Waits for the next connection, called from any isolation.
  ///
  /// *Cancellation* and *ordering* are those of ``next()``.
  ///
  /// - Parameter actor: The caller's isolation.
  /// - Returns: The connection; `nil` when the listener is closed and all handshakes have ended.
  /// - Throws: The errors of ``next()``.
  public func next(isolation actor: isolated (any Actor)?) async throws -> TLSConnection? { try await next() }
}
