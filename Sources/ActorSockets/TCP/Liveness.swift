internal import SocketSystem

// How a connection notices that its peer is gone. The kernel does the probing and the counting of what is acknowledged; the
// idle timeout is this package's own, see `Streams/IdleWatch.swift`.

/// How a connection finds out that its peer is gone.
///
/// ```swift
/// var configuration = TCPConnection.Configuration()
/// configuration.liveness.keepAlive = .init(idle: .seconds(20), interval: .seconds(5), count: 3)
/// configuration.liveness.idleTimeout = .seconds(300)
/// ```
///
/// A connection that ends so throws ``SocketError/Code-swift.struct/timedOut`` from what waits, and its report says
/// ``CloseReport/Reason-swift.enum/timedOut``. Only the idle timeout concerns unix sockets, whose peers cannot vanish unnoticed.
public struct Liveness: Hashable, Sendable {
  /// When a quiet connection is probed: keep-alive, RFC 9293, 3.8.4. The kernel counts in seconds and rounds up.
  public struct KeepAlive: Hashable, Sendable {
    /// How long nothing is heard before the first probe: TCP_KEEPIDLE, 1 to 32,767 seconds.
    public var idle: Duration
    /// The time between two probes: TCP_KEEPINTVL, 1 to 32,767 seconds.
    public var interval: Duration
    /// The probes without an answer after which the connection is ended: TCP_KEEPCNT, 1 to 127.
    public var count: Int

    /// Probes, after two minutes of silence in vain unless told otherwise.
    ///
    /// - Parameters:
    ///   - idle: How long nothing is heard before the first probe.
    ///   - interval: The time between two probes.
    ///   - count: The probes without an answer after which the connection is ended.
    public init(idle: Duration = .seconds(60), interval: Duration = .seconds(10), count: Int = 6) {
      self.idle = idle
      self.interval = interval
      self.count = count
    }
  }

  /// Whether and when a quiet connection is probed; `nil` for never. On by default: after 60 seconds, every 10 seconds, 6
  /// times, so that a peer that vanished is noticed in two minutes.
  public var keepAlive: KeepAlive?
  /// How long sent bytes may stay unacknowledged, or unsent because the peer does not read: TCP_USER_TIMEOUT. `nil` leaves it
  /// to the system, which gives up a peer that acknowledges nothing after about a quarter of an hour, and waits for one that
  /// does not read for as long as it answers.
  ///
  /// Off by default, for it cannot tell a peer that vanished from one that takes its time with reading. If it is set, it decides
  /// in place of ``KeepAlive/count`` when unanswered probes end the connection.
  public var unacknowledgedTimeout: Duration?
  /// How long no byte may move in either direction; `nil`, the default, for any time.
  ///
  /// It counts from when the connection is up, is never early, and late by the turn of the reactor's loop in which the last byte
  /// moved. A connection with nothing left to send ends cleanly; one whose writes are stuck is reset.
  public var idleTimeout: Duration?

  /// The defaults, or what is given in their place.
  ///
  /// - Parameters:
  ///   - keepAlive: Whether and when a quiet connection is probed.
  ///   - unacknowledgedTimeout: How long sent bytes may stay unacknowledged.
  ///   - idleTimeout: How long no byte may move.
  public init(
    keepAlive: KeepAlive? = KeepAlive(), unacknowledgedTimeout: Duration? = nil, idleTimeout: Duration? = nil
  ) {
    self.keepAlive = keepAlive
    self.unacknowledgedTimeout = unacknowledgedTimeout
    self.idleTimeout = idleTimeout
  }

  /// What the system does by itself: no probes, no idle timeout.
  public static let off = Liveness(keepAlive: nil)

  /// Sets what the kernel does of it.
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
