internal import EpollReactor
internal import SocketSystem

/// The error that ended a handler, or for which the handler was not called.
package struct HandlerError: Error {
  private let error: any Error
  /// The connection that the handler got, or would have got; `nil` for the listener's.
  private let connection: (any ByteStream)?
  /// Whether the handler was never called.
  private let isBeforeHandler: Bool
  /// Whether observers were notified of it, as of a handshake that failed.
  private let isObserved: Bool

  package init(
    _ error: any Error, of connection: (any ByteStream)? = nil, isBeforeHandler: Bool = false, isObserved: Bool? = nil
  ) {
    self.error = error
    self.connection = connection
    self.isBeforeHandler = isBeforeHandler
    self.isObserved = isObserved ?? isBeforeHandler
  }

  var isCausedByPeer: Bool { SocketError.isCausedByPeer(error) }

  /// Calls `tell`. Without it, prints the error unless the peer or the shutdown of the reactor caused it.
  func report(_ connection: any ByteStream, to tell: (@Sendable (ServeFailure) -> Void)?) {
    let failure = ServeFailure(self.connection ?? connection, error, isBeforeHandler: isBeforeHandler)
    if let tell { tell(failure) } else { failure.printUnlessExpected() }
  }

  /// On the reactor's thread only.
  func observe(_ connection: ObservedConnection, _ reactor: Reactor) {
    if !isObserved { reactor.observer?.handlerFailed(connection, error) }
  }
}
