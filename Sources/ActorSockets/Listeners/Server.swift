// What a server remembers: the state of `serve`, for any kind of listener. `ServingListener` acts on it.
//
// Invariants:
// - A connection is in `active` from its acceptance to the end of its handler, or until the drain is over. Each one that was
//   accepted leaves `active` once, and is counted once in the report then: as finished, failed, failed by its peer, or aborted.
// - It counts among the connections of its peer from the time at which the peer is known until it is closed.
// - The connections in `active`, those that are closing, and the one that is being accepted are never more than the limit. Those that
//   are closing and only wait for their peers to finish are in `lingering`, and do not count. They have a limit of their own, and no
//   connection is accepted while these and those that count have all descriptors.
// - During a drain, at most as many connections of a socket are accepted as waited for it when the drain began.

internal import EpollReactor
package import SocketSystem

/// The state of `serve`.
package struct Server<Connection: ServedConnection> {
  package init() {}

  var isServing = false
  /// The listener was drained before it was served, so `serve` returns at once.
  var wasDrained = false
  package var isDraining = false
  /// How long handlers may continue when the server stops.
  var drain = TCPListener.Drain.immediately
  /// Which idle reads end while the server drains.
  var idleReads = TCPListener.Drain.IdleReads.wait
  /// The signals that stop the server, and how many of them have arrived.
  var stopSignals: SignalSubscription?
  var stopSignalsSeen = 0
  /// Hears of errors of handlers.
  var handlerFailed: (@Sendable (Connection, any Error) -> Void)?
  var report = TCPListener.ServeReport()
  var limits = TCPListener.ServeLimits(connections: 1)
  /// The reactors that connections are handed to in turn; empty to use the listener's own.
  var reactors: [Reactor] = []
  private var nextReactor = 0
  /// The connections whose handlers run, or are about to.
  var active: [UInt64: Connection] = [:]
  var peers = PeerCounts(limit: nil)
  /// The number of connections whose handler has ended and which are being closed. They still count toward the limit.
  var closing = 0
  /// The connections whose handler has ended, whose bytes are sent, and which wait for their peers to finish.
  var lingering = LingeringConnections<Connection>()
  /// The descriptors that connections may have: see `DescriptorReserve`.
  var descriptors = Int.max
  /// The accepting loop awaits a connection, or has one that is not in `active` yet.
  var isAccepting = false
  /// For each socket, the number of connections that have waited to be accepted since before the drain began.
  var backlog: [Int] = []
  var drainDeadline: DeadlineKey?
  var drainEnd: Int64 = .max
  var isOverdue = false
  /// The accepting loop, which waits for room or for the end of the drain.
  var waiter: Suspension?

  /// The number of connections that count toward the limit.
  private var counted: Int { active.count + closing + (isAccepting ? 1 : 0) }

  /// No connection may be accepted now.
  var isFull: Bool { counted >= limits.connections || needsDescriptor }

  /// Another connection would need the descriptor of one that waits for its peer.
  var needsDescriptor: Bool { lingering.count > 0 && counted + lingering.count >= descriptors }

  /// Whether the drain still has to accept connections that waited when it began.
  var hasBacklog: Bool { backlog.contains { $0 > 0 } }

  /// Whether a connection of the listener's socket with this index may be accepted.
  package func mayTakeConnection(of index: Int) -> Bool {
    !isDraining || backlog.indices.contains(index) && backlog[index] > 0
  }

  /// A connection of the listener's socket with this index was accepted, or is gone.
  package mutating func tookConnection(of index: Int) {
    if backlog.indices.contains(index) { backlog[index] -= 1 }
  }

  /// Whether the peer with this address may have another connection.
  package func hasRoom(for peer: SocketAddress?) -> Bool { peers.hasRoom(for: peer) }

  /// A connection of the listener's socket with this index was reset in place of being accepted.
  package mutating func refusedConnection(of index: Int) {
    tookConnection(of: index)
    report.refused += 1
  }

  /// Returns the reactor for the next connection, in turn; `nil` for the listener's own.
  mutating func takeReactor() -> Reactor? {
    if reactors.isEmpty { return nil }
    defer { nextReactor = (nextReactor + 1) % reactors.count }
    return reactors[nextReactor]
  }
}
