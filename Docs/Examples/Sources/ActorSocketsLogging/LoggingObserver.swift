public import ActorSockets
public import Logging
internal import Synchronization

/// Writes the events of a reactor to a `Logger`.
///
/// ```swift
/// Reactor.shared.observer = LoggingObserver(Logger(label: "sockets"))
/// ```
///
/// | event | level |
/// |---|---|
/// | a connection was accepted or established, a TLS handshake is done | debug |
/// | a connection has ended: closed by either side | debug |
/// | a connection has ended: reset, timed out, or its peer was too slow | info |
/// | a connection has ended: another error | notice |
/// | connecting will be tried again | info |
/// | connecting failed | notice; debug if the program closed or cancelled it |
/// | an accepted connection did not begin with a valid PROXY header | info |
/// | a TLS handshake failed | notice |
/// | a handler has thrown an error | error; info if ``SocketError/isCausedByPeer(_:)`` is true |
/// | datagrams were dropped, the reactor was held up | warning |
///
/// The metadata are `connection.id`, `connection.label`, and the addresses under the names of OpenTelemetry's semantic conventions:
/// `network.local.address`, `network.local.port`, `network.peer.address`, `network.peer.port`. Errors are the `error` of the line.
///
/// *Threads*: the reactor never waits for the log handler. A line is written by a task on the ``WorkerPool``, a moment after its event.
///
/// *Floods*: at most `linesPerSecond` lines are written in a second, and as many again of the levels warning and above, so that a flood of
/// connections does not hide them. If the log handler is slower, as many lines wait for it. The first line after others were left out says
/// how many, under `suppressed`.
public final class LoggingObserver: ReactorObserver {
  /// What the writer receives.
  private enum Line: Sendable {
    case event(LoggedEvent, suppressed: Int)
    case flush(CheckedContinuation<Bool, Never>)
  }

  private struct Budgets {
    var ordinary: LineBudget
    var warnings: LineBudget
  }

  /// The shortest duration of a loop iteration that is logged.
  public let lagThreshold: Duration

  private let logger: Logger
  private let budgets: Mutex<Budgets>
  private let lines: AsyncStream<Line>.Continuation
  private let now: @Sendable () -> ContinuousClock.Instant

  /// Creates the observer.
  ///
  /// - Parameters:
  ///   - logger: The logger. Events below its level cost nothing but the comparison.
  ///   - linesPerSecond: How many lines are written in a second, at least 1.
  ///   - lagThreshold: The shortest duration of a loop iteration that is logged.
  public convenience init(
    _ logger: Logger, linesPerSecond: Int = 100, lagThreshold: Duration = .milliseconds(100)
  ) {
    self.init(logger, linesPerSecond: linesPerSecond, lagThreshold: lagThreshold) { .now }
  }

  /// Creates the observer with a clock, for tests.
  package init(
    _ logger: Logger, linesPerSecond: Int, lagThreshold: Duration,
    now: @escaping @Sendable () -> ContinuousClock.Instant
  ) {
    self.logger = logger
    self.lagThreshold = lagThreshold
    self.now = now
    let budget = LineBudget(linesPerSecond: linesPerSecond)
    budgets = Mutex(Budgets(ordinary: budget, warnings: budget))
    let (stream, continuation) = AsyncStream.makeStream(
      of: Line.self, bufferingPolicy: .bufferingOldest(2 * budget.linesPerSecond))
    lines = continuation
    Task(executorPreference: WorkerPool.shared) { await Self.write(stream, to: logger) }
  }

  deinit { lines.finish() }

  /// Waits until the lines of all events so far are written.
  public func flush() async {
    // A marker finds no room only for a moment, because the writer empties the queue.
    while await !mark() { await Task.yield() }
  }

  /// Waits until the writer has reached the end of the queue.
  ///
  /// - Returns: `false`, without waiting, if the queue is full.
  private func mark() async -> Bool {
    await withCheckedContinuation { continuation in
      if case .enqueued = lines.yield(.flush(continuation)) { return }
      continuation.resume(returning: false)
    }
  }

  private static func write(_ lines: AsyncStream<Line>, to logger: Logger) async {
    for await line in lines {
      switch line {
      case .event(let event, let suppressed):
        var metadata = event.metadata
        if suppressed > 0 { metadata["suppressed"] = "\(suppressed)" }
        logger.log(level: event.level, event.message, error: event.error, metadata: metadata)
      case .flush(let continuation): continuation.resume(returning: true)
      }
    }
  }

  /// Gives an event to the writer, unless the logger does not want it or too many lines were written. Never waits for the log handler.
  private func log(_ event: LoggedEvent) {
    if logger.logLevel > event.level { return }
    let isWarning = event.level >= .warning
    let time = now()
    let admitted = budgets.withLock {
      isWarning ? $0.warnings.admit(at: time) : $0.ordinary.admit(at: time)
    }
    guard let suppressed = admitted else { return }
    if case .enqueued = lines.yield(.event(event, suppressed: suppressed)) { return }
    budgets.withLock {
      if isWarning { $0.warnings.suppress(suppressed + 1) } else { $0.ordinary.suppress(suppressed + 1) }
    }
  }

  /// Logs ``ReactorObserver/connected(_:)``.
  public func connected(_ connection: ObservedConnection) { log(.connected(connection)) }

  /// Logs ``ReactorObserver/accepted(_:)``.
  public func accepted(_ connection: ObservedConnection) { log(.accepted(connection)) }

  /// Logs ``ReactorObserver/connectFailed(_:_:)``.
  public func connectFailed(_ connection: ObservedConnection, _ error: SocketError) {
    log(.connectFailed(connection, error))
  }

  /// Logs ``ReactorObserver/connectWillRetry(_:_:after:)``.
  public func connectWillRetry(_ connection: ObservedConnection, _ error: SocketError, after delay: Duration) {
    log(.connectWillRetry(connection, error, delay))
  }

  /// Logs ``ReactorObserver/closed(_:_:)``.
  public func closed(_ connection: ObservedConnection, _ report: CloseReport) { log(.closed(connection, report)) }

  /// Logs ``ReactorObserver/handshakeDone(_:_:)``.
  public func handshakeDone(_ connection: ObservedConnection, _ handshake: ObservedHandshake) {
    log(.handshakeDone(connection, handshake))
  }

  /// Logs ``ReactorObserver/handshakeFailed(_:_:)``.
  public func handshakeFailed(_ connection: ObservedConnection, _ error: any Error) {
    log(.handshakeFailed(connection, error))
  }

  /// Logs ``ReactorObserver/handlerFailed(_:_:)``.
  public func handlerFailed(_ connection: ObservedConnection, _ error: any Error) {
    log(.handlerFailed(connection, error))
  }

  /// Logs ``ReactorObserver/datagramsDropped(_:at:)``.
  public func datagramsDropped(_ count: UInt64, at endpoint: ObservedConnection) {
    log(.datagramsDropped(count, endpoint))
  }

  /// Logs ``ReactorObserver/lagged(_:)``.
  public func lagged(_ lag: Duration) { log(.lagged(lag)) }
}
