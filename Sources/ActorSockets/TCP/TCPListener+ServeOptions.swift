internal import SocketSystem

// What `serve` can be told, and what it reports.

extension TCPListener {
  /// Where the handlers of a listener's connections run.
  public enum HandlerExecutor: Hashable, Sendable {
    /// On Swift's pool of threads. A handler may compute or block without holding up any socket.
    ///
    /// The handlers prefer the ``WorkerPool``, unless the task that calls `serve` has a priority below medium at that time.
    case pool
    /// On the reactor's thread. A handler and its connection then run on the same thread, which is fastest for short answers. A
    /// handler that blocks stalls every socket of the reactor.
    case reactor
  }

  /// How many connections a server handles at a time.
  public struct ServeLimits: Hashable, Sendable {
    /// The largest number of connections at a time. Further ones wait in the kernel's backlog.
    ///
    /// A connection whose handler has returned and whose bytes are sent does not count while it waits for its peer to finish: see
    /// ``ByteStream/close()``. At most 1,000 connections wait so, and fewer if descriptors are short. Beyond that, the one that has waited
    /// longest is closed. If the next connection needs its descriptor, that one still has 100 milliseconds in total to finish, so that its
    /// peer gets what was sent.
    ///
    /// The default is 10,000. If the process may not have that many descriptors (RLIMIT_NOFILE, getrlimit(2)), it is RLIMIT_NOFILE
    /// minus 64, or half of RLIMIT_NOFILE if that is more. Of the descriptors that are left, one half is for files and sockets that the
    /// program opens. The other half is the reserve that ``TCPListener/accept(timeout:)`` describes. Connections do not use up the
    /// reserve, even if you set a larger number.
    public var connections: Int
    /// The largest number of connections of one peer at a time. Further ones are reset. A peer is an IPv4 address, or the /64
    /// network of an IPv6 address. `nil`, the default, for no limit: many people, or a proxy, may share one address.
    ///
    /// Behind a load balancer, the peer is the client that the header names (``TCPListener/Configuration/proxyProtocol``). When the header
    /// arrives, the connection has already been accepted. So a connection that exceeds the limit fails with `.limitExceeded`, and counts
    /// in ``TCPListener/ServeReport/failedByPeer``.
    public var connectionsPerPeer: Int?

    /// Creates limits.
    ///
    /// - Parameters:
    ///   - connections: The largest number of connections at a time, at least 1; `nil` for the default.
    ///   - connectionsPerPeer: The largest number of connections of one peer at a time, at least 1; `nil` for no limit.
    public init(connections: Int? = nil, connectionsPerPeer: Int? = nil) {
      self.connections = connections ?? min(10_000, DescriptorReserve.refresh().connections)
      self.connectionsPerPeer = connectionsPerPeer
    }
  }

  /// How long handlers may continue when a server stops, and which idle reads end.
  public struct Drain: Hashable, Sendable {
    /// Which idle reads end during a drain.
    ///
    /// A read is idle if it may find the end of the stream, and no byte has arrived for it. An idle read returns `nil`, as if the peer
    /// had finished. Later reads of the connection return `nil`, too. So a handler that serves one message after the other ends its
    /// loop, and its connection is closed cleanly at once. A line or message of which a byte has arrived is read in full.
    ///
    /// A connection from which no byte has arrived is not idle at first, because its peer may just have connected, and may send its first
    /// request: see `newConnectionGrace` of ``TCPListener/Drain/within(_:idleReads:newConnectionGrace:)``.
    ///
    /// If a request consists of several reads, such as the lines of a header, a pause between two of them counts as idle. Use
    /// ``wait`` then, and check ``TCPConnection/isDraining`` between requests.
    public enum IdleReads: Int, Hashable, Sendable, Comparable {
      /// No read ends. All go on waiting, until the drain is over.
      case wait
      /// Reads of lines and messages end. Reads of bytes that have no form go on waiting, because the framework cannot
      /// distinguish a pause of an upload from its end: ``ByteStream/read(upTo:timeout:)``, ``ByteStream/chunks`` and
      /// ``ByteStream/withBytes(upTo:timeout:_:)``.
      case endMessages
      /// All idle reads end. Choose this for protocols in which a pause means that the peer wants nothing, such as an echo.
      case endAll

      /// Compares how many reads end.
      ///
      /// - Parameters:
      ///   - left: Which idle reads end.
      ///   - right: The same.
      /// - Returns: Whether fewer reads end with `left`.
      public static func < (left: IdleReads, right: IdleReads) -> Bool { left.rawValue < right.rawValue }
    }

    private(set) var nanoseconds: Int64
    private(set) var idleReads: IdleReads
    /// In 32 bits, because each connection keeps it.
    let graceMilliseconds: UInt32

    private init(_ nanoseconds: Int64, _ idleReads: IdleReads, grace: Duration = .seconds(5)) {
      self.nanoseconds = nanoseconds
      self.idleReads = idleReads
      graceMilliseconds = UInt32(clamping: max(0, grace.clampedNanoseconds) / 1_000_000)
    }

    /// Gives the handlers this long to end; after that they are cancelled and their connections aborted.
    ///
    /// - Parameters:
    ///   - duration: The time.
    ///   - idleReads: Which idle reads end.
    ///   - grace: How long a connection from which no byte has arrived counts as in use: from the beginning of the drain, or from its
    ///     acceptance during the drain. Its peer may have connected just before, and gets an answer if its first byte arrives in this
    ///     time. When the time is over, its reads are idle, and a TLS handshake or a PROXY header that is not complete ends the
    ///     connection. The grace never exceeds the time of the drain.
    /// - Returns: The drain.
    public static func within(
      _ duration: Duration, idleReads: IdleReads = .endMessages, newConnectionGrace grace: Duration = .seconds(5)
    ) -> Drain {
      Drain(duration.clampedNanoseconds, idleReads, grace: grace)
    }

    /// Cancels the handlers and aborts their connections at once.
    public static var immediately: Drain { Drain(0, .wait) }

    /// Returns the same drain with another time, and with other idle reads unless they are `nil`.
    func with(_ duration: Duration, idleReads: IdleReads?) -> Drain {
      var drain = self
      drain.nanoseconds = duration.clampedNanoseconds
      drain.idleReads = idleReads ?? self.idleReads
      return drain
    }
  }

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
    /// - Its peer has too many connections: ``TCPListener/ServeLimits/connectionsPerPeer``.
    /// - Only the reserved descriptors are free: ``TCPListener/accept(timeout:)``.
    /// - ``TCPConnection/Configuration/prepare`` threw an error.
    /// - It does not come from a trusted network: ``TCPListener/Configuration/proxyProtocol``.
    public var refused = 0

    /// Creates a report with all counts at 0.
    public init() {}
  }
}
