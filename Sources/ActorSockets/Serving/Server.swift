// The state and the decisions of `serve`, for any kind of listener. It calls no kernel, reads no clock and never suspends.
// `ServingListener` acts on it. `ServePhase` says how it stops.
//
// A connection:
//
//    accepted ──▶ active ──(handlerEnded)──▶ closing ──(lingers)──▶ lingering ──▶ gone
//                   │                          │                        │ its descriptor is needed, or too many linger
//                   │ the drain is over        └──(closed)──▶ gone      ▼
//                   ▼                                                 closing
//                 aborted
//
// Invariants:
// - A connection is in `active` from its acceptance to the end of its handler, or until the drain is over. Each one that was
//   accepted leaves `active` once, and is counted once in the report then: as finished, failed, failed by its peer, or aborted.
// - It counts among the connections of its peer from the time at which the peer is known until it is closed.
// - No connection is accepted while those in `active`, those that are closing, and the one that is being accepted reach the limit. Those
//   that are closing and only wait for their peers to finish are in `lingering`, and do not count. They have a limit of their own, and no
//   connection is accepted while these and those that count have all descriptors.
// - During a drain, at most as many connections of a socket are accepted as waited for it when the drain began. After it, no connection is
//   accepted.

internal import EpollReactor
internal import SocketSystem

package struct Server<Connection> {
  /// The backlog is, for each socket, the number of connections that have waited to be accepted since before the drain began.
  private var phase = ServePhase<[Int]>()
  private(set) var report = ServeReport()
  private var limit = 1
  /// The descriptors that connections may have: see `DescriptorReserve`.
  var descriptors = Int.max
  private(set) var active: [UInt64: Connection] = [:]
  var peers = PeerCounts(limit: nil)
  private(set) var closing = 0
  private(set) var lingering = LingeringConnections<Connection>()
  private var accepting = Accepting.none

  private enum Accepting {
    case none
    case waiting
    /// The connection is accepted, and will be reported.
    case arriving
  }

  package init() {}

  // MARK: Beginning and ending

  var isServing: Bool { phase.isServing }
  var isDrainedEarly: Bool { phase.isDrainedEarly }
  package var isDraining: Bool { phase.isDraining }
  /// Which idle reads end; `nil` if the server does not drain.
  var idleReads: Drain.IdleReads? { phase.idleReads }
  /// See `ServePhase.isNoticed`.
  var isNoticed: Bool { phase.isNoticed }
  /// Whether a drain still has to accept connections that waited when it began.
  var hasBacklog: Bool { phase.backlog?.contains { $0 > 0 } ?? false }

  mutating func started(_ limits: ServeLimits, descriptors: Int) {
    self = Server()
    phase.started()
    limit = limits.connections
    self.descriptors = descriptors
    peers = PeerCounts(limit: limits.connectionsPerPeer)
  }

  /// See `ServePhase.drained`.
  mutating func drained(_ drain: Drain, at now: Int64, waiting: () -> [Int]) -> Int64? {
    phase.drained(drain, at: now, waiting: waiting)
  }

  /// See `ServePhase.noticeIsOver`.
  mutating func noticeIsOver(at now: Int64, waiting: () -> [Int]) -> Int64? {
    phase.noticeIsOver(at: now, waiting: waiting)
  }

  mutating func drainIsOver() { phase.drainIsOver() }

  /// The listener was closed, or broke, so nothing waits to be accepted any more, and a notice is over. Then it returns when the drain is
  /// over, as `drained` does.
  mutating func listeningEnded(at now: Int64) -> Int64? {
    phase.changeBacklog { $0 = [] }
    return phase.noticeIsOver(at: now) { [] }
  }

  mutating func ended() {
    assert(active.isEmpty, "a server ended with connections that are not counted")
    phase.ended()
  }

  // MARK: What to do next

  enum Step {
    /// Accept a connection, and report `accepted` or `acceptFailed`.
    case accept
    /// If there is a connection, the next one needs its descriptor: it has waited for its peer since that time.
    case wait(forDescriptorOf: (connection: Connection, since: Int64)?)
    case stop
  }

  mutating func step() -> Step {
    if isDraining, !hasBacklog { return .stop }
    if counted >= limit || needsDescriptor {
      return .wait(forDescriptorOf: needsDescriptor ? lingering.oldest : nil)
    }
    accepting = .waiting
    return .accept
  }

  /// After `step` was `stop`: whether the loop still has to wait for connections.
  var hasConnections: Bool {
    !phase.isOver && (!active.isEmpty || closing > 0 || lingering.count > 0)
  }

  /// The connections that count toward the limit, without the one that is being accepted.
  var held: Int { active.count + closing }
  var heldOrArriving: Int { held + (accepting == .arriving ? 1 : 0) }
  private var counted: Int { held + (accepting == .none ? 0 : 1) }

  /// Another connection would need the descriptor of one that waits for its peer.
  private var needsDescriptor: Bool { lingering.count > 0 && counted + lingering.count >= descriptors }

  // MARK: Accepting

  /// `index` is that of the listener's socket.
  package func mayTakeConnection(of index: Int) -> Bool {
    if let backlog = phase.backlog { return backlog.indices.contains(index) && backlog[index] > 0 }
    return !phase.isOver
  }

  /// Also for a connection that was refused, or that its peer aborted before.
  package mutating func tookConnection(of index: Int) {
    phase.changeBacklog { if $0.indices.contains(index) { $0[index] -= 1 } }
  }

  package mutating func refusedConnection(of index: Int) {
    tookConnection(of: index)
    report.refused += 1
  }

  /// `peer` is `nil` if it has no address, or if a header says it later. Returns which of the connection's idle reads end; `nil` if the
  /// server does not drain.
  mutating func accepted(_ connection: Connection, _ id: UInt64, from peer: SocketAddress?) -> Drain.IdleReads? {
    accepting = .none
    report.accepted += 1
    active[id] = connection
    peers.enter(id, from: peer)
    return idleReads
  }

  mutating func acceptFailed() { accepting = .none }

  /// The connection that the server accepts is here. `accepted` follows. Servers of the same group count it from now on.
  mutating func connectionArrives(_ id: UInt64, from peer: SocketAddress?) {
    accepting = .arriving
    peers.enter(id, from: peer)
  }

  // MARK: The ends of connections

  /// Returns whether the connection is counted now. One that was aborted was already counted.
  mutating func handlerEnded(_ id: UInt64, _ end: HandlerEnd) -> Bool {
    closing += 1
    guard active.removeValue(forKey: id) != nil else { return false }
    switch end {
    case .finished: report.finished += 1
    case .failed: report.failed += 1
    case .failedByPeer: report.failedByPeer += 1
    }
    return true
  }

  mutating func lingers(_ connection: Connection, _ id: UInt64, since now: Int64) {
    closing -= 1
    lingering.add(id, connection, at: now)
  }

  /// The caller closes the connection, which counts toward the limit again until it is closed.
  mutating func takeLingering(ifMoreThan limit: Int) -> Connection? {
    guard let connection = lingering.takeOldest(ifMoreThan: limit) else { return nil }
    closing += 1
    return connection
  }

  /// The connection is closed, or still closes in the background because the drain is over.
  mutating func closed(_ id: UInt64) {
    if !lingering.remove(id) { closing -= 1 }
    peers.leave(id)
  }

  mutating func takeRemaining() -> [Connection] {
    report.aborted += active.count
    defer { active = [:] }
    return active.valuesInOrder
  }
}

extension Server: Sendable where Connection: Sendable {}
