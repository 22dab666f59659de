import ActorSockets
import ByteText

extension MQTTBroker {
  /// Serves one connection: the conversation with a client, from CONNECT to DISCONNECT.
  nonisolated func serve(_ connection: some ByteStream) async throws {
    let request: ReadRequest<MQTTPacket?> = .parsing(maximumLength: limits.packetLength, MQTTPacket.parse)
    guard let first = try await connection.read(request, timeout: .after(limits.connect)) else { return }
    guard first.kind == .connect else { throw violation(.order) }
    let client: MQTTConnect
    do {
      client = try MQTTConnect(parsing: first)
      _ = try await connect(client, on: connection)
    } catch let refusal as MQTTConnect.Refusal {
      return try await connection.write(message: MQTTPacket(kind: .connectAcknowledged, body: [0, refusal.rawValue]))
    } catch let error as MQTTViolation {
      throw violation(error)
    }
    connection.label = client.clientID.description
    do {
      // Section 3.1.2.10: one and a half times the time that the client has named.
      let silence = client.keepAlive == 0 ? nil : Timeout.after(.milliseconds(1500 * Int(client.keepAlive)))
      for try await packet in connection.messages(of: request, timeout: silence) {
        if packet.kind == .disconnect { return await disconnect(client.clientID, from: connection, saidGoodbye: true) }
        try await handle(packet, from: client.clientID, on: connection)
      }
      await disconnect(client.clientID, from: connection, saidGoodbye: false)
    } catch SocketError.Code.closed {
      // The client has a new connection, so the broker has ended this one.
    } catch {
      await disconnect(client.clientID, from: connection, saidGoodbye: false)
      if let error = error as? MQTTViolation { throw violation(error) }
      throw error
    }
  }

  private nonisolated func handle(
    _ packet: MQTTPacket, from clientID: ByteText, on connection: some ByteStream
  ) async throws {
    switch packet.kind {
    case .publish:
      let (message, identifier) = try MQTTMessage.parse(packet)
      switch message.quality {
      case 0: await publish(message, from: clientID)
      case 1:
        await publish(message, from: clientID)
        try await connection.write(message: MQTTPacket(.publishAcknowledged, identifier: identifier))
      default:
        await publishOnce(message, identifier, from: clientID)
        try await connection.write(message: MQTTPacket(.publishReceived, identifier: identifier))
      }
    case .publishRelease:
      await release(clientID, try packet.identifier)
      try await connection.write(message: MQTTPacket(.publishComplete, identifier: try packet.identifier))
    case .publishAcknowledged: await acknowledge(clientID, try packet.identifier)
    case .subscribe: try await subscribe(clientID, packet, on: connection)
    case .unsubscribe: try await unsubscribe(clientID, packet, on: connection)
    case .pingRequest: try await connection.write(message: MQTTPacket(kind: .pingResponse, body: []))
    default: throw MQTTViolation.order
    }
  }

  /// The error for `serve`, which counts it as the peer's.
  private nonisolated func violation(_ violation: MQTTViolation) -> SocketError {
    SocketError(.invalidMessage, operation: "read", detail: "\(violation)", underlyingError: violation)
  }
}
