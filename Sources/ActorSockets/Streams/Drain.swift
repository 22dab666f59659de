internal import SocketSystem

/// How long handlers may continue when a server stops, and which idle reads end.
public struct Drain: Hashable, Sendable {
  /// Which idle reads end during a drain.
  ///
  /// A read is idle if it may find the end of the stream, and no byte has arrived for it. An idle read returns `nil`, as if the peer
  /// had finished. Later reads of the connection return `nil`, too. So a handler that serves one message after the other ends its
  /// loop, and its connection is closed cleanly at once. A line or message of which a byte has arrived is read in full. Later calls that
  /// need the peer's own end throw ``SocketError/Code/endOfStream``, because the peer may have had more to send, for example
  /// ``ByteStream/readToEnd(maximumLength:timeout:)``.
  ///
  /// A connection from which no byte has arrived is not idle at first, because its peer may just have connected, and may send its first
  /// request: see `newConnectionGrace` of ``Drain/within(_:idleReads:newConnectionGrace:idleConnectionGrace:notice:)``.
  ///
  /// If a request consists of several reads, such as the lines of a header, a pause between two of them counts as idle. Use
  /// ``wait`` then, and check ``TCPConnection/isDraining`` between requests.
  public enum IdleReads: Int, Hashable, Sendable, Comparable {
    /// No read ends. All go on waiting, until the drain is over.
    case wait
    /// Reads of lines and messages end. Reads of other bytes go on waiting, because the framework cannot
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

  /// How long the peer of a connection has for another byte before its reads are idle, in milliseconds. In 32 bits, because each
  /// connection keeps them.
  package struct Grace: Hashable, Sendable {
    /// If no byte of it has arrived before.
    var new: UInt32
    /// If it was used before.
    var used: UInt32

    package init(new: Duration, used: Duration) {
      self.new = Self.milliseconds(new)
      self.used = Self.milliseconds(used)
    }

    private static func milliseconds(_ duration: Duration) -> UInt32 {
      UInt32(clamping: max(0, duration.clampedNanoseconds) / 1_000_000)
    }
  }

  private(set) var nanoseconds: Int64
  private(set) var idleReads: IdleReads
  let grace: Grace
  /// How long the listener still accepts connections, in nanoseconds.
  private(set) var notice: Int64

  private init(_ duration: Duration, _ idleReads: IdleReads, _ grace: Grace, notice: Duration) {
    nanoseconds = duration.clampedNanoseconds
    self.idleReads = idleReads
    self.grace = grace
    self.notice = max(0, notice.clampedNanoseconds)
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
  ///   - idleGrace: The same for a connection that was used before. With a time above zero, a client that pauses between requests may send
  ///     one more, and is answered. The grace ends with the first byte that arrives after the drain began, which may also belong to a
  ///     request that had begun before. The next idle read ends at once. So a client that sends its next request as soon as it has an
  ///     answer may send it to a connection that is being closed, whatever the grace. If the protocol has a way, say in each answer that
  ///     it is the last one, as HTTP does with `Connection: close`, when ``ByteStream/isDraining`` is true. Zero by default.
  ///   - notice: How long the server goes on as before, except that ``ByteStream/isDraining`` is true, also for new connections, and that
  ///     ``ByteStream/waitUntilDraining()`` returns. Then the drain begins, and its time. Handlers answer health checks with a failure
  ///     meanwhile, and a load balancer stops sending connections. Zero by default. A call of ``StreamListener/drain(within:)``, the close
  ///     of the listener and a second signal do not wait for the end of the notice, and do not put off the end of the drain.
  /// - Returns: The drain.
  public static func within(
    _ duration: Duration, idleReads: IdleReads = .endMessages, newConnectionGrace grace: Duration = .seconds(5),
    idleConnectionGrace idleGrace: Duration = .zero, notice: Duration = .zero
  ) -> Drain {
    Drain(duration, idleReads, Grace(new: grace, used: idleGrace), notice: notice)
  }

  /// Cancels the handlers and aborts their connections at once.
  public static var immediately: Drain {
    Drain(.zero, .wait, Grace(new: .seconds(5), used: .zero), notice: .zero)
  }

  func with(_ duration: Duration, idleReads: IdleReads?) -> Drain {
    var drain = withoutNotice
    drain.nanoseconds = duration.clampedNanoseconds
    drain.idleReads = idleReads ?? self.idleReads
    return drain
  }

  var withoutNotice: Drain {
    var drain = self
    drain.notice = 0
    return drain
  }
}
