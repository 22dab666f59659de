public import ActorSockets
public import CoreMetrics
internal import Synchronization

/// Counts the events of a reactor with swift-metrics.
///
/// ```swift
/// Reactor.shared.observer = MetricsObserver()
/// ```
///
/// | name | kind | what it says | dimension |
/// |---|---|---|---|
/// | `sockets.connections.accepted` | counter | connections that listeners accepted | |
/// | `sockets.connections.connected` | counter | connections that this process opened or adopted | |
/// | `sockets.connections.failed` | counter | connections that did not come up | `error.type`: the code of the error |
/// | `sockets.connections.retried` | counter | tries to connect that failed and were repeated | |
/// | `sockets.connections.open` | meter | connections that are up | |
/// | `sockets.connections.closed` | counter | connections that have ended | `reason`, see below |
/// | `sockets.connections.duration` | timer | how long a connection was up | |
/// | `sockets.bytes.received` | counter | bytes received by connections that have ended | |
/// | `sockets.bytes.sent` | counter | bytes sent by connections that have ended | |
/// | `sockets.bytes.unsent` | counter | bytes that were written but not sent when a connection ended | |
/// | `sockets.tls.handshakes` | counter | TLS handshakes that are done | `resumed`: `true` or `false` |
/// | `sockets.tls.failures` | counter | TLS handshakes that failed | |
/// | `sockets.handlers.failed` | counter | errors that handlers have thrown | |
/// | `sockets.datagrams.dropped` | counter | datagrams that the kernel dropped | |
/// | `sockets.reactor.lag` | timer | iterations of the loop that took at least `lagThreshold` | |
///
/// The reasons are `local`, `remote`, `reset`, `timedOut`, `peerTooSlow` and `error`. No dimension has a value that a peer chooses, so the
/// number of metrics is bounded.
///
/// *Threads*: the methods call the handlers of the metrics on the reactor's thread. They must not block, as those of Prometheus and StatsD
/// do not.
public final class MetricsObserver: ReactorObserver {
  /// The shortest duration of a loop iteration that is recorded.
  public let lagThreshold: Duration

  private let accepted, connected, retried, received, sent, unsent, fullHandshakes, resumedHandshakes: Counter
  private let failedHandshakes, failedHandlers, droppedDatagrams: Counter
  private let openConnections: Meter
  private let duration, lag: Timer
  private let closings: [ClosingReason: Counter]
  private let failures: FailureCounters
  /// When each open connection came up.
  private let beginnings = Mutex<[UInt64: ContinuousClock.Instant]>([:])

  /// Creates the observer and its metrics.
  ///
  /// - Parameters:
  ///   - factory: Makes the metrics; `nil` for that of the task or the one that `MetricsSystem` was bootstrapped with.
  ///   - prefix: What the names begin with, in place of `sockets`.
  ///   - lagThreshold: The shortest duration of a loop iteration that is recorded.
  public init(
    factory: (any MetricsFactory)? = nil, prefix: String = "sockets", lagThreshold: Duration = .milliseconds(100)
  ) {
    let factory = factory ?? MetricsSystem.factory
    func counter(_ name: String, _ dimensions: [(String, String)] = []) -> Counter {
      Counter(label: "\(prefix).\(name)", dimensions: dimensions, factory: factory)
    }
    self.lagThreshold = lagThreshold
    accepted = counter("connections.accepted")
    connected = counter("connections.connected")
    retried = counter("connections.retried")
    received = counter("bytes.received")
    sent = counter("bytes.sent")
    unsent = counter("bytes.unsent")
    fullHandshakes = counter("tls.handshakes", [("resumed", "false")])
    resumedHandshakes = counter("tls.handshakes", [("resumed", "true")])
    failedHandshakes = counter("tls.failures")
    failedHandlers = counter("handlers.failed")
    droppedDatagrams = counter("datagrams.dropped")
    openConnections = Meter(label: "\(prefix).connections.open", dimensions: [], factory: factory)
    duration = Timer(label: "\(prefix).connections.duration", dimensions: [], factory: factory)
    lag = Timer(label: "\(prefix).reactor.lag", dimensions: [], factory: factory)
    closings = Dictionary(
      uniqueKeysWithValues: ClosingReason.allCases.map {
        ($0, counter("connections.closed", [("reason", $0.rawValue)]))
      })
    failures = FailureCounters(label: "\(prefix).connections.failed", factory)
  }

  private func isUp(_ connection: ObservedConnection) {
    openConnections.increment()
    beginnings.withLock { $0[connection.id] = .now }
  }

  /// Counts ``ReactorObserver/connected(_:)``.
  public func connected(_ connection: ObservedConnection) {
    connected.increment()
    isUp(connection)
  }

  /// Counts ``ReactorObserver/accepted(_:)``.
  public func accepted(_ connection: ObservedConnection) {
    accepted.increment()
    isUp(connection)
  }

  /// Counts ``ReactorObserver/connectFailed(_:_:)``.
  public func connectFailed(_ connection: ObservedConnection, _ error: SocketError) { failures.count(error.code) }

  /// Counts ``ReactorObserver/connectWillRetry(_:_:after:)``.
  public func connectWillRetry(_ connection: ObservedConnection, _ error: SocketError, after delay: Duration) {
    retried.increment()
  }

  /// Counts ``ReactorObserver/closed(_:_:)``, and records the duration and the bytes of the connection.
  public func closed(_ connection: ObservedConnection, _ report: CloseReport) {
    openConnections.decrement()
    closings[ClosingReason(report.reason)]?.increment()
    received.increment(by: report.bytesReceived)
    sent.increment(by: report.bytesSent)
    unsent.increment(by: report.bytesUnsent)
    let beginning = beginnings.withLock { $0.removeValue(forKey: connection.id) }
    if let beginning { duration.recordNanoseconds(beginning.duration(to: .now).nanoseconds) }
  }

  /// Counts ``ReactorObserver/handshakeDone(_:_:)``.
  public func handshakeDone(_ connection: ObservedConnection, _ handshake: ObservedHandshake) {
    (handshake.isResumed ? resumedHandshakes : fullHandshakes).increment()
  }

  /// Counts ``ReactorObserver/handshakeFailed(_:_:)``.
  public func handshakeFailed(_ connection: ObservedConnection, _ error: any Error) { failedHandshakes.increment() }

  /// Counts ``ReactorObserver/handlerFailed(_:_:)``.
  public func handlerFailed(_ connection: ObservedConnection, _ error: any Error) { failedHandlers.increment() }

  /// Counts the datagrams of ``ReactorObserver/datagramsDropped(_:at:)``.
  public func datagramsDropped(_ count: UInt64, at endpoint: ObservedConnection) {
    droppedDatagrams.increment(by: Int64(clamping: count))
  }

  /// Records ``ReactorObserver/lagged(_:)``.
  public func lagged(_ lag: Duration) { self.lag.recordNanoseconds(lag.nanoseconds) }
}

extension Duration {
  /// The duration in nanoseconds, or the longest one that a timer can record.
  fileprivate var nanoseconds: Int64 {
    let (seconds, attoseconds) = components
    let (whole, isTooLong) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    let (sum, overflows) = whole.addingReportingOverflow(attoseconds / 1_000_000_000)
    return isTooLong || overflows ? .max : sum
  }
}
