// The server that several listeners of one reactor form together. Each listener has its own `Server`, which counts its connections. The
// group adds the counts up, so no number is kept twice.
//
// Invariants:
// - A listener accepts a connection only if all listeners together have fewer than the limit, and fewer of its peer than that limit.
// - A listener that finds no room, or that must let others go first, is in `waiting` once. When a connection ends, the first one in
//   `waiting` tries again, and the others only after it. So a flood at one listener does not keep out the clients of another.
// - It is used on the reactor's thread only (`ReactorBound`). The listeners' state is read there by plain calls.

internal import EpollReactor
internal import SocketSystem

final class ServeGroup {
  private let listeners: [any ServingListener]
  private let limit: Int
  /// Connections are handed to them in turn; empty to use the listeners' own.
  let reactors: [Reactor]
  private var waiting: [ObjectIdentifier] = []
  /// A signal has stopped the listeners that had taken it over by then. The others stop when they begin to serve.
  var hasStopped = false

  init(_ listeners: [any ServingListener], limit: Int, _ reactors: [Reactor]) {
    self.listeners = listeners
    self.limit = limit
    self.reactors = reactors
  }

  /// Whether the listener, whose connections count as `own`, may accept a connection now. If not, it is told later.
  func mayAccept(_ listener: any ServingListener, own: Int) -> Bool {
    let id = ObjectIdentifier(listener)
    let count = others(than: listener).reduce(own) { $0 + $1.connectionsHere }
    if count < limit, waiting.first == nil || waiting.first == id { return true }
    if !isWaiting(listener) { waiting.append(id) }
    return false
  }

  /// The connections of a peer at the other listeners.
  func connections(of peer: SocketAddress?, besideThoseOf listener: any ServingListener) -> Int {
    others(than: listener).reduce(0) { $0 + $1.connectionsHere(of: peer) }
  }

  private func others(than listener: any ServingListener) -> [any ServingListener] {
    listeners.filter { $0 !== listener }
  }

  /// The listener has used its turn, or has nothing to accept.
  func leave(_ listener: any ServingListener) {
    waiting.removeAll { $0 == ObjectIdentifier(listener) }
    roomMayBe()
  }

  func isWaiting(_ listener: any ServingListener) -> Bool { waiting.contains(ObjectIdentifier(listener)) }

  func roomMayBe() {
    guard let first = waiting.first else { return }
    listeners.first { ObjectIdentifier($0) == first }?.acceptAgain()
  }
}

extension ServingListener {
  var group: ServeGroup? { serveTask?.group?.value }

  /// Accepts a connection for the server if one waits and the limits of the group allow it.
  func acceptIfRoom() -> Connection? {
    guard let group else { return acceptNow() }
    if !group.mayAccept(self, own: server.held) { return nil }
    let connection = acceptNow()
    if let connection {
      // Behind a balancer, the peer is known when the header has arrived.
      server.connectionArrives(connection.id, from: awaitsHeaders ? nil : connection.remoteAddress)
    }
    group.leave(self)
    return connection
  }

  /// Whether the limits allow another connection of this peer.
  package func hasRoom(for peer: SocketAddress?) -> Bool {
    server.peers.hasRoom(for: peer, beside: group?.connections(of: peer, besideThoseOf: self) ?? 0)
  }

  // The group calls these on the reactor's thread, in the isolation of another listener.

  fileprivate nonisolated var connectionsHere: Int { callHere(()) { listener, _ in listener.server.heldOrArriving } }

  fileprivate nonisolated func connectionsHere(of peer: SocketAddress?) -> Int {
    callHere(peer) { listener, peer in listener.server.peers.connections(of: peer) }
  }

  fileprivate nonisolated func acceptAgain() {
    submit {
      $0.serveWaiters()
      if $0.waiters.isEmpty { $0.group?.leave($0) }
    }
  }
}
