internal import SocketSystem

// How a connection detects that its peer is gone. The kernel sends the probes and counts unacknowledged bytes. The idle timeout
// is implemented in `Streams/IdleWatch.swift`.

extension TCPConnection {
  /// How a connection detects that its peer is gone.
  ///
  /// ```swift
  /// var configuration = TCPConnection.Configuration()
  /// configuration.liveness.keepAlive = .init(idle: .seconds(20), interval: .seconds(5), count: 3)
  /// configuration.liveness.idleTimeout = .seconds(300)
  /// ```
  ///
  /// When a connection ends this way, its pending operations throw ``SocketError/Code-swift.struct/timedOut``, and its report
  /// says ``CloseReport/Reason-swift.enum/timedOut``. Only the idle timeout applies to unix sockets, because the kernel always
  /// reports the end of a local peer.
  public struct Liveness: Hashable, Sendable {
    /// When a silent connection is probed: keep-alive, RFC 9293, section 3.8.4. Times are rounded up to whole seconds.
    public struct KeepAlive: Hashable, Sendable {
      /// The silence before the first probe: TCP_KEEPIDLE, 1 to 32,767 seconds.
      public var idle: Duration
      /// The time between two probes: TCP_KEEPINTVL, 1 to 32,767 seconds.
      public var interval: Duration
      /// The number of unanswered probes after which the connection is ended: TCP_KEEPCNT, 1 to 127.
      public var count: Int

      /// Creates keep-alive settings. The defaults end a connection after two minutes of silence.
      ///
      /// - Parameters:
      ///   - idle: The silence before the first probe.
      ///   - interval: The time between two probes.
      ///   - count: The number of unanswered probes after which the connection is ended.
      public init(idle: Duration = .seconds(60), interval: Duration = .seconds(10), count: Int = 6) {
        self.idle = idle
        self.interval = interval
        self.count = count
      }
    }

    /// Whether and when a silent connection is probed; `nil` for never. On by default: after 60 seconds, then every 10 seconds, 6
    /// times, so that a vanished peer is detected within two minutes.
    public var keepAlive: KeepAlive?
    /// How long sent bytes may stay unacknowledged, or unsent because the peer does not read: TCP_USER_TIMEOUT. With `nil` the
    /// kernel decides. It ends the connection after about 15 minutes without an acknowledgement. If the peer does not read but answers
    /// probes, the kernel waits without a limit.
    ///
    /// Off by default, because it cannot tell a vanished peer from one that reads slowly. If it is set, it replaces
    /// ``KeepAlive/count`` in deciding when unanswered probes end the connection.
    public var unacknowledgedTimeout: Duration?
    /// How long a connection may pass without any byte in either direction, more than zero; `nil`, the default, for no limit.
    ///
    /// The time starts when the connection is established. The timeout never fires early; it may fire late by the duration of the
    /// loop iteration in which the last byte moved. A connection with nothing left to send ends cleanly. A connection with unsent
    /// writes is reset.
    public var idleTimeout: Duration?

    /// Creates liveness settings, with the defaults for what is not given.
    ///
    /// - Parameters:
    ///   - keepAlive: Whether and when a silent connection is probed.
    ///   - unacknowledgedTimeout: How long sent bytes may stay unacknowledged.
    ///   - idleTimeout: How long a connection may pass without any byte.
    public init(
      keepAlive: KeepAlive? = KeepAlive(), unacknowledgedTimeout: Duration? = nil, idleTimeout: Duration? = nil
    ) {
      self.keepAlive = keepAlive
      self.unacknowledgedTimeout = unacknowledgedTimeout
      self.idleTimeout = idleTimeout
    }

    /// The kernel's own behaviour: no probes, no idle timeout.
    public static let off = Liveness(keepAlive: nil)

    func apply(to socket: BorrowedDescriptor) throws(SocketError) {
      if let keepAlive {
        try socket.set(.keepAlive, to: true)
        try socket.set(.keepAliveIdle, to: keepAlive.idle)
        try socket.set(.keepAliveInterval, to: keepAlive.interval)
        try socket.set(.keepAliveCount, to: keepAlive.count)
      }
      if let unacknowledgedTimeout { try socket.set(.userTimeout, to: unacknowledgedTimeout) }
    }
  }
}
