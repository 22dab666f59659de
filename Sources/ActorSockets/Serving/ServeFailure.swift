internal import SocketSystem

/// The error that ended a handler, or for which it was not called.
public struct ServeFailure: Sendable, CustomStringConvertible {
  /// The connection: the one that the handler got. If a handshake failed, it is the encrypted connection that the handler would have got.
  /// If a server gets no valid header from a load balancer, or if the client that the header names has too many connections, it is the
  /// accepted connection.
  public let connection: any ByteStream
  /// The error that was thrown.
  public let error: any Error
  /// Whether the handler was not called, because a handshake failed, or the header of a load balancer or what it says was refused.
  public let isBeforeHandler: Bool

  /// Creates a failure, for example to test what a program does with one.
  ///
  /// - Parameters:
  ///   - connection: The connection.
  ///   - error: The error that was thrown.
  ///   - isBeforeHandler: Whether the handler was not called.
  public init(_ connection: any ByteStream, _ error: any Error, isBeforeHandler: Bool = false) {
    self.connection = connection
    self.error = error
    self.isBeforeHandler = isBeforeHandler
  }

  /// Whether a peer caused the error: see ``SocketError/isCausedByPeer(_:)``.
  public var isCausedByPeer: Bool { SocketError.isCausedByPeer(error) }

  /// A description for logs. It contains the description of the error, which may have several lines.
  public var description: String {
    "\(connection): \(isBeforeHandler ? "failed before the handler ran" : "the handler failed"): \(error)"
  }

  /// Prints the failure in one line on standard error, unless a peer caused it, or the shutdown of the reactor. A line is dropped if 100
  /// lines wait already. This is what happens without ``ServeOptions/onFailure``.
  public func printUnlessExpected() { StandardError.write(description, of: error) }
}

extension StandardError {
  /// Writes a line about an error, unless a peer caused it, or the shutdown of the reactor.
  static func write(_ failure: @autoclosure () -> String, of error: any Error) {
    if SocketError.isCausedByPeer(error) { return }
    if case SocketError.Code.reactorShutDown = error { return }
    write(line: failure())
  }
}
