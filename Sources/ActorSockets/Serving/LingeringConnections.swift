// The connections of a server that are closing and only wait for their peers to finish: a pure value. See `LingeringClose` for why they
// wait.
//
// They do not count toward the limit of the server, because a peer that does not finish would use a part of it for two seconds. They have a
// limit of their own, so that their number stays bounded. When it is exceeded, the one that has waited longest is closed. When the next
// connection needs the descriptor of one of them, accepting waits until the oldest one has had a little time.

struct LingeringConnections<Connection> {
  /// The limit, if there are descriptors for that many.
  static var most: Int { 1_000 }
  /// How long a connection waits for its peer while the server drains, in nanoseconds.
  static var drainLimit: Int64 { 500_000_000 }

  /// How long each connection may wait for its peer although the next connection needs its descriptor, in nanoseconds.
  static var leastLimit: Int64 { 100_000_000 }

  private var connections: [UInt64: (connection: Connection, since: Int64)] = [:]
  /// The numbers in the order in which they began to wait. Those of removed connections stay until they are first.
  private var order = FIFO<UInt64>()

  var count: Int { connections.count }
  var all: [Connection] { connections.valuesInOrder.map(\.connection) }
  var oldest: (connection: Connection, since: Int64)? { order.first.flatMap { connections[$0] } }

  mutating func add(_ id: UInt64, _ connection: Connection, at now: Int64) {
    connections[id] = (connection, now)
    order.append(id)
  }

  mutating func remove(_ id: UInt64) -> Bool {
    guard connections.removeValue(forKey: id) != nil else { return false }
    while let first = order.first, connections[first] == nil { _ = order.popFirst() }
    return true
  }

  mutating func takeOldest(ifMoreThan limit: Int) -> Connection? {
    guard count > limit, let first = order.popFirst() else { return nil }
    defer { while let next = order.first, connections[next] == nil { _ = order.popFirst() } }
    return connections.removeValue(forKey: first)?.connection
  }
}

extension LingeringConnections: Sendable where Connection: Sendable {}
