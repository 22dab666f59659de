// What a server remembers and decides: the state of `serve`, for any kind of listener. It calls no kernel, reads no clock and never
// suspends. `ServingListener` acts on it.
//
//            started            drained                  the time is over
//    idle ────────────▶ serving ────────▶ draining ─────────────────────────▶ over
//     │ ▲                                    │ all handlers have ended         │
//     │ └────────────────────────────────────┴────────────── ended ────────────┘
//     │ drained
//     ▼
//    drained early: the next `serve` returns at once
//
// A connection:
//
//    accepted ──▶ active ──(handlerEnded)──▶ closing ──(lingers)──▶ lingering ──▶ gone
//                   │                          │                        │ its descriptor or its place is needed
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
// - During a drain, at most as many connections of a socket are accepted as waited for it when the drain began, and none after it.

internal import EpollReactor
package import SocketSystem

/// The state of `serve`.
package struct Server<Connection> {
  /// How far it has come.
  private enum Phase {
    case idle
    case drainedEarly
    case serving
    case draining(Draining)
    /// The drain is over, which ended these idle reads.
    case over(Drain.IdleReads)
  }

  /// What a drain has yet to do.
  private struct Draining {
    /// Which idle reads end.
    var idleReads: Drain.IdleReads
    /// When it is over.
    var end: Int64
    /// For each socket, the number of connections that have waited to be accepted since before the drain began.
    var backlog: [Int]

    var hasBacklog: Bool { backlog.contains { $0 > 0 } }
  }

  private var phase = Phase.idle
  private(set) var report = ServeReport()
  private var limit = 1
  /// The descriptors that connections may have: see `DescriptorReserve`.
  var descriptors = Int.max
  /// The connections whose handlers run, or are about to.
  private(set) var active: [UInt64: Connection] = [:]
  var peers = PeerCounts(limit: nil)
  /// The number of connections whose handler has ended and which are being closed. They still count toward the limit.
  private(set) var closing = 0
  /// The connections whose handler has ended, whose bytes are sent, and which wait for their peers to finish.
  private(set) var lingering = LingeringConnections<Connection>()
  /// A connection is being accepted for a handler.
  private var isAccepting = false

  package init() {}

  // MARK: Beginning and ending

  /// Whether a call of `serve` runs.
  var isServing: Bool {
    switch phase {
    case .idle, .drainedEarly: false
    case .serving, .draining, .over: true
    }
  }

  var isDrainedEarly: Bool {
    if case .drainedEarly = phase { true } else { false }
  }

  /// Whether a drain has begun.
  package var isDraining: Bool {
    switch phase {
    case .idle, .drainedEarly, .serving: false
    case .draining, .over: true
    }
  }

  /// Whether the drain still has to accept connections that waited when it began.
  var hasBacklog: Bool {
    if case .draining(let draining) = phase { draining.hasBacklog } else { false }
  }

  /// Begins to serve.
  ///
  /// - Parameters:
  ///   - limits: How many connections to handle at a time.
  ///   - descriptors: The number of descriptors that connections may have.
  mutating func started(_ limits: ServeLimits, descriptors: Int) {
    assert(!isServing, "a listener is served once at a time")
    self = Server()
    phase = .serving
    limit = limits.connections
    self.descriptors = descriptors
    peers = PeerCounts(limit: limits.connectionsPerPeer)
  }

  /// The listener is drained, maybe not for the first time. The earliest end counts, and the drain that ends most idle reads.
  ///
  /// - Parameters:
  ///   - drain: How to drain.
  ///   - now: The time.
  ///   - waiting: Returns the number of connections that wait to be accepted, for each socket.
  /// - Returns: When the drain is over; `nil` if it is over now, or if no call of `serve` runs.
  mutating func drained(_ drain: Drain, at now: Int64, waiting: () -> [Int]) -> Int64? {
    let end = instant(now, plus: drain.nanoseconds)
    var draining: Draining
    switch phase {
    case .idle:
      phase = .drainedEarly
      return nil
    case .drainedEarly, .over: return nil
    case .serving:
      draining = Draining(idleReads: drain.idleReads, end: end, backlog: end > now ? waiting() : [])
    case .draining(let earlier):
      draining = earlier
      draining.idleReads = max(earlier.idleReads, drain.idleReads)
      draining.end = min(earlier.end, end)
    }
    phase = .draining(draining)
    if draining.end > now { return draining.end }
    drainIsOver()
    return nil
  }

  /// The time of the drain is over: nothing more is accepted, and handlers are waited for no longer.
  mutating func drainIsOver() {
    if isServing { phase = .over(idleReads ?? .wait) }
  }

  /// The listener was closed, or broke, so that nothing waits to be accepted any more.
  mutating func listeningEnded() {
    guard case .draining(var draining) = phase else { return }
    draining.backlog = []
    phase = .draining(draining)
  }

  /// `serve` returns.
  mutating func ended() {
    assert(active.isEmpty, "a server ended with connections that are not counted")
    phase = .idle
  }

  // MARK: What to do next

  /// What the accepting loop does next.
  enum Step {
    /// Accept a connection, and report `accepted` or `acceptFailed`.
    case accept
    /// Wait for a change. If there is a connection, the next one needs its descriptor: it has waited for its peer since that time.
    case wait(forDescriptorOf: (connection: Connection, since: Int64)?)
    /// Nothing more is accepted.
    case stop
  }

  mutating func step() -> Step {
    if isDraining, !hasBacklog { return .stop }
    if counted >= limit || needsDescriptor {
      return .wait(forDescriptorOf: needsDescriptor ? lingering.oldest : nil)
    }
    isAccepting = true
    return .accept
  }

  /// Whether the loop still has to wait for connections, after `step` was `stop`.
  var hasConnections: Bool {
    if case .over = phase { return false }
    return !active.isEmpty || closing > 0 || lingering.count > 0
  }

  /// The number of connections that count toward the limit.
  private var counted: Int { active.count + closing + (isAccepting ? 1 : 0) }

  /// Another connection would need the descriptor of one that waits for its peer.
  private var needsDescriptor: Bool { lingering.count > 0 && counted + lingering.count >= descriptors }

  // MARK: Accepting

  /// Whether a connection of the listener's socket with this index may be accepted.
  package func mayTakeConnection(of index: Int) -> Bool {
    switch phase {
    case .idle, .drainedEarly, .serving: true
    case .draining(let draining): draining.backlog.indices.contains(index) && draining.backlog[index] > 0
    case .over: false
    }
  }

  /// A connection of the listener's socket with this index was accepted, or is gone.
  package mutating func tookConnection(of index: Int) {
    guard case .draining(var draining) = phase, draining.backlog.indices.contains(index) else { return }
    draining.backlog[index] -= 1
    phase = .draining(draining)
  }

  /// Whether the peer with this address may have another connection.
  package func hasRoom(for peer: SocketAddress?) -> Bool { peers.hasRoom(for: peer) }

  /// A connection of the listener's socket with this index was reset in place of being accepted.
  package mutating func refusedConnection(of index: Int) {
    tookConnection(of: index)
    report.refused += 1
  }

  /// A connection was accepted for a handler.
  ///
  /// - Parameters:
  ///   - connection: The connection.
  ///   - id: Its number.
  ///   - peer: The address of its peer; `nil` if it has no address, or if a header says it later.
  /// - Returns: Which of its idle reads end; `nil` if the server does not drain.
  mutating func accepted(_ connection: Connection, _ id: UInt64, from peer: SocketAddress?) -> Drain.IdleReads? {
    isAccepting = false
    report.accepted += 1
    active[id] = connection
    peers.enter(id, from: peer)
    return idleReads
  }

  /// No connection was accepted.
  mutating func acceptFailed() { isAccepting = false }

  /// Which idle reads end; `nil` if the server does not drain.
  var idleReads: Drain.IdleReads? {
    switch phase {
    case .idle, .drainedEarly, .serving: nil
    case .draining(let draining): draining.idleReads
    case .over(let idleReads): idleReads
    }
  }

  // MARK: The ends of connections

  /// How a handler ended.
  enum HandlerEnd {
    case finished
    case failed
    case failedByPeer
  }

  /// A handler has ended, and its connection is being closed. A connection that was aborted was already counted.
  ///
  /// - Returns: Whether it is counted now.
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

  /// A connection that closes has sent everything, and waits for its peer to finish.
  mutating func lingers(_ connection: Connection, _ id: UInt64, since now: Int64) {
    closing -= 1
    lingering.add(id, connection, at: now)
  }

  /// Returns the connection that has waited longest for its peer, if more than `limit` wait. It is to be closed now, and has its
  /// descriptor until then.
  mutating func takeLingering(ifMoreThan limit: Int) -> Connection? {
    guard let connection = lingering.takeOldest(ifMoreThan: limit) else { return nil }
    closing += 1
    return connection
  }

  /// A connection whose handler has ended is closed, or still closes in the background because the drain is over.
  mutating func closed(_ id: UInt64) {
    if !lingering.remove(id) { closing -= 1 }
    peers.leave(id)
  }

  /// Returns the connections whose handlers have not ended, which are to be aborted.
  mutating func takeRemaining() -> [Connection] {
    report.aborted += active.count
    defer { active = [:] }
    return active.valuesInOrder
  }
}

extension Server: Sendable where Connection: Sendable {}
