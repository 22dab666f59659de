internal import EpollReactor
internal import SocketSystem

/// The error that ended a handler, on its way from the handler's task to those who hear of it.
package struct HandlerError: Error {
  /// Who hears of it.
  enum Reporter<Connection: ServedConnection>: Sendable {
    case standardError
    case program(@Sendable (Connection, any Error) -> Void)
  }

  /// What the handler threw.
  private let error: any Error
  /// Whether it is a handshake that failed, or a PROXY header: observers have heard of it.
  private let isHandshake: Bool
  /// Tells the program, if a layer does that in the server's place.
  private let tellProgram: (@Sendable () -> Void)?
  /// Whether the error is printed rather than told to what the listener was given.
  private let isPrinted: Bool

  /// Creates the error of a handler.
  ///
  /// - Parameters:
  ///   - error: What the handler threw.
  ///   - isHandshake: Whether it is a handshake that failed.
  ///   - isPrinted: Whether the error is printed, if no peer caused it, whatever the listener was given.
  ///   - tellProgram: Tells the program, in place of what the listener was given; `nil` if there is nothing in its place.
  package init(
    _ error: any Error, isHandshake: Bool = false, isPrinted: Bool = false, tellProgram: (@Sendable () -> Void)? = nil
  ) {
    self.error = error
    self.isHandshake = isHandshake
    self.isPrinted = isPrinted
    self.tellProgram = tellProgram
  }

  var isCausedByPeer: Bool { SocketError.isCausedByPeer(error) }
  private var isCausedByShutdown: Bool { (error as? SocketError)?.code == .reactorShutDown }

  /// Tells the program, or prints the error if the program has not asked for it, and neither the peer nor the shutdown of the reactor
  /// caused it.
  func report<Connection>(_ connection: Connection, _ reporter: Reporter<Connection>) {
    if let tellProgram { return tellProgram() }
    switch isPrinted ? .standardError : reporter {
    case .program(let tell): tell(connection, error)
    case .standardError where isCausedByPeer || isCausedByShutdown: break
    case .standardError:
      StandardError.write(line: "\(connection): \(isHandshake ? "the handshake" : "the handler") failed: \(error)")
    }
  }

  /// Tells the observer of the connection's reactor. On the reactor's thread only.
  func observe(_ connection: ObservedConnection, _ reactor: Reactor) {
    if !isHandshake { reactor.observer?.handlerFailed(connection, error) }
  }
}
