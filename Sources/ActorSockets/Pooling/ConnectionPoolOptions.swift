public import SocketSystem

/// How a ``ConnectionPool`` makes, keeps and closes its connections.
///
/// ```swift
/// var options = ConnectionPoolOptions()
/// options.connections = 20
/// options.maximumAge = .seconds(3_600)
/// ```
public struct ConnectionPoolOptions: Hashable, Sendable, Configurable {
  /// The largest number of connections, at least 1: those in use, those that are idle, those that are checked, and those
  /// that are being made. 8 by default. As many again may be closing; beyond that, a connection is aborted and not closed.
  public var connections = 8
  /// The largest number of calls that wait for a connection, at least 1. 1,000 by default. Further calls throw `.limitExceeded`.
  public var waitingCalls = 1_000
  /// How long a call waits for a connection, connecting included, if it has no timeout of its own. Also the longest time of an attempt to
  /// connect and of a check. 30 seconds by default.
  ///
  /// A very long time, such as `.seconds(Int.max)`, is no limit. Then give the attempts and the checks timeouts of their own: one that hangs
  /// keeps the place of a connection.
  public var timeout: Duration = .seconds(30)
  /// How long a connection may be idle before it is closed. 60 seconds by default. Choose less than the server's own idle timeout.
  public var idleTimeout: Duration = .seconds(60)
  /// The largest number of uses of one connection, at least 1; `nil`, the default, for no limit.
  public var maximumUses: Int?
  /// The age at which a connection is used no more; `nil`, the default, for no limit. A connection in use is not interrupted. Servers
  /// behind one name or load balancer share the work again when clients connect again.
  public var maximumAge: Duration?
  /// How long a connection must have been idle to be checked before it is used again. 10 seconds by default. It has an effect only on a
  /// pool that has a check: see ``ConnectionPool/init(_:reactor:isHealthy:connect:)``.
  public var checkAfter: Duration = .seconds(10)
  /// The longest pause after connecting has failed once. It doubles with each further failure in a row. 100 milliseconds by default.
  /// Negative durations count as zero.
  ///
  /// The pause itself is random, between half of this value and all of it, so that many clients do not return at the same time.
  public var firstDelay: Duration = .milliseconds(100)
  /// The longest pause after any failure to connect. 10 seconds by default.
  public var maximumDelay: Duration = .seconds(10)

  /// Creates the options with their defaults.
  public init() {}

  /// `nil` if all values are possible.
  var problem: SocketError? {
    let tooSmall: (String, Int)? =
      if connections < 1 {
        ("connections", connections)
      } else if waitingCalls < 1 {
        ("waiting calls", waitingCalls)
      } else if let maximumUses, maximumUses < 1 {
        ("uses of a connection", maximumUses)
      } else {
        nil
      }
    return tooSmall.map { .invalid("withConnection", "\($1) \($0) are too few") }
  }
}
