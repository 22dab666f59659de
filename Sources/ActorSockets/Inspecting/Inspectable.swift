package import EpollReactor
internal import SocketSystem

/// An actor that says what an inspection shows of it. Called on its reactor's thread, and only when someone asks.
package protocol Inspectable: EventHandler {
  /// The type of its line, for example `connection`.
  nonisolated var inspectedType: String { get }
  /// The members of its line, without those that all lines have. `nil` hides the actor. No byte that a user reads or writes is in it.
  var inspected: [(name: String, value: JSON)]? { get }
}

extension Registration {
  /// A line about the actor whose domain this is; `nil` if it shows nothing. `number` is that of the reactor. On the reactor's thread.
  func inspectedLine(_ handler: any EventHandler, reactor number: Int) -> JSON? {
    // An actor with several sockets has an entry for each, and one of its own, which is shown.
    guard handler.executor === self, let handler = handler as? any Inspectable else { return nil }
    let age = Duration.nanoseconds(max(0, tickTime - entered))
    guard let members = handler.assumeIsolated({ $0.inspected }) else { return nil }
    return .object(
      [("type", .string(handler.inspectedType)), ("reactor", .number(number)), ("age", .seconds(age))] + members)
  }
}

extension JSON {
  static func addresses(_ addresses: [SocketAddress]) -> JSON { .array(addresses.map { .string("\($0)") }) }

  static func operation(_ what: String, age: Duration?, left: Duration?) -> JSON {
    .object([("what", .string(what)), ("age", JSON(age)), ("left", JSON(left))])
  }
}

// MARK: - Streams

extension StreamCore {
  /// What a connection of any kind shows; `nil` if a layer above shows it.
  package func inspected(_ kind: String, _ owner: any ByteStream) -> [(name: String, value: JSON)]? {
    if carriedLayer != nil { return nil }
    let status = status
    return [
      ("id", JSON(owner.id)), ("kind", .string(kind)), ("label", JSON(owner.label)),
      ("local", JSON(owner.localAddress.map { "\($0)" })), ("remote", JSON(owner.remoteAddress.map { "\($0)" })),
      ("state", .string(inspectedState(of: owner))), ("received", .number(bytesReceived)),
      ("sent", .number(bytesSent)), ("unread", .number(status.bufferedBytes)), ("unsent", .number(status.unsentBytes)),
      ("reads", .number(status.queuedReads)), ("writes", .number(status.queuedWrites)),
      ("operations", .array(pendingOperations(atMost: Inspection.mostOperations).map(\.inspected))),
      ("tcp", transport.tcpInfo?.inspected ?? .null),
    ]
  }

  private func inspectedState(of owner: any ByteStream) -> String {
    switch state {
    case .connecting: "connecting"
    case .closing: "closing"
    case .closed: "closed"
    case .open:
      switch (owner.hasPeerFinished, writes.queue.isFinished) {
      case (true, true): "finished"
      case (true, false): "peer finished"
      case (false, true): "half-closed"
      case (false, false): "open"
      }
    }
  }
}

extension PendingOperation {
  fileprivate var inspected: JSON {
    .object([
      ("what", .string(summary)), ("age", JSON(age)), ("left", JSON(timeLeft)), ("done", .number(bytesDone)),
      ("total", JSON(bytesTotal)),
    ])
  }
}

extension TCPInfo {
  fileprivate var inspected: JSON {
    .object([
      ("state", .string("\(state)")), ("rtt", .seconds(roundTripTime)), ("retransmits", .number(totalRetransmissions)),
      ("unacked", .number(unacknowledgedSegments)), ("cwnd", .number(congestionWindow)), ("unsent", JSON(bytesUnsent)),
    ])
  }
}

extension TCPConnection: Inspectable {
  package nonisolated var inspectedType: String { "connection" }

  package var inspected: [(name: String, value: JSON)]? {
    let isUnix = (localAddress ?? remoteAddress)?.isUnix ?? false
    guard var members = core.inspected(isUnix ? "unix" : "tcp", self) else { return nil }
    if let attempt = transport.attempt {
      let now = registration.reactor.now
      members.append(
        (
          "connecting",
          .operation(
            "connect to \(attempt.endpoint)", age: .nanoseconds(max(0, now - attempt.started)),
            left: attempt.timeLeft(at: now))
        ))
    }
    return members
  }
}

// MARK: - Listeners

extension Inspectable where Self: ServingListener {
  package nonisolated var inspectedType: String { "listener" }

  /// `extra` is what only this kind of listener has.
  package func inspected(_ kind: String, _ extra: [(name: String, value: JSON)]) -> [(name: String, value: JSON)] {
    let now = registration.reactor.now
    // A server waits for connections all the time.
    let accept: [JSON] =
      (server.isServing ? nil : waiters.first).map {
        [.operation("accept", age: .nanoseconds(max(0, now - $0.since)), left: nil)]
      } ?? []
    // A drain closes the sockets before its handlers have returned.
    let state =
      if server.isDraining, failure == nil || !server.active.isEmpty {
        "draining"
      } else if failure != nil {
        "closed"
      } else if server.isNoticed {
        "will drain"
      } else {
        server.isServing ? "serving" : "listening"
      }
    return [
      ("kind", .string(kind)), ("label", JSON(label)), ("addresses", .addresses(localAddresses)),
      ("state", .string(state)),
      ("handlers", .number(server.active.count)), ("closing", .number(server.closing)),
      ("lingering", .number(server.lingering.count)), ("accepted", .number(server.report.accepted)),
      ("finished", .number(server.report.finished)), ("failed", .number(server.report.failed)),
      ("failedByPeer", .number(server.report.failedByPeer)), ("refused", .number(server.report.refused)),
      ("operations", .array(accept)),
    ] + extra
  }
}

extension TCPListener: Inspectable {
  package var inspected: [(name: String, value: JSON)]? {
    // The kernel does not count the backlog of a unix socket.
    let waiting = localAddresses.first?.isUnix == true ? nil : waitingConnections().reduce(0, +)
    return inspected(
      localAddresses.first?.isUnix == true ? "unix" : "tcp",
      [("waiting", JSON(waiting)), ("waitsForRoom", .bool(waitsForRoom))])
  }
}

// MARK: - Datagrams and pools

extension UDPEndpoint: Inspectable {
  package nonisolated var inspectedType: String { "endpoint" }

  package var inspected: [(name: String, value: JSON)]? {
    let now = registration.reactor.now
    let metrics = currentMetrics
    let waiting = [
      ("receive", receives.queue.firstID.flatMap(receives.queue.tag)),
      ("send", sends.queue.firstID.flatMap(sends.queue.tag)),
    ].compactMap { what, operation in
      operation.map { operation in
        JSON.operation(
          what, age: operation.called == 0 ? nil : .nanoseconds(max(0, now - operation.called)),
          left: operation.timeLeft(at: now))
      }
    }
    return [
      ("id", JSON(id)), ("kind", .string(core.isUnix ? "unix" : "udp")), ("label", JSON(label)),
      ("local", JSON(localAddress.map { "\($0)" })), ("remote", JSON(remoteAddress.map { "\($0)" })),
      ("state", .string(lifecycle.isClosed ? "closed" : lifecycle.isClosing ? "closing" : "open")),
      ("received", JSON(metrics.bytesReceived)), ("sent", JSON(metrics.bytesSent)),
      ("datagramsReceived", JSON(metrics.datagramsReceived)), ("datagramsSent", JSON(metrics.datagramsSent)),
      ("dropped", JSON(metrics.datagramsDropped)), ("undelivered", JSON(metrics.datagramsUndelivered)),
      ("fetched", .number(metrics.fetchedAhead)), ("reads", .number(metrics.pendingReceives)),
      ("writes", .number(metrics.pendingSends)), ("handlers", .number(metrics.runningHandlers)),
      ("waiting", .number(metrics.waitingForHandler)), ("unserved", JSON(metrics.datagramsUnserved)),
      ("operations", .array(waiting)),
    ]
  }
}

extension ConnectionPool: Inspectable {
  package nonisolated var inspectedType: String { "pool" }

  package var inspected: [(name: String, value: JSON)]? {
    let metrics = state.metrics
    let now = registration.reactor.now
    let first = state.oldestCall.flatMap { timers[$0] }
    let waiting =
      first.map { timer in
        [
          JSON.operation(
            "wait for a connection", age: .nanoseconds(max(0, now - timer.start)), left: timer.timeLeft(at: now))
        ]
      } ?? []
    return [
      ("idle", .number(metrics.idle)), ("inUse", .number(metrics.inUse)), ("connecting", .number(metrics.connecting)),
      ("checking", .number(metrics.checking)), ("waiting", .number(metrics.waiting)), ("made", .number(metrics.made)),
      ("failed", .number(metrics.failed)), ("reused", .number(metrics.reused)),
      ("timedOut", .number(metrics.timedOut)), ("operations", .array(waiting)),
    ]
  }
}
