internal import SocketSystem

/// How long handlers may continue when a server stops, and which idle reads end.
public struct Drain: Hashable, Sendable {
  /// Which idle reads end during a drain.
  ///
  /// A read is idle if it may find the end of the stream, and no byte has arrived for it. An idle read returns `nil`, as if the peer
  /// had finished. Later reads of the connection return `nil`, too. So a handler that serves one message after the other ends its
  /// loop, and its connection is closed cleanly at once. A line or message of which a byte has arrived is read in full.
  ///
  /// A connection from which no byte has arrived is not idle at first, because its peer may just have connected, and may send its first
  /// request: see `newConnectionGrace` of ``Drain/within(_:idleReads:newConnectionGrace:)``.
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

  func with(_ duration: Duration, idleReads: IdleReads?) -> Drain {
    var drain = self
    drain.nanoseconds = duration.clampedNanoseconds
    drain.idleReads = idleReads ?? self.idleReads
    return drain
  }
}
