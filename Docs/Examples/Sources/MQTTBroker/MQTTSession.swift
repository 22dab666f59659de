/// What the broker knows about a client. A session may be longer than a connection.
struct MQTTSession: Sendable {
  /// The messages that a client must acknowledge, and may not yet have received.
  private(set) var unacknowledged: [(identifier: UInt16, message: MQTTMessage)] = []
  /// The largest quality of service that the client wants, for each filter.
  private var subscriptions: [String: UInt8] = [:]
  /// The identifiers of messages of quality 2 that have arrived, and that the client may send again.
  private var received: Set<UInt16> = []
  private var lastIdentifier: UInt16 = 0
  /// The number of messages that were dropped because too many waited.
  private(set) var dropped = 0

  /// The largest number of messages that wait for a client.
  let limit: Int
  private let subscriptionLimit: Int

  init(limit: Int, subscriptions: Int) {
    self.limit = min(limit, 60_000)
    subscriptionLimit = subscriptions
  }

  /// Adds a subscription, or replaces it. Returns the quality of service that the client gets; `nil` if it has too many subscriptions.
  mutating func subscribe(to filter: String, quality: UInt8) -> UInt8? {
    if subscriptions.count >= subscriptionLimit, subscriptions[filter] == nil { return nil }
    // The broker sends messages at least once, not exactly once.
    subscriptions[filter] = min(quality, 1)
    return min(quality, 1)
  }

  mutating func unsubscribe(from filter: String) { subscriptions[filter] = nil }

  /// Returns the message as the client gets it; `nil` if the client has no subscription for it.
  func delivery(of message: MQTTMessage) -> MQTTMessage? {
    let qualities = subscriptions.lazy.filter { MQTTTopic.matches($0.key, message.topic) }.map(\.value)
    guard let largest = qualities.max() else { return nil }
    var message = message
    message.quality = min(message.quality, largest)
    return message
  }

  /// Returns the packet with a message. A message that must be acknowledged is kept until it is. Returns `nil` if too many wait.
  mutating func packet(for message: MQTTMessage) -> MQTTPacket? {
    if message.quality == 0 { return message.packet(identifier: 0) }
    if unacknowledged.count >= limit {
      dropped += 1
      return nil
    }
    let used = Set(unacknowledged.map(\.identifier))
    repeat { lastIdentifier = lastIdentifier == .max ? 1 : lastIdentifier + 1 } while used.contains(lastIdentifier)
    unacknowledged.append((lastIdentifier, message))
    return message.packet(identifier: lastIdentifier)
  }

  /// The client has received a message.
  mutating func acknowledge(_ identifier: UInt16) {
    if let index = unacknowledged.firstIndex(where: { $0.identifier == identifier }) {
      unacknowledged.remove(at: index)
    }
  }

  /// Notes that a message of quality 2 has arrived. Returns whether it is new.
  mutating func note(received identifier: UInt16) -> Bool { received.insert(identifier).inserted }

  /// The client will not send a message of quality 2 again.
  mutating func release(_ identifier: UInt16) { received.remove(identifier) }
}
