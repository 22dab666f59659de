// The connections of a listener that are handed out after a handshake, from accepting to delivery.
//
//             beginAccepting        accepted           succeeded        next
//    backlog ───────────────▶ slot ─────────▶ handshaking ─────▶ ready ─────▶ delivered
//                              │                  │ failed         │
//                              │ acceptEnded      │ abandon        │ abandon
//                              ▼                  ▼                ▼
//                          free again          removed          removed
//
// Invariants:
// - Slots, handshakes and ready connections together are at most `limit`.
// - Each connection is delivered once or removed once. A handshake whose connection was removed has no effect when it ends.
// - Connections are delivered in the order in which their handshakes ended.
// - Once the listener has ended, nothing is accepted. The end is reported when no handshake runs and nothing is ready.

/// Decides which handshakes may begin, and which connection is next. It has no input or output and no clock.
struct HandshakeQueue<Connection> {
  /// The answer to a call that wants a connection.
  enum Next {
    case connection(Connection)
    /// The listener has ended: without an error, or with this one.
    case ended((any Error)?)
    /// No connection is ready yet.
    case wait
  }

  private let limit: Int
  /// Calls to accept that are under way.
  private(set) var slots = 0
  private var handshaking: [UInt64: Connection] = [:]
  private var ready = FIFO<Connection>()
  private var end: (any Error)??

  /// - Parameter limit: The most handshakes at a time; at least 1.
  init(limit: Int) { self.limit = limit }

  var handshakes: Int { handshaking.count }
  private var used: Int { slots + handshaking.count + ready.count }

  /// Takes a slot for a connection to accept.
  ///
  /// - Returns: Whether there was a slot, and the listener has not ended.
  mutating func beginAccepting() -> Bool {
    guard end == nil, used < limit else { return false }
    slots += 1
    return true
  }

  /// A connection was accepted with a slot: its handshake begins.
  mutating func accepted(_ connection: Connection, _ id: UInt64) {
    slots -= 1
    handshaking[id] = connection
    assert(used <= limit && slots >= 0, "a connection was accepted without a slot")
  }

  /// A call to accept has returned without a connection, and gives its slot back.
  mutating func acceptEnded() {
    slots -= 1
    assert(slots >= 0, "a slot was given back twice")
  }

  /// The listener has ended.
  ///
  /// - Parameter error: The error that broke it; `nil` if it was closed.
  mutating func listenerEnded(_ error: (any Error)?) { if end == nil { end = .some(error) } }

  /// A handshake is done.
  mutating func succeeded(_ id: UInt64) {
    if let connection = handshaking.removeValue(forKey: id) { ready.append(connection) }
  }

  /// A handshake has failed.
  ///
  /// - Returns: Whether its connection was still in the queue; not if it was removed, which made the handshake fail.
  mutating func failed(_ id: UInt64) -> Bool { handshaking.removeValue(forKey: id) != nil }

  /// Removes and returns the next connection whose handshake is done.
  mutating func next() -> Next {
    if let connection = ready.popFirst() { return .connection(connection) }
    if let end, handshaking.isEmpty, slots == 0 { return .ended(end) }
    return .wait
  }

  /// Removes and returns all connections whose handshakes run.
  mutating func abandonHandshakes() -> [Connection] {
    defer { handshaking = [:] }
    return handshaking.valuesInOrder
  }

  /// All connections that are not delivered.
  var undelivered: [Connection] { handshaking.valuesInOrder + ready.all }
}

extension HandshakeQueue: Sendable where Connection: Sendable {}
