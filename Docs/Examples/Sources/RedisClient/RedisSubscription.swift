import ActorSockets
import ByteText

/// The messages of channels, for `for try await`.
///
/// The loop has a connection of its own, because a Redis connection that subscribes takes no other commands. When the connection is lost,
/// the loop connects and subscribes again. Messages that were published meanwhile are lost: Redis does not keep them. The element
/// ``Event/subscribed(channel:)`` says when messages arrive from, again.
struct RedisSubscription: AsyncSequence, Sendable {
  enum Event: Hashable, Sendable {
    /// From here on the messages of a channel arrive. If this is not the first such event of the channel, messages may be missing.
    case subscribed(channel: String)
    case message(channel: String, [UInt8])
  }

  let server: Endpoint
  let configuration: RedisClient.Configuration
  let channels: [String]

  func makeAsyncIterator() -> Iterator { Iterator(subscription: self) }

  struct Iterator: AsyncIteratorProtocol {
    fileprivate let subscription: RedisSubscription
    private var connection: TCPConnection?
    private var replies: StreamSequence<RESPValue>.AsyncIterator?
    /// Whether a reply has arrived on this connection. A connection that ends before is a failure, and not repeated.
    private var hasWorked = false

    fileprivate init(subscription: RedisSubscription) { self.subscription = subscription }

    /// Waits for the next event.
    ///
    /// *Cancellation* ends the wait, and loses no message.
    ///
    /// - Throws: `RedisError.server`, for example if the password is wrong; `SocketError` if the server cannot be reached, after all tries
    ///   of the configuration's retry; `CancellationError`.
    mutating func next() async throws -> Event? {
      while true {
        do {
          if connection == nil { try await connect() }
          guard let reply = try await replies?.next() else {
            throw SocketError(.endOfStream, operation: "read", detail: "the server ended the connection")
          }
          hasWorked = true
          if let event = try event(reply) { return event }
        } catch let error as SocketError where error.endsConnection && hasWorked {
          await drop()
        }
      }
    }

    private mutating func connect() async throws {
      let new = try await TCPConnection.connect(
        to: subscription.server, configuration: subscription.configuration.connection)
      connection = new
      replies = new.messages(of: .reply).makeAsyncIterator()
      hasWorked = false
      let channels = subscription.channels.map { Array($0.utf8) }
      try await new.write(messages: subscription.configuration.greeting + [RedisCommand("SUBSCRIBE", channels)])
    }

    private mutating func drop() async {
      await connection?.abort()
      connection = nil
      replies = nil
    }

    private func event(_ reply: RESPValue) throws -> Event? {
      if case .error(let message) = reply { throw RedisError.server(message) }
      guard case .array(let parts) = reply, parts.count == 3, let channel = parts[1].text,
        let kind = parts[0].text.map({ ByteText($0) })
      else { return nil }
      if kind.equals("subscribe") { return .subscribed(channel: channel) }
      guard kind.equals("message"), case .bulk(let content) = parts[2] else { return nil }
      return .message(channel: channel, content)
    }
  }
}

extension RedisClient {
  /// The messages of channels, on a connection of their own.
  ///
  /// ```swift
  /// for try await event in client.messages(of: "news") { … }
  /// ```
  nonisolated func messages(of channels: String...) -> RedisSubscription { messages(of: channels) }

  nonisolated func messages(of channels: [String]) -> RedisSubscription {
    RedisSubscription(server: server, configuration: configuration, channels: channels)
  }
}
