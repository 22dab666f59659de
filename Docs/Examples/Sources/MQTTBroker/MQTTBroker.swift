import ActorSockets
import ByteText

/// Receives messages and sends them to the clients that have subscribed.
///
/// The broker writes with `enqueueWrite`, which does not wait. So a message goes to all its clients in one step, and every client gets
/// the messages in the same order. A client that receives too slowly is aborted: see ``connectionConfiguration``.
actor MQTTBroker {
  struct Limits: Sendable {
    /// The largest number of bytes of a packet.
    var packetLength = 1 << 20
    /// The largest number of bytes of a client's name.
    var clientIDLength = 1024
    /// How long a client may take to introduce itself.
    var connect: Duration = .seconds(10)
    /// The limits of one client's session.
    var session = MQTTSession.Limits()
    /// The largest number of bytes that wait for all clients together, with the filters of their subscriptions.
    var sessionBytes = 256 << 20
    /// The largest number of sessions whose client is not connected.
    var sleepingSessions = 10_000
    /// The limits of retained messages.
    var retained = MQTTRetained.Limits()
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
  private var clients: [ByteText: Client] = [:]
  private var retained: MQTTRetained
  /// The bytes of all sessions.
  private(set) var sessionBytes = 0

  /// Creates a broker.
  ///
  /// - Parameters:
  ///   - limits: What clients may use.
  ///   - authorize: Decides who may connect.
  init(limits: Limits = .init(), authorize: @escaping @Sendable (MQTTConnect) -> Bool = { _ in true }) {
    self.limits = limits
    self.authorize = authorize
    retained = MQTTRetained(limits: limits.retained)
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
    guard request.clientID.count <= limits.clientIDLength else { throw MQTTConnect.Refusal.clientID }
    guard authorize(request) else { throw MQTTConnect.Refusal.notAuthorized }
    let old = clients[request.clientID]
    var client = Client(
      session: MQTTSession(limits: limits.session), connection: connection, isClean: request.isClean,
      will: request.will)
    let continues = old.map { !$0.isClean && !request.isClean } ?? false
    if continues, let old { client.session = old.session }
    replace(request.clientID, with: client)
    send(MQTTPacket(kind: .connectAcknowledged, body: [continues ? 1 : 0, 0]), to: connection)
    for (identifier, message) in client.session.unacknowledged {
      send(message.packet(identifier: identifier, isRepeated: true), to: connection)
    }
    if let old {
      if let will = old.will, old.connection != nil { publish(will, from: request.clientID) }
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
  func disconnect(_ clientID: ByteText, from connection: any ByteStream, saidGoodbye: Bool) {
    // A newer connection of the same client has taken over.
    guard var client = clients[clientID], client.connection?.id == connection.id else { return }
    let will = saidGoodbye ? nil : client.will
    client.connection = nil
    client.will = nil
    let sleeping = clients.values.count { $0.connection == nil }
    replace(clientID, with: client.isClean || sleeping >= limits.sleepingSessions ? nil : client)
    if let will { publish(will, from: clientID) }
  }

  private func replace(_ clientID: ByteText, with client: Client?) {
    let old = clients[clientID]
    clients[clientID] = client
    sessionBytes += (client?.session.bytes ?? 0) - (old?.session.bytes ?? 0)
  }

  /// Changes the session of a client, and counts its bytes. `nil` if there is no such client.
  @discardableResult
  private func withSession<Result>(
    of clientID: ByteText, _ body: (_ session: inout MQTTSession, _ room: Int) -> Result?
  ) -> Result? {
    guard let old = clients[clientID]?.session.bytes else { return nil }
    let room = limits.sessionBytes - sessionBytes
    defer { sessionBytes += (clients[clientID]?.session.bytes ?? 0) - old }
    return clients[clientID]?.session.change { body(&$0, room) } ?? nil
  }

  // MARK: Messages

  /// Sends a message to everyone who has subscribed, and keeps it if it is to be retained.
  ///
  /// - Parameters:
  ///   - message: The message.
  ///   - sender: The client that publishes it.
  func publish(_ message: MQTTMessage, from sender: ByteText) {
    if message.isRetained { retained.keep(message, from: sender) }
    var message = message
    message.isRetained = false
    for clientID in clients.keys { deliver(message, to: clientID) }
  }

  /// Adds subscriptions, and sends the retained messages that match them.
  func subscribe(_ clientID: ByteText, _ packet: MQTTPacket, on connection: any ByteStream) throws {
    let (identifier, wanted) = try MQTTSubscription.parseSubscribe(packet)
    guard clients[clientID]?.connection?.id == connection.id else { return }
    let results = wanted.map { filter, quality in
      if !MQTTTopic.isValid(filter: filter) { return 0x80 as UInt8 }
      return withSession(of: clientID) { $0.subscribe(to: filter, quality: quality, room: $1) } ?? 0x80
    }
    send(
      MQTTPacket(kind: .subscribeAcknowledged, body: [UInt8(identifier >> 8), UInt8(identifier & 255)] + results),
      to: connection)
    for message in retained.messages where wanted.contains(where: { MQTTTopic.matches($0.filter, message.topic) }) {
      deliver(message, to: clientID)
    }
  }

  func unsubscribe(_ clientID: ByteText, _ packet: MQTTPacket, on connection: any ByteStream) throws {
    let (identifier, filters) = try MQTTSubscription.parseUnsubscribe(packet)
    for filter in filters { withSession(of: clientID) { session, _ in session.unsubscribe(from: filter) } }
    send(MQTTPacket(.unsubscribeAcknowledged, identifier: identifier), to: connection)
  }

  func acknowledge(_ clientID: ByteText, _ identifier: UInt16) {
    withSession(of: clientID) { session, _ in session.acknowledge(identifier) }
  }

  /// Publishes a message of quality 2, unless it was published when it arrived for the first time.
  func publishOnce(_ message: MQTTMessage, _ identifier: UInt16, from clientID: ByteText) {
    if clients[clientID]?.session.note(received: identifier) == true { publish(message, from: clientID) }
  }

  func release(_ clientID: ByteText, _ identifier: UInt16) { clients[clientID]?.session.release(identifier) }

  private func deliver(_ message: MQTTMessage, to clientID: ByteText) {
    guard let delivery = clients[clientID]?.session.delivery(of: message),
      let packet = withSession(of: clientID, { $0.packet(for: delivery, room: $1) })
    else { return }
    if let connection = clients[clientID]?.connection { send(packet, to: connection) }
  }

  /// Sends without waiting. If the connection has ended, its handler finds out.
  private func send(_ packet: MQTTPacket, to connection: any ByteStream) {
    _ = try? connection.enqueueWrite(message: packet)
  }
}
