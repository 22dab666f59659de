import ActorSockets
import Glibc

/// The work of the server, which answers lines, and what it knows about its connections. Replace `answer` by your own.
actor Service {
  enum State: String { case serving, handingOver = "handing over", draining }

  private struct Connection {
    var peer: String
    var since = ContinuousClock.now
    var lines = 0
  }

  nonisolated let listener: TCPListener
  nonisolated let log: Log
  /// The listening socket for the next process. `nil` when this process stops: a socket that is open in any process goes on listening,
  /// and its connections would wait for a process that does not accept them.
  private var socket: OwnedDescriptor?
  private var state = State.serving
  private var connections: [UInt64: Connection] = [:]
  private var (accepted, lines) = (0, 0)
  private let started = ContinuousClock.now

  init(_ socket: consuming OwnedDescriptor, log: Log) throws {
    listener = try TCPListener.sharing(socket)
    self.socket = consume socket
    self.log = log
  }

  // MARK: Serving

  /// Serves connections until ``drain(within:idleReads:)`` is called and the last connection has ended.
  nonisolated func serve() async throws -> ServeReport {
    try await listener.serve(.init(limits: .init(connectionsPerPeer: 1000))) { connection in
      await self.begin(connection)
      do {
        try await self.answer(connection)
        await self.end(connection)
      } catch {
        await self.end(connection)
        throw error
      }
    }
  }

  private nonisolated func answer(_ connection: TCPConnection) async throws {
    for try await line in connection.lines(maximumLength: 4096, timeout: .seconds(300)) {
      log.write(.debug, "\(connection.id): \(line.debugDescription)")
      try await connection.write(utf8: "\(getpid()): \(line)\n", timeout: .seconds(30))
      await count(connection)
    }
  }

  private func begin(_ connection: TCPConnection) {
    accepted += 1
    connections[connection.id] = Connection(peer: connection.remoteAddress?.description ?? "-")
  }

  private func count(_ connection: TCPConnection) {
    lines += 1
    connections[connection.id]?.lines += 1
  }

  private func end(_ connection: TCPConnection) { connections[connection.id] = nil }

  // MARK: Stopping

  /// Stops accepting, and gives the connections time to end.
  ///
  /// - Parameters:
  ///   - duration: The time.
  ///   - idleReads: Which reads end at once; see `Drain.IdleReads`.
  func drain(within duration: Duration, idleReads: Drain.IdleReads = .endMessages) async {
    state = .draining
    socket = nil
    await listener.drain(within: duration, idleReads: idleReads)
  }

  /// Returns a duplicate of the listening socket for the next process. This process goes on accepting meanwhile.
  func lendSocket() throws -> OwnedDescriptor {
    guard state == .serving, let number = socket?.number else { throw ControlError("the server is \(state.rawValue)") }
    let duplicate = try OwnedDescriptor(duplicating: number)
    state = .handingOver
    return duplicate
  }

  /// The next process does not take over after all.
  func keepSocket() { if state == .handingOver { state = .serving } }

  // MARK: Reporting

  var status: [String] {
    [
      "process: \(getpid())", "address: \(listener.localAddresses[0])", "state: \(state.rawValue)",
      "uptime: \(ContinuousClock.now - started)", "connections: \(connections.count) of \(accepted)", "lines: \(lines)",
      "log-level: \(log.level)",
    ]
  }

  /// The connections, the oldest first, and only as many as fit into a reply.
  var connectionList: [String] {
    connections.sorted { $0.key < $1.key }.prefix(ControlReply.mostLines).map { id, connection in
      "\(id) \(connection.peer) \(ContinuousClock.now - connection.since) \(connection.lines) lines"
    }
  }
}
