import ByteText

/// What the broker knows about a client. A session may be longer than a connection.
struct MQTTSession: Sendable {
  struct Limits: Sendable {
    /// The largest number of messages that wait for the client, at most 60,000.
    var waitingMessages = 1000
    /// The largest number of bytes of these messages and their topics. All of them are sent at once when the client returns, so they must
    /// be fewer than ``MQTTBroker/connectionConfiguration`` lets wait.
    var waitingBytes = 2 << 20
    /// The largest number of subscriptions.
    var subscriptions = 1000
    /// The largest number of bytes of their filters.
    var filterBytes = 256 << 10
  }

  /// The messages that a client must acknowledge, and may not yet have received.
  private(set) var unacknowledged: [(identifier: UInt16, message: MQTTMessage)] = []
  /// The largest quality of service that the client wants, for each filter.
  private var subscriptions: [ByteText: UInt8] = [:]
  /// The identifiers of messages of quality 2 that have arrived, and that the client may send again.
  private var received: Set<UInt16> = []
  private var lastIdentifier: UInt16 = 0
  private var (waitingBytes, filterBytes) = (0, 0)
  /// The number of messages that were dropped because too many waited.
  private(set) var dropped = 0

  let limits: Limits

  init(limits: Limits) { self.limits = limits }

  /// Changes the session where it is: a copy may be large.
  mutating func change<Result>(_ body: (inout MQTTSession) -> Result) -> Result { body(&self) }

  /// The number of bytes of what waits for the client, and of what it has subscribed to.
  var bytes: Int { waitingBytes + filterBytes }

  /// Adds a subscription, or replaces it.
  ///
  /// - Parameters:
  ///   - filter: The filter.
  ///   - quality: The largest quality of service that the client wants.
  ///   - room: How many more bytes the broker has for all sessions.
  /// - Returns: The quality of service that the client gets; `nil` if it has too many subscriptions.
  mutating func subscribe(to filter: ByteText, quality: UInt8, room: Int = .max) -> UInt8? {
    if subscriptions[filter] == nil {
      guard subscriptions.count < limits.subscriptions, filterBytes + filter.count <= limits.filterBytes,
        filter.count <= room
      else { return nil }
      filterBytes += filter.count
    }
    // The broker sends messages at least once, not exactly once.
    subscriptions[filter] = min(quality, 1)
    return min(quality, 1)
  }

  mutating func unsubscribe(from filter: ByteText) {
    if subscriptions.removeValue(forKey: filter) != nil { filterBytes -= filter.count }
  }

  /// Returns the message as the client gets it; `nil` if the client has no subscription for it.
  func delivery(of message: MQTTMessage) -> MQTTMessage? {
    let qualities = subscriptions.lazy.filter { MQTTTopic.matches($0.key, message.topic) }.map(\.value)
    guard let largest = qualities.max() else { return nil }
    var message = message
    message.quality = min(message.quality, largest)
    return message
  }

  /// Returns the packet with a message. A message that must be acknowledged is kept until it is.
  ///
  /// - Parameters:
  ///   - message: The message, as the client gets it.
  ///   - room: How many more bytes the broker has for all sessions.
  /// - Returns: The packet; `nil` if too many messages wait, or too many bytes.
  mutating func packet(for message: MQTTMessage, room: Int = .max) -> MQTTPacket? {
    if message.quality == 0 { return message.packet(identifier: 0) }
    guard unacknowledged.count < min(limits.waitingMessages, 60_000),
      waitingBytes + message.size <= limits.waitingBytes, message.size <= room
    else {
      dropped += 1
      return nil
    }
    let used = Set(unacknowledged.map(\.identifier))
    repeat { lastIdentifier = lastIdentifier == .max ? 1 : lastIdentifier + 1 } while used.contains(lastIdentifier)
    unacknowledged.append((lastIdentifier, message))
    waitingBytes += message.size
    return message.packet(identifier: lastIdentifier)
  }

  /// The client has received a message.
  mutating func acknowledge(_ identifier: UInt16) {
    if let index = unacknowledged.firstIndex(where: { $0.identifier == identifier }) {
      waitingBytes -= unacknowledged.remove(at: index).message.size
    }
  }

  /// Notes that a message of quality 2 has arrived. Returns whether it is new.
  mutating func note(received identifier: UInt16) -> Bool { received.insert(identifier).inserted }

  /// The client will not send a message of quality 2 again.
  mutating func release(_ identifier: UInt16) { received.remove(identifier) }
}
