public import ActorSockets
internal import EpollReactor

extension TCPListener {
  /// Serves encrypted connections, each with a task of its own, as ``TCPListener/serve(on:limits:drain:reactors:handler:)`` serves plain
  /// ones.
  ///
  /// The handshake is a part of a connection's task, so one that is slow holds nobody up; it takes up a place among the connections and
  /// has the time of ``TLSConfiguration/handshakeTimeout``. The handler is called when it is done. A connection whose handshake fails
  /// counts as failed; its peer gets the alert.
  ///
  /// - Parameters:
  ///   - context: Certificates, trust and so on.
  ///   - place: Where the handlers run.
  ///   - limits: How much to take on.
  ///   - drain: How long handlers may go on when the server stops.
  ///   - reactors: How many reactors the connections are spread over, 1 to 256.
  ///   - handshakeFailed: Hears of each handshake that failed, and why.
  ///   - handler: Serves one connection.
  /// - Returns: What was done.
  /// - Throws: What the plain one throws.
  @discardableResult
  public func serve(
    tls context: TLSContext, on place: HandlerPlace = .pool, limits: ServeLimits = .init(),
    drain: Drain = .within(.seconds(30)), reactors: Int = 1,
    handshakeFailed: (@Sendable (TLSConnection, any Error) -> Void)? = nil,
    handler: @escaping @concurrent @Sendable (TLSConnection) async throws -> Void
  ) async throws -> ServeReport {
    try await serve(on: place, limits: limits, drain: drain, reactors: reactors) { plain in
      let connection = plain.startTLS(context, as: .server)
      do {
        try await connection.handshake()
      } catch {
        handshakeFailed?(connection, error)
        throw error
      }
      connection.setAttended(true)
      defer { connection.setAttended(false) }
      do {
        try await handler(connection)
      } catch {
        // Abort before the last reference is dropped: dropping would close the stream in order, as if it were complete.
        connection.submit { $0.abort() }
        throw error
      }
    }
  }
}
