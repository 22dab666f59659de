public import ActorSockets

/// Several observers that act as one, because a reactor has one observer.
///
/// ```swift
/// Reactor.shared.observer = Observers(LoggingObserver(logger), MetricsObserver())
/// ```
///
/// Each call is passed on to all of them, in the order in which they were given.
public struct Observers: ReactorObserver {
  private let observers: [any ReactorObserver]
  /// The thresholds of the observers, read once, as a reactor reads that of its observer.
  private let thresholds: [Duration]

  /// The shortest threshold of the observers. Each observer is told of iterations that reach its own threshold.
  public let lagThreshold: Duration

  /// Creates the observer.
  ///
  /// - Parameter observers: The observers that receive the calls.
  public init(_ observers: any ReactorObserver...) {
    self.observers = observers
    thresholds = observers.map(\.lagThreshold)
    lagThreshold = thresholds.min() ?? Duration.seconds(Int.max)
  }

  /// Passes on ``ReactorObserver/connected(_:)``.
  public func connected(_ connection: ObservedConnection) {
    for observer in observers { observer.connected(connection) }
  }

  /// Passes on ``ReactorObserver/accepted(_:)``.
  public func accepted(_ connection: ObservedConnection) {
    for observer in observers { observer.accepted(connection) }
  }

  /// Passes on ``ReactorObserver/connectFailed(_:_:)``.
  public func connectFailed(_ connection: ObservedConnection, _ error: SocketError) {
    for observer in observers { observer.connectFailed(connection, error) }
  }

  /// Passes on ``ReactorObserver/connectWillRetry(_:_:after:)``.
  public func connectWillRetry(_ connection: ObservedConnection, _ error: SocketError, after delay: Duration) {
    for observer in observers { observer.connectWillRetry(connection, error, after: delay) }
  }

  /// Passes on ``ReactorObserver/closed(_:_:)``.
  public func closed(_ connection: ObservedConnection, _ report: CloseReport) {
    for observer in observers { observer.closed(connection, report) }
  }

  /// Passes on ``ReactorObserver/handshakeDone(_:_:)``.
  public func handshakeDone(_ connection: ObservedConnection, _ handshake: ObservedHandshake) {
    for observer in observers { observer.handshakeDone(connection, handshake) }
  }

  /// Passes on ``ReactorObserver/handshakeFailed(_:_:)``.
  public func handshakeFailed(_ connection: ObservedConnection, _ error: any Error) {
    for observer in observers { observer.handshakeFailed(connection, error) }
  }

  /// Passes on ``ReactorObserver/handlerFailed(_:_:)``.
  public func handlerFailed(_ connection: ObservedConnection, _ error: any Error) {
    for observer in observers { observer.handlerFailed(connection, error) }
  }

  /// Passes on ``ReactorObserver/datagramsDropped(_:at:)``.
  public func datagramsDropped(_ count: UInt64, at endpoint: ObservedConnection) {
    for observer in observers { observer.datagramsDropped(count, at: endpoint) }
  }

  /// Passes on ``ReactorObserver/lagged(_:)`` to the observers whose threshold is reached.
  public func lagged(_ lag: Duration) {
    for (observer, threshold) in zip(observers, thresholds) where lag >= threshold { observer.lagged(lag) }
  }
}
