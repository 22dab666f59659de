public import ActorSockets
internal import ActorSocketsObservers
internal import Synchronization
public import Tracing

/// Records each connection of a reactor as a span.
///
/// ```swift
/// let tracing = TracingObserver()
/// Reactor.shared.observer = tracing
/// ```
///
/// The span `connection` begins when the connection is up, or before its first repeated try to connect, and ends with the connection. Its
/// kind is `internal`, because it stands for no request. It begins a trace: a reactor knows neither the task that opened the connection
/// nor what the peer traces, so there is no parent. ``withContext(of:_:)`` makes the spans of a handler its children.
///
/// | attribute | value |
/// |---|---|
/// | `network.transport` | `tcp` or `unix` |
/// | `network.type` | `ipv4` or `ipv6`; not for unix sockets |
/// | `network.local.address`, `network.local.port` | where this side is |
/// | `network.peer.address`, `network.peer.port` | where the peer is; behind a load balancer, where the client is |
/// | `tls.protocol.name`, `tls.protocol.version`, `tls.cipher`, `tls.next_protocol`, `tls.resumed`, `tls.established` | after a handshake |
/// | `error.type` | the code of the error that ended it, or the type of an error that is no ``SocketError`` |
/// | `connection.id`, `connection.label` | number and label |
/// | `connection.role` | `accepted` or `connected`; missing if it did not come up |
/// | `connection.bytes.received`, `connection.bytes.sent`, `connection.bytes.unsent` | the bytes that were moved, and those that were not |
///
/// Names that do not begin with `connection` are those of OpenTelemetry's semantic conventions. An attribute whose value is not known is
/// missing. Repeated tries and handshakes are events of the span. The error of a handler is recorded in the span, unless the span has ended
/// by then. A connection that fails to come up has a span without a duration, because observers are not told when connecting begins.
///
/// An iteration of the loop that takes too long is the span `reactor lag`.
///
/// *Threads*: the methods call the tracer on the reactor's thread. It must not block; tracers that export in the background do not.
public final class TracingObserver: ReactorObserver {
  /// The shortest duration of a loop iteration that is recorded.
  public let lagThreshold: Duration

  private let tracer: any Tracer
  /// The spans of the connections that have not ended.
  private let spans = Mutex<[UInt64: any Span]>([:])

  /// Creates the observer.
  ///
  /// - Parameters:
  ///   - tracer: The tracer; `nil` for that of the task or the one that `InstrumentationSystem` was bootstrapped with.
  ///   - lagThreshold: The shortest duration of a loop iteration that is recorded.
  public init(tracer: (any Tracer)? = nil, lagThreshold: Duration = .milliseconds(100)) {
    self.tracer = tracer ?? InstrumentationSystem.tracer
    self.lagThreshold = lagThreshold
  }

  /// Runs a body whose spans are children of the connection's span, as far as they begin while the connection is up.
  ///
  /// ```swift
  /// try await listener.serve { connection in
  ///   try await tracing.withContext(of: connection) { try await answer(connection) }
  /// }
  /// ```
  ///
  /// *Cancellation* ends the wait for the connection; the body sees it like any other code.
  ///
  /// - Parameters:
  ///   - connection: The connection. Of a TLS connection, the span is that of the connection beneath.
  ///   - body: The body.
  /// - Returns: The result of the body.
  /// - Throws: The errors of ``ByteStream/waitUntilOpen()``, and what the body throws.
  public func withContext<Result>(
    of connection: some ByteStream, _ body: () async throws -> Result
  ) async throws -> Result {
    // The span begins when the connection is up. A handler may begin earlier.
    try await connection.waitUntilOpen()
    return try await ServiceContext.withValue(context(of: connection.id)) { try await body() }
  }

  /// Returns the context of a connection's span.
  ///
  /// - Parameter id: The number of the connection: ``TCPConnection/id``.
  /// - Returns: The context; `nil` if the connection is not up, or has ended.
  public func context(of id: UInt64) -> ServiceContext? { spans.withLock { $0[id] }?.context }

  /// Returns the span of a connection. Begins one if the connection has no span yet.
  private func span(of connection: ObservedConnection) -> any Span {
    if let span = spans.withLock({ $0[connection.id] }) { return span }
    let span = tracer.startSpan("connection", context: .topLevel, ofKind: .internal)
    spans.withLock { $0[connection.id] = span }
    return span
  }

  private func isUp(_ connection: ObservedConnection, _ role: String) {
    span(of: connection).updateAttributes {
      $0.set(connection)
      $0["connection.role"] = role
    }
  }

  /// Ends the span of a connection.
  private func end(_ connection: ObservedConnection, _ update: (any Span) -> Void) {
    let span = span(of: connection)
    update(span)
    spans.withLock { _ = $0.removeValue(forKey: connection.id) }
    span.end()
  }

  /// Begins the span of a connection.
  public func connected(_ connection: ObservedConnection) { isUp(connection, "connected") }

  /// Begins the span of a connection.
  public func accepted(_ connection: ObservedConnection) { isUp(connection, "accepted") }

  /// Ends the span of a connection that did not come up, or records one without a duration.
  public func connectFailed(_ connection: ObservedConnection, _ error: SocketError) {
    end(connection) { span in
      span.updateAttributes { $0.set(connection) }
      span.fail(error)
    }
  }

  /// Records an event of the connection's span, which begins it if this is the first try.
  public func connectWillRetry(_ connection: ObservedConnection, _ error: SocketError, after delay: Duration) {
    span(of: connection).addEvent(
      SpanEvent(name: "retry", attributes: [AttributeName.errorType: .string(error.code.description)]))
  }

  /// Ends the span of a connection.
  public func closed(_ connection: ObservedConnection, _ report: CloseReport) {
    end(connection) { span in
      span.updateAttributes {
        $0.set(connection)
        $0["connection.bytes.received"] = report.bytesReceived
        $0["connection.bytes.sent"] = report.bytesSent
        if report.bytesUnsent > 0 { $0["connection.bytes.unsent"] = report.bytesUnsent }
      }
      guard let type = report.reason.errorType else { return }
      span.updateAttributes { $0[AttributeName.errorType] = type }
      span.setStatus(SpanStatus(code: .error, message: report.reason.text))
    }
  }

  /// Records the handshake in the connection's span.
  public func handshakeDone(_ connection: ObservedConnection, _ handshake: ObservedHandshake) {
    guard let span = spans.withLock({ $0[connection.id] }) else { return }
    span.updateAttributes { $0.set(handshake) }
    span.addEvent("TLS handshake done")
  }

  /// Records the error in the connection's span, unless it has ended: then the connection's own error is in it.
  public func handshakeFailed(_ connection: ObservedConnection, _ error: any Error) {
    guard let span = spans.withLock({ $0[connection.id] }) else { return }
    span.updateAttributes { $0["tls.established"] = false }
    span.fail(error)
  }

  /// Records the error in the connection's span, unless it has ended.
  public func handlerFailed(_ connection: ObservedConnection, _ error: any Error) {
    spans.withLock { $0[connection.id] }?.fail(error)
  }

  /// Records a span that ends now.
  public func lagged(_ lag: Duration) {
    let end = DefaultTracerClock.now
    // A lag of more than a century is no lag.
    let (seconds, attoseconds) = min(max(lag, .zero), .seconds(1 << 32)).components
    let nanoseconds = UInt64(seconds) * 1_000_000_000 + UInt64(attoseconds / 1_000_000_000)
    let start = DefaultTracerClock.Timestamp(
      nanosecondsSinceEpoch: end.nanosecondsSinceEpoch - min(end.nanosecondsSinceEpoch, nanoseconds))
    tracer.startSpan("reactor lag", context: .topLevel, ofKind: .internal, at: start).end(at: end)
  }
}
