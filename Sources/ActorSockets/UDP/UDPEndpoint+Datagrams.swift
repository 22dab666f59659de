internal import EpollReactor
internal import SocketSystem

extension UDPEndpoint {
  /// The datagrams that arrive, until the endpoint is closed.
  ///
  /// ```swift
  /// for try await datagram in endpoint.datagrams { … }
  /// ```
  ///
  /// Each iteration of the loop receives one datagram. If one system call has fetched several, the next iterations take them without
  /// suspending. A program pauses receiving by not asking for the next one; datagrams that arrive meanwhile wait in the kernel's
  /// buffer as long as there is room. Errors reported about the peer do not end the loop: the next ``send(_:timeout:)-([UInt8],_)`` throws
  /// them, and ``errors`` reports them. If several loops run, each datagram goes to one of them.
  public nonisolated var datagrams: Datagrams { datagrams() }

  /// Returns the datagrams that arrive, until the endpoint is closed: see ``datagrams``.
  ///
  /// - Parameter timeout: The longest time to wait for each datagram. When it expires, the loop throws `.timedOut`. A new loop
  ///   continues with the next datagram. `nil` means no limit.
  /// - Returns: The datagrams.
  public nonisolated func datagrams(timeout: Timeout? = nil) -> Datagrams {
    Datagrams(self, timeout)
  }

  /// The datagrams of an endpoint. Each is received when the loop asks for it.
  public struct Datagrams: AsyncSequence, AsyncIteratorProtocol, Sendable {
    @usableFromInline let endpoint: UDPEndpoint
    @usableFromInline let timeout: Timeout?
    @usableFromInline var end = SequenceEnd.never
    /// The datagrams after the one that the last call returned; `nil` if that call found no others.
    @usableFromInline var ahead: ElementsAhead<Datagram>?

    fileprivate init(_ endpoint: UDPEndpoint, _ timeout: Timeout?) {
      self.endpoint = endpoint
      self.timeout = timeout
    }

    /// Returns the same datagrams until an instant.
    ///
    /// ```swift
    /// for try await answer in endpoint.datagrams.ending(at: .now + .seconds(2)) { … }
    /// ```
    ///
    /// At the instant the loop ends as it does when the endpoint is closed: it throws nothing. Datagrams that the loop has not asked for
    /// stay for the next call. If the loop has a timeout, it continues to apply to each datagram, and throws `.timedOut`.
    ///
    /// - Parameter deadline: The instant. On a reactor with manual time, count from `ManualTime.now`.
    /// - Returns: The datagrams.
    public func ending(at deadline: ContinuousClock.Instant) -> Datagrams {
      var datagrams = self
      datagrams.end = SequenceEnd(at: deadline, or: end)
      return datagrams
    }

    /// Returns an iterator over the datagrams.
    ///
    /// - Returns: The iterator.
    public func makeAsyncIterator() -> Datagrams { self }

    /// Receives the next datagram.
    ///
    /// *Cancellation* and *ordering* are those of ``UDPEndpoint/receive(timeout:)``.
    ///
    /// - Returns: The datagram; `nil` when the endpoint is closed, or at the instant of ``ending(at:)``.
    /// - Throws: ``SocketError`` with what broke the endpoint; `CancellationError` when the task is cancelled. No datagram is
    ///   lost.
    @inlinable
    public mutating func next() async throws -> Datagram? { try await next(isolation: #isolation) }

    /// Receives the next datagram, called from any isolation.
    ///
    /// *Cancellation* and *ordering* are those of ``UDPEndpoint/receive(timeout:)``.
    ///
    /// - Parameter actor: The caller's isolation.
    /// - Returns: The datagram; `nil` when the endpoint is closed, or at the instant of ``ending(at:)``.
    /// - Throws: ``SocketError`` with what broke the endpoint; `CancellationError` when the task is cancelled. No datagram is
    ///   lost.
    @inlinable
    public mutating func next(isolation actor: isolated (any Actor)?) async throws -> Datagram? {
      // The loop calls the endpoint directly, as in `StreamSequence.AsyncIterator`.
      if end == .never || !end.hasPassed(on: endpoint.executor), let datagram = ahead?.take() { return datagram }
      ahead = nil
      guard let received = try await endpoint.receiveNext(timeout, end) else { return nil }
      ahead = received.ahead
      return received.datagram
    }
  }

  // MARK: Metrics

  /// The counters of an endpoint since it was created, and the lengths of its queues.
  public struct Metrics: Hashable, Sendable {
    /// The datagrams received, including those that a filter dropped.
    public var datagramsReceived: UInt64 = 0
    /// The bytes of the received datagrams.
    public var bytesReceived: UInt64 = 0
    /// The received datagrams that were longer than the endpoint receives.
    public var datagramsTruncated: UInt64 = 0
    /// The datagrams that the kernel has accepted for sending.
    public var datagramsSent: UInt64 = 0
    /// The bytes of the sent datagrams.
    public var bytesSent: UInt64 = 0
    /// The datagrams that filters dropped, in either direction.
    public var datagramsFiltered: UInt64 = 0
    /// The datagrams that were not delivered although their calls did not fail: replies
    /// (``UDPEndpoint/Configuration/throwsUndeliverableReplies``), and datagrams to a destination without room
    /// (``UDPEndpoint/Configuration/fullDestination``).
    public var datagramsUndelivered: UInt64 = 0
    /// The datagrams that the kernel has dropped, because its buffer was full or because they were damaged: SO_MEMINFO.
    public var datagramsDropped: UInt64 = 0
    /// The sends that wait, and the replies that wait for room.
    public var pendingSends = 0
    /// The receives that wait.
    public var pendingReceives = 0
    /// The datagrams that were fetched before a call asked for them.
    public var fetchedAhead = 0
    /// The handlers of ``UDPEndpoint/serve(_:handler:)`` that run.
    public var runningHandlers = 0
    /// The datagrams that wait in the program for a handler.
    public var waitingForHandler = 0
    /// The datagrams that got no handler: see ``UDPEndpoint/ServeReport/unserved``.
    public var datagramsUnserved: UInt64 = 0
  }

  /// The metrics of the endpoint at this moment.
  ///
  /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue.
  public var metrics: Metrics {
    _ = claimPlaceNow()
    return currentMetrics
  }

  /// Takes no place among the calls.
  var currentMetrics: Metrics {
    receives.queue.reclaimLookahead()
    noteSentThroughGate()
    var metrics = Metrics()
    metrics.datagramsReceived = counts.datagramsReceived
    metrics.bytesReceived = counts.bytesReceived
    metrics.datagramsTruncated = counts.truncated
    metrics.datagramsSent = counts.datagramsSent
    metrics.bytesSent = counts.bytesSent
    metrics.datagramsFiltered = counts.filtered
    metrics.datagramsUndelivered = counts.undelivered
    metrics.datagramsDropped = dropped
    metrics.pendingSends = sends.queue.count
    metrics.pendingReceives = receives.queue.count
    metrics.fetchedAhead = receives.queue.fetchedCount
    metrics.runningHandlers = serving.server.handlers
    metrics.waitingForHandler = serving.server.waitingCount
    metrics.datagramsUnserved = UInt64(serving.server.report.unserved)
    return metrics
  }

  struct Counts {
    private(set) var datagramsReceived: UInt64 = 0
    private(set) var bytesReceived: UInt64 = 0
    private(set) var truncated: UInt64 = 0
    private(set) var datagramsSent: UInt64 = 0
    private(set) var bytesSent: UInt64 = 0
    var filtered: UInt64 = 0
    var undelivered: UInt64 = 0
    /// The number of datagrams that the kernel had dropped when the sockets were closed.
    var droppedAtEnd: UInt64?
    /// Gets the number of dropped datagrams.
    let observer: (any ReactorObserver)?
    /// The number of dropped datagrams that the observer knows of.
    var reportedDrops: UInt64 = 0

    /// Records what is counted; `nil` without a capture.
    let recorder: DatagramRecorder?

    init(observer: (any ReactorObserver)?, recorder: DatagramRecorder?) {
      self.observer = observer
      self.recorder = recorder
    }

    mutating func received(_ count: Int, isTruncated: Bool) {
      datagramsReceived += 1
      bytesReceived += UInt64(count)
      if isTruncated { truncated += 1 }
    }

    mutating func sent(_ count: Int, bytes: Int) {
      datagramsSent += UInt64(count)
      bytesSent += UInt64(bytes)
    }

    mutating func sent(_ counts: SendGate.Counts) {
      datagramsSent += counts.datagrams
      bytesSent += counts.bytes
    }
  }
}
