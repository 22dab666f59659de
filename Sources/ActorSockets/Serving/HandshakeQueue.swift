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

struct HandshakeQueue<Connection> {
  enum Next {
    case connection(Connection)
    /// `nil` if the listener was closed without an error.
    case ended((any Error)?)
    case wait
  }

  private let limit: Int
  /// Calls to accept that are under way.
  private(set) var slots = 0
  private var handshaking: [UInt64: Connection] = [:]
  private var ready = FIFO<Connection>()
  private var end: (any Error)??

  init(limit: Int) { self.limit = limit }

  var handshakes: Int { handshaking.count }
  private var used: Int { slots + handshaking.count + ready.count }

  mutating func beginAccepting() -> Bool {
    guard end == nil, used < limit else { return false }
    slots += 1
    return true
  }

  mutating func accepted(_ connection: Connection, _ id: UInt64) {
    slots -= 1
    handshaking[id] = connection
    assert(used <= limit && slots >= 0, "a connection was accepted without a slot")
  }

  mutating func acceptEnded() {
    slots -= 1
    assert(slots >= 0, "a slot was given back twice")
  }

  /// `error` is `nil` if the listener was closed.
  mutating func listenerEnded(_ error: (any Error)?) { if end == nil { end = .some(error) } }

  mutating func succeeded(_ id: UInt64) {
    if let connection = handshaking.removeValue(forKey: id) { ready.append(connection) }
  }

  /// Returns `false` if the connection was removed before, which made the handshake fail.
  mutating func failed(_ id: UInt64) -> Bool { handshaking.removeValue(forKey: id) != nil }

  mutating func next() -> Next {
    if let connection = ready.popFirst() { return .connection(connection) }
    if let end, handshaking.isEmpty, slots == 0 { return .ended(end) }
    return .wait
  }

  mutating func abandonHandshakes() -> [Connection] {
    defer { handshaking = [:] }
    return handshaking.valuesInOrder
  }

  var undelivered: [Connection] { handshaking.valuesInOrder + ready.all }
}

extension HandshakeQueue: Sendable where Connection: Sendable {}
