import ActorSockets
import Foundation

/// A client that any number of tasks share. Their calls run at the same time on one connection.
///
/// The client connects with the first call, and again with the next call after the connection was lost. ``close()`` ends it.
actor RPCClient {
  struct Configuration: Sendable {
    var limits = RPCLimits()
    /// How long a call may take by default, with connecting.
    var timeout: Duration = .seconds(30)
    /// How connecting is repeated.
    var retry = TCPConnection.Retry()
    /// The largest number of calls that wait for a connection, or for their turn.
    var waitingCalls = 10_000

    var connection: TCPConnection.Configuration {
      var configuration = TCPConnection.Configuration()
      configuration.retry = retry
      // The server reads too slowly if more waits than it takes at a time.
      configuration.writeBudget = limits.length * (limits.calls + 1)
      configuration.onWriteOverflow = .abort
      return configuration
    }
  }

  /// A call that has no outcome yet.
  private struct Call {
    let method: String
    let isRepeatable: Bool
    let argument: [UInt8]
    let end: ContinuousClock.Instant
    let outcome: CheckedContinuation<RPCPacket, any Error>
    /// Where it was sent; `nil` while it waits.
    var place: (connection: UInt64, id: UInt64)?
    /// How often it was sent, or lost its connection before.
    var tries = 0
  }

  /// A connection after its hello. A server that stops answers the calls of an old one while a new one is in use.
  private struct Link {
    let connection: TCPConnection
    let limit: Int
    let length: Int
    var lastID: UInt64 = 0
    /// The numbers of the calls that the server has not answered, by their ids. Some have ended here: they were cancelled.
    var unanswered: [UInt64: UInt64] = [:]
  }

  private static let mostTries = 3

  nonisolated let server: Endpoint
  nonisolated let configuration: Configuration
  private var calls: [UInt64: Call] = [:]
  private var lastCall: UInt64 = 0
  /// The calls that were not sent, the first one first.
  private var waiting: [UInt64] = []
  private var links: [UInt64: Link] = [:]
  /// The link for new calls.
  private var current: UInt64?
  private var connecting: Task<Void, Never>?
  private var isClosed = false

  init(_ server: Endpoint, configuration: Configuration = .init()) {
    (self.server, self.configuration) = (server, configuration)
  }

  /// Calls a method, and waits for its value.
  ///
  /// *Cancellation*, and the end of the time, cancel the call on the server, too.
  ///
  /// - Parameters:
  ///   - method: The method.
  ///   - argument: Its argument.
  ///   - timeout: How long the call may take, with connecting; `nil` for the time of the configuration. The server knows it.
  /// - Returns: The value.
  /// - Throws: `RPCFailure` from the server, or with the codes `.timedOut`, `.tooLong`, `.busy` and `.version`; `SocketError` if the server
  ///   cannot be reached, or if the connection is lost. In the latter case it is not known whether the call was carried out.
  nonisolated func call<Argument, Value>(
    _ method: RPCMethod<Argument, Value>, _ argument: Argument, timeout: Duration? = nil
  ) async throws -> Value {
    let end = ContinuousClock.now + (timeout ?? configuration.timeout)
    let content = Array(try JSONEncoder().encode(argument))
    let answer = try await perform(method.name, isRepeatable: method.isRepeatable, content, until: end)
    return try answer.content(as: Value.self)
  }

  /// Ends all connections. Calls throw from now on.
  func close() async {
    isClosed = true
    connecting?.cancel()
    for call in Array(calls.keys) { finish(call, .failure(SocketError(.closed, operation: "call"))) }
    for link in links.values { await link.connection.close() }
  }

  // MARK: Calls

  private func perform(
    _ method: String, isRepeatable: Bool, _ argument: [UInt8], until end: ContinuousClock.Instant
  ) async throws -> RPCPacket {
    if isClosed { throw SocketError(.closed, operation: "call", detail: "the client is closed") }
    if waiting.count >= configuration.waitingCalls { throw RPCFailure(.busy, "\(waiting.count) calls are waiting") }
    lastCall += 1
    let number = lastCall
    let clock = Task {
      try await Task.sleep(until: end, clock: .continuous)
      self.giveUp(number, RPCFailure(.timedOut, "there is no answer to \(method) in time"))
    }
    defer { clock.cancel() }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { outcome in
        calls[number] = Call(method: method, isRepeatable: isRepeatable, argument: argument, end: end, outcome: outcome)
        waiting.append(number)
        sendWaiting()
      }
    } onCancel: {
      Task { await self.giveUp(number, CancellationError()) }
    }
  }

  /// Ends a call that has not been answered.
  private func giveUp(_ number: UInt64, _ error: any Error) {
    if let (connection, id) = calls[number]?.place {
      _ = try? links[connection]?.connection.enqueueWrite(message: RPCMessage(.cancel(id: id)))
    }
    finish(number, .failure(error))
  }

  private func finish(_ number: UInt64, _ result: Result<RPCPacket, any Error>) {
    guard let call = calls.removeValue(forKey: number) else { return }
    if call.place == nil { waiting.removeAll { $0 == number } }
    call.outcome.resume(with: result)
  }

  /// Sends as many of the calls that wait as the server takes. Connects first if there is no connection.
  private func sendWaiting() {
    guard !waiting.isEmpty, connecting == nil, !isClosed else { return }
    guard let current else { return connecting = Task { await self.connect() } }
    while let link = links[current], link.unanswered.count < link.limit, let number = waiting.first {
      send(number, on: link)
    }
  }

  private func send(_ number: UInt64, on link: Link) {
    guard let call = calls[number] else { return }
    let id = link.lastID + 1
    let milliseconds = Int64(max(.zero, call.end - .now) / .milliseconds(1))
    let message = RPCMessage(.call(id: id, method: call.method, milliseconds: milliseconds), content: call.argument)
    do {
      _ = link.connection.enqueueWrite(try message.encoded(atMost: link.length))
      waiting.removeFirst()
      calls[number]?.place = (link.connection.id, id)
      calls[number]?.tries += 1
      links[link.connection.id]?.lastID = id
      links[link.connection.id]?.unanswered[id] = number
    } catch {
      finish(number, .failure(error))
    }
  }

  /// Sends a call again that was not carried out, or that may be carried out twice.
  private func sendAgain(_ number: UInt64, after error: any Error) {
    guard let call = calls[number] else { return }
    if call.tries >= Self.mostTries { return finish(number, .failure(error)) }
    calls[number]?.place = nil
    waiting.insert(number, at: waiting.firstIndex { $0 > number } ?? waiting.endIndex)
  }

  // MARK: Connections

  /// Connects, and receives answers until the connection ends.
  private func connect() async {
    let link: Link
    do {
      link = try await greet()
    } catch {
      connecting = nil
      // A server that stops may still accept a connection, and then resets it. That costs each call a try.
      let isLost = SocketError.isCausedByPeer(error)
      for number in waiting {
        calls[number]?.tries += isLost ? 1 : Self.mostTries
        if let tries = calls[number]?.tries, tries >= Self.mostTries { finish(number, .failure(error)) }
      }
      return sendWaiting()
    }
    connecting = nil
    let connection = link.connection
    if isClosed { return await connection.abort() }
    links[connection.id] = link
    current = connection.id
    sendWaiting()
    do {
      while let packet = try await RPCPacket.read(from: connection, configuration.limits) {
        try receive(packet, from: connection.id)
      }
      lose(connection.id, SocketError(.endOfStream, operation: "call", detail: "the server ended the connection"))
      await connection.close()
    } catch {
      lose(connection.id, error)
      // After close(), the connection is closing cleanly.
      if !isClosed { await connection.abort() }
    }
  }

  private func greet() async throws -> Link {
    let limits = configuration.limits
    let connection = try await TCPConnection.connect(to: server, configuration: configuration.connection)
    do {
      try await connection.write(message: limits.greeting, timeout: .after(limits.hello))
      let first = try await RPCPacket.read(from: connection, limits, idle: .after(limits.hello))
      guard case .hello(let version, let calls, let length)? = first?.head else {
        throw RPCPacket.violation("the server must begin with hello")
      }
      guard version == RPCHead.version else {
        throw RPCFailure(.version, "the server speaks version \(version), this client version \(RPCHead.version)")
      }
      return Link(connection: connection, limit: max(1, min(calls, limits.calls)), length: min(length, limits.length))
    } catch {
      await connection.abort()
      throw error
    }
  }

  private func receive(_ packet: RPCPacket, from connection: UInt64) throws {
    switch packet.head {
    case .answer(let id): finish(try answered(id, on: connection), .success(packet))
    case .failure(let id, let reason): finish(try answered(id, on: connection), .failure(reason))
    case .goodbye(let last):
      if current == connection { current = nil }
      let late = links[connection]?.unanswered.filter { $0.key > last } ?? [:]
      for (id, number) in late {
        links[connection]?.unanswered[id] = nil
        sendAgain(number, after: RPCFailure(.unavailable, "the server stops"))
      }
    default: throw RPCPacket.violation("a server answers calls")
    }
    sendWaiting()
  }

  /// Notes that the server has answered. Returns the number of the call.
  private func answered(_ id: UInt64, on connection: UInt64) throws -> UInt64 {
    guard let number = links[connection]?.unanswered.removeValue(forKey: id) else {
      throw RPCPacket.violation("the server answers the call \(id), which does not wait for it")
    }
    return number
  }

  /// Ends the calls of a connection that has ended. Those that may be carried out twice are sent again.
  private func lose(_ connection: UInt64, _ error: any Error) {
    if current == connection { current = nil }
    guard let link = links.removeValue(forKey: connection) else { return }
    for number in link.unanswered.values {
      if calls[number]?.isRepeatable == true {
        sendAgain(number, after: error)
      } else {
        finish(number, .failure(error))
      }
    }
    sendWaiting()
  }
}
