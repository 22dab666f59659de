internal import EpollReactor
internal import SocketSystem

extension UDPEndpoint {
  /// The datagrams that arrive, for as long as the endpoint is open.
  ///
  /// ```swift
  /// for try await datagram in endpoint.datagrams { … }
  /// ```
  ///
  /// Each turn of the loop receives one, and nothing is received in between: not asking is pausing, and what comes meanwhile
  /// waits in the kernel's buffer, as long as there is room. What is reported about a peer does not end the loop, but goes to the
  /// next ``send(_:timeout:)-([UInt8],_)`` and to ``errors``. Several loops share the datagrams.
  public nonisolated var datagrams: Datagrams { Datagrams(endpoint: self) }

  /// The datagrams of an endpoint, received as they are asked for.
  public struct Datagrams: AsyncSequence, AsyncIteratorProtocol, Sendable {
    fileprivate let endpoint: UDPEndpoint

    /// Begins to iterate.
    ///
    /// - Returns: The iterator.
    public func makeAsyncIterator() -> Datagrams { self }

    /// Receives the next datagram.
    ///
    /// - Returns: The datagram; `nil` when the endpoint is closed.
    /// - Throws: What broke the endpoint, and `CancellationError` when the task is cancelled; no datagram is lost then.
    public func next() async throws -> Datagram? { try await next(isolation: #isolation) }

    /// Receives the next datagram, from any isolation.
    ///
    /// - Parameter actor: The caller's isolation.
    /// - Returns: The datagram; `nil` when the endpoint is closed.
    /// - Throws: What broke the endpoint, and `CancellationError` when the task is cancelled.
    public func next(isolation actor: isolated (any Actor)?) async throws -> Datagram? {
      do {
        return try await endpoint.receiveNext()
      } catch let error as SocketError where error.code == .closed {
        return nil
      }
    }
  }

  // MARK: Figures

  /// What an endpoint has done.
  public struct Metrics: Hashable, Sendable {
    /// The datagrams received, those that a filter dropped included.
    public var datagramsReceived: UInt64 = 0
    /// The bytes in them.
    public var bytesReceived: UInt64 = 0
    /// Those of them that were longer than the endpoint receives.
    public var datagramsTruncated: UInt64 = 0
    /// The datagrams that the kernel has taken.
    public var datagramsSent: UInt64 = 0
    /// The bytes in them.
    public var bytesSent: UInt64 = 0
    /// The datagrams that filters dropped, in either direction.
    public var datagramsFiltered: UInt64 = 0
    /// The datagrams that the kernel has dropped, because nobody had received those before, or because they were damaged:
    /// SO_MEMINFO.
    public var datagramsDropped: UInt64 = 0
    /// The sends that wait.
    public var pendingSends = 0
    /// The receives that wait.
    public var pendingReceives = 0
    /// The datagrams that were fetched for nobody yet.
    public var fetchedAhead = 0
  }

  /// What it has done so far.
  ///
  /// *Ordering*: in the endpoint's isolation it says what is so now, without the calls that wait in the reactor's queue.
  public var metrics: Metrics {
    _ = claimPlaceNow()
    var metrics = Metrics()
    metrics.datagramsReceived = counts.datagramsReceived
    metrics.bytesReceived = counts.bytesReceived
    metrics.datagramsTruncated = counts.truncated
    metrics.datagramsSent = counts.datagramsSent
    metrics.bytesSent = counts.bytesSent
    metrics.datagramsFiltered = counts.filtered
    metrics.datagramsDropped = dropped
    metrics.pendingSends = sends.queue.count
    metrics.pendingReceives = receives.queue.count
    metrics.fetchedAhead = receives.queue.fetchedCount
    return metrics
  }

  /// What is counted.
  struct Counts {
    private(set) var datagramsReceived: UInt64 = 0
    private(set) var bytesReceived: UInt64 = 0
    private(set) var truncated: UInt64 = 0
    private(set) var datagramsSent: UInt64 = 0
    private(set) var bytesSent: UInt64 = 0
    var filtered: UInt64 = 0
    /// What the kernel had dropped when the sockets were closed.
    var droppedAtEnd: UInt64?

    mutating func received(_ count: Int, isTruncated: Bool) {
      datagramsReceived += 1
      bytesReceived += UInt64(count)
      if isTruncated { truncated += 1 }
    }

    mutating func sent(_ count: Int, bytes: Int) {
      datagramsSent += UInt64(count)
      bytesSent += UInt64(bytes)
    }
  }
}
