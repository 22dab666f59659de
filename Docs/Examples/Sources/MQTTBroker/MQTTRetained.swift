import ByteText

/// The messages that are kept for later subscribers, one for each topic.
///
/// Their number and their bytes are limited, and the bytes for each client that publishes them, too. So one client cannot use up what is
/// there for all.
struct MQTTRetained: Sendable {
  struct Limits: Sendable {
    /// The largest number of topics with a message.
    var messages = 10_000
    /// The largest number of bytes of all topics and messages.
    var bytes = 64 << 20
    /// The largest number of bytes of the topics and messages of one client.
    var bytesOfClient = 8 << 20
  }

  private struct Kept {
    var message: MQTTMessage
    var sender: ByteText
  }

  let limits: Limits
  private var kept: [ByteText: Kept] = [:]
  private(set) var bytes = 0
  private var bytesOfClients: [ByteText: Int] = [:]

  init(limits: Limits) { self.limits = limits }

  var messages: some Sequence<MQTTMessage> { kept.values.lazy.map(\.message) }

  /// Keeps a message in place of the one with the same topic. An empty message only removes that one.
  ///
  /// - Parameters:
  ///   - message: The message.
  ///   - sender: The client that publishes it.
  /// - Returns: Whether there was room. If not, the topic has no message from now on: the old one would no longer be true.
  @discardableResult
  mutating func keep(_ message: MQTTMessage, from sender: ByteText) -> Bool {
    remove(message.topic)
    if message.payload.isEmpty { return true }
    let ofClient = bytesOfClients[sender, default: 0] + message.size
    guard kept.count < limits.messages, bytes + message.size <= limits.bytes, ofClient <= limits.bytesOfClient else {
      return false
    }
    kept[message.topic] = Kept(message: message, sender: sender)
    bytes += message.size
    bytesOfClients[sender] = ofClient
    return true
  }

  private mutating func remove(_ topic: ByteText) {
    guard let old = kept.removeValue(forKey: topic) else { return }
    bytes -= old.message.size
    let rest = bytesOfClients[old.sender, default: 0] - old.message.size
    bytesOfClients[old.sender] = rest == 0 ? nil : rest
  }
}
