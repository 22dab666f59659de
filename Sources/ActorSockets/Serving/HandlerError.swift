internal import EpollReactor
internal import SocketSystem

/// The error that ended a handler, on its way from the handler's task to those who hear of it.
package struct HandlerError: Error {
  /// What the handler threw.
  private let error: any Error
  /// The connection that the handler got, or would have got, if it is not the listener's.
  private let connection: (any ByteStream)?
  /// Whether the handler was never called.
  private let isBeforeHandler: Bool
  /// Whether observers have heard of it, as of a handshake that failed.
  private let isObserved: Bool

  /// Creates the error of a handler.
  ///
  /// - Parameters:
  ///   - error: What the handler threw.
  ///   - connection: The connection that the handler got, or would have got; `nil` for the listener's.
  ///   - isBeforeHandler: Whether the handler was never called.
  ///   - isObserved: Whether observers have heard of it; `nil` if that is so for errors before the handler.
  package init(
    _ error: any Error, of connection: (any ByteStream)? = nil, isBeforeHandler: Bool = false, isObserved: Bool? = nil
  ) {
    self.error = error
    self.connection = connection
    self.isBeforeHandler = isBeforeHandler
    self.isObserved = isObserved ?? isBeforeHandler
  }

  var isCausedByPeer: Bool { SocketError.isCausedByPeer(error) }

  /// Tells the program, or prints the error if the program has not asked for it, and neither the peer nor the shutdown of the reactor
  /// caused it.
  ///
  /// - Parameters:
  ///   - connection: The connection that the listener accepted.
  ///   - tell: What the program gave to hear of errors; `nil` if it gave nothing.
  func report(_ connection: any ByteStream, to tell: (@Sendable (ServeFailure) -> Void)?) {
    let failure = ServeFailure(self.connection ?? connection, error, isBeforeHandler: isBeforeHandler)
    if let tell { tell(failure) } else { failure.printUnlessExpected() }
  }

  /// Tells the observer of the connection's reactor. On the reactor's thread only.
  func observe(_ connection: ObservedConnection, _ reactor: Reactor) {
    if !isObserved { reactor.observer?.handlerFailed(connection, error) }
  }
}
