import ActorSockets

/// Serves the page of a chat, and the chat itself over WebSocket.
struct ChatServer: Sendable {
  struct Limits: Sendable {
    /// How long the request of a connection may take.
    var request: Duration = .seconds(10)
    /// The largest number of bytes of a message.
    var message = 16_384
    /// How long a client may be silent before the server asks whether it is there; it then has the same time for an answer.
    var silence: Duration = .seconds(30)
  }

  let room: ChatRoom
  /// The origins of other servers whose pages may connect: `https://www.example.org`.
  var origins: [String] = []
  var limits = Limits()

  /// The settings for connections: a client for which more than 1 MiB waits is aborted, so that it misses no line in silence.
  static var connectionConfiguration: TCPConnection.Configuration {
    var configuration = TCPConnection.Configuration()
    configuration.onWriteOverflow = .abort
    return configuration
  }

  /// Serves a connection: one request, and if it asks for WebSocket, a member of the chat.
  func serve(_ connection: some ByteStream) async throws {
    let request: UpgradeRequest
    do {
      guard let arrived = try await self.request(of: connection) else { return }
      request = arrived
      guard request.isWebSocket else { return try await connection.write(utf8: ChatPage.answer(to: request)) }
      try await connection.write(utf8: request.acceptance(origins: origins))
    } catch let refused as UpgradeRequest.Refused {
      return try await connection.write(utf8: ChatPage.answer(refused.status))
    }
    let name = ChatPage.name(in: request.path)
    await room.enter(connection, as: name)
    do {
      let code = try await converse(connection)
      await room.leave(connection)
      if let code { try await connection.write(message: code) }
    } catch {
      await room.leave(connection)
      throw error
    }
  }

  /// Reads the request. Returns `nil` if the client ends the connection without one.
  private func request(of connection: some ByteStream) async throws -> UpgradeRequest? {
    do {
      let head: ReadRequest<UpgradeRequest?> = .parsing(maximumLength: 8192, UpgradeRequest.parse)
      return try await connection.read(head, timeout: .after(limits.request))
    } catch let error as SocketError {
      switch error.code {
      case .invalidMessage: throw error.underlyingError as? UpgradeRequest.Refused ?? .malformed
      case .endOfStream: throw UpgradeRequest.Refused.malformed
      case .limitExceeded: throw UpgradeRequest.Refused.tooLong
      case .timedOut: throw UpgradeRequest.Refused.late
      default: throw error
      }
    }
  }

  /// Passes on what a client says. Returns the last frame for it; `nil` if it went without a farewell.
  private func converse(_ connection: some ByteStream) async throws -> WebSocketFrame? {
    var assembly = WebSocketAssembly(limit: limits.message)
    // A frame may have 14 bytes before its payload.
    let request: ReadRequest<WebSocketFrame?> = .parsing(maximumLength: limits.message + 14, WebSocketFrame.parse)
    var isAsked = false
    do {
      while true {
        do {
          guard let frame = try await connection.read(request, timeout: .after(limits.silence)) else {
            return connection.isDraining ? .close(.goingAway) : nil
          }
          isAsked = false
          switch try assembly.add(frame) {
          case .message(.text(let text)): await room.say(text, from: connection)
          case .message(.binary): return .close(.unsupportedData)
          case .answer(let frame): try await connection.write(message: frame)
          case .end(let frame): return frame
          case .nothing: break
          }
        } catch let error as SocketError where error.code == .timedOut && !isAsked {
          isAsked = true
          try await connection.write(message: WebSocketFrame(opcode: .ping, payload: []))
        }
      }
    } catch let code as WebSocketCloseCode {
      return .close(code)
    } catch let error as SocketError where error.code == .invalidMessage {
      return .close(error.underlyingError as? WebSocketCloseCode ?? .protocolError)
    } catch SocketError.Code.limitExceeded {
      return .close(.messageTooBig)
    }
  }
}
