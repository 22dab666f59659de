/// The numbers of connections that a server accepted and refused, and how the accepted ones ended.
public struct ServeReport: Hashable, Sendable {
  /// The connections that were accepted.
  public var accepted = 0
  /// The accepted connections whose handler returned.
  public var finished = 0
  /// The accepted connections whose handler threw an error that no peer caused.
  public var failed = 0
  /// The accepted connections whose handler threw an error that a peer caused, and the handshakes that failed because of the peer:
  /// see ``SocketError/isCausedByPeer``. That peer may be the one of another connection, which the handler has opened.
  public var failedByPeer = 0
  /// The accepted connections that were aborted because their handlers had not ended when the drain was over.
  public var aborted = 0
  /// The connections that were reset at once. They do not count as accepted. A connection is refused in these cases:
  ///
  /// - Its peer has too many connections: ``ServeLimits/connectionsPerPeer``.
  /// - Only the reserved descriptors are free: ``TCPListener/accept(timeout:)``.
  /// - ``TCPConnection/Configuration/prepare`` threw an error.
  /// - It does not come from a trusted network: ``TCPListener/Configuration/proxyProtocol``.
  public var refused = 0

  /// Creates a report with all counts at 0.
  public init() {}

  mutating func add(_ other: ServeReport) {
    accepted += other.accepted
    finished += other.finished
    failed += other.failed
    failedByPeer += other.failedByPeer
    aborted += other.aborted
    refused += other.refused
  }
}
