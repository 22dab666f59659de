import ActorSockets

/// Receives messages and sends them to the clients that have subscribed.
///
/// The broker writes with `enqueueWrite`, which does not wait. So a message goes to all its clients in one step, and every client gets
/// the messages in the same order. A client that receives too slowly is aborted: see ``connectionConfiguration``.
actor MQTTBroker {
  struct Limits: Sendable {
    /// The largest number of bytes of a packet.
    var packetLength = 1 << 20
    /// How long a client may take to introduce itself.
    var connect: Duration = .seconds(10)
    /// The largest number of messages that wait for a client.
    var waitingMessages = 1000
    /// The largest number of subscriptions of a client.
    var subscriptions = 1000
    /// The largest number of topics with a retained message.
    var retainedMessages = 10_000
    /// The largest number of sessions whose client is not connected.
    var sleepingSessions = 10_000
  }

  private struct Client {
    var session: MQTTSession
    /// The connection; `nil` if the session waits for its client.
    var connection: (any ByteStream)?
    var isClean: Bool
    var will: MQTTMessage?
  }

  nonisolated let limits: Limits
  private let authorize: @Sendable (MQTTConnect) -> Bool
  private var clients: [String: Client] = [:]
  private var retained: [String: MQTTMessage] = [:]

  /// Creates a broker.
  ///
  /// - Parameters:
  ///   - limits: What clients may use.
  ///   - authorize: Decides who may connect.
  init(limits: Limits = .init(), authorize: @escaping @Sendable (MQTTConnect) -> Bool = { _ in true }) {
    self.limits = limits
    self.authorize = authorize
  }

  /// The settings for connections: a client for which more than 4 MiB wait is aborted, so that it misses nothing in silence.
  static var connectionConfiguration: TCPConnection.Configuration {
    var configuration = TCPConnection.Configuration()
    configuration.writeBudget = 4 << 20
    configuration.onWriteOverflow = .abort
    return configuration
  }

  // MARK: Clients come and go

  /// Begins or continues the session of a client. An earlier connection of the same client ends.
  ///
  /// - Returns: Whether an earlier session continues.
  /// - Throws: `MQTTConnect.Refusal`.
  func connect(_ request: MQTTConnect, on connection: any ByteStream) async throws -> Bool {
    guard authorize(request) else { throw MQTTConnect.Refusal.notAuthorized }
    let old = clients[request.clientID]
    var client = Client(
      session: MQTTSession(limit: limits.waitingMessages, subscriptions: limits.subscriptions), connection: connection,
      isClean: request.isClean, will: request.will)
    let continues = old.map { !$0.isClean && !request.isClean } ?? false
    if continues, let old { client.session = old.session }
    clients[request.clientID] = client
    send(MQTTPacket(kind: .connectAcknowledged, body: [continues ? 1 : 0, 0]), to: connection)
    for (identifier, message) in client.session.unacknowledged {
      send(message.packet(identifier: identifier, isRepeated: true), to: connection)
    }
    if let old {
      if let will = old.will, old.connection != nil { publish(will) }
      await old.connection?.abort()
    }
    return continues
  }

  /// Ends a connection.
  ///
  /// - Parameters:
  ///   - clientID: The client.
  ///   - connection: The connection.
  ///   - saidGoodbye: Whether the client has sent DISCONNECT.
  func disconnect(_ clientID: String, from connection: any ByteStream, saidGoodbye: Bool) {
    // A newer connection of the same client has taken over.
    guard var client = clients[clientID], client.connection?.id == connection.id else { return }
    let will = saidGoodbye ? nil : client.will
    client.connection = nil
    client.will = nil
    let sleeping = clients.values.count { $0.connection == nil }
    clients[clientID] = client.isClean || sleeping >= limits.sleepingSessions ? nil : client
    if let will { publish(will) }
  }

  // MARK: Messages

  /// Sends a message to everyone who has subscribed, and keeps it if it is to be retained.
  func publish(_ message: MQTTMessage) {
    if message.isRetained {
      // An empty message removes the one that was kept.
      if message.payload.isEmpty {
        retained[message.topic] = nil
      } else if retained[message.topic] != nil || retained.count < limits.retainedMessages {
        retained[message.topic] = message
      }
    }
    var message = message
    message.isRetained = false
    for clientID in clients.keys { deliver(message, to: clientID) }
  }

  /// Adds subscriptions, and sends the retained messages that match them.
  func subscribe(_ clientID: String, _ packet: MQTTPacket, on connection: any ByteStream) throws {
    let (identifier, wanted) = try MQTTSubscription.parseSubscribe(packet)
    guard clients[clientID]?.connection?.id == connection.id else { return }
    var results: [UInt8] = []
    for (filter, quality) in wanted {
      let isValid = MQTTTopic.isValid(filter: filter)
      results.append(isValid ? clients[clientID]?.session.subscribe(to: filter, quality: quality) ?? 0x80 : 0x80)
    }
    send(
      MQTTPacket(kind: .subscribeAcknowledged, body: [UInt8(identifier >> 8), UInt8(identifier & 255)] + results),
      to: connection)
    for message in retained.values where wanted.contains(where: { MQTTTopic.matches($0.filter, message.topic) }) {
      deliver(message, to: clientID)
    }
  }

  func unsubscribe(_ clientID: String, _ packet: MQTTPacket, on connection: any ByteStream) throws {
    let (identifier, filters) = try MQTTSubscription.parseUnsubscribe(packet)
    for filter in filters { clients[clientID]?.session.unsubscribe(from: filter) }
    send(MQTTPacket(.unsubscribeAcknowledged, identifier: identifier), to: connection)
  }

  func acknowledge(_ clientID: String, _ identifier: UInt16) { clients[clientID]?.session.acknowledge(identifier) }

  /// Publishes a message of quality 2, unless it was published when it arrived for the first time.
  func publishOnce(_ message: MQTTMessage, _ identifier: UInt16, from clientID: String) {
    if clients[clientID]?.session.note(received: identifier) == true { publish(message) }
  }

  func release(_ clientID: String, _ identifier: UInt16) { clients[clientID]?.session.release(identifier) }

  private func deliver(_ message: MQTTMessage, to clientID: String) {
    guard let client = clients[clientID], let delivery = client.session.delivery(of: message) else { return }
    guard let packet = clients[clientID]?.session.packet(for: delivery) else { return }
    if let connection = client.connection { send(packet, to: connection) }
  }

  /// Sends without waiting. If the connection has ended, its handler finds out.
  private func send(_ packet: MQTTPacket, to connection: any ByteStream) {
    _ = try? connection.enqueueWrite(message: packet)
  }
}
