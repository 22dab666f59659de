internal import SocketSystem

/// The transport of a connection and that of a layer above it share a recorder, so that both make one conversation.
package final class ConversationRecorder: Sendable {
  private let capture: PacketCapture
  private let id: UInt64
  private let identity: Locked<ConnectionIdentity>
  private let isAccepted: Bool
  /// `nil` until the connection is up.
  private let conversation = Locked<CapturedConversation?>(nil)

  package init?(_ capture: PacketCapture?, _ id: UInt64, _ identity: Locked<ConnectionIdentity>, isAccepted: Bool) {
    guard let capture else { return nil }
    self.capture = capture
    self.id = id
    self.identity = identity
    self.isAccepted = isAccepted
  }

  /// Called once the connection is up: only then are its addresses known.
  func begin() {
    let identity = identity.withLock { $0 }
    let ends = CapturedEnd.ends(
      local: identity.localAddress, remote: identity.remoteAddress ?? identity.route?.proxyAddress, number: id,
      isAccepted: isAccepted)
    // Different numbers for each connection: the next one may have the same addresses.
    let sequence = UInt32(truncatingIfNeeded: id &* 0x9e37_79b9)
    record(comment: Self.comment("connection", id, identity)) { conversation in
      if conversation != nil { return [] }
      conversation = CapturedConversation(
        local: ends.local, remote: ends.remote, isAccepted: isAccepted, sequence: (sequence, ~sequence))
      return conversation?.begin() ?? []
    }
  }

  private static var longestName: Int { 1_000 }

  /// The comment of the first packet.
  static func comment(_ kind: String, _ id: UInt64, _ identity: ConnectionIdentity) -> String {
    "\(kind) \(ObservedConnection(id, identity).description.prefix(utf8: longestName))"
  }

  func sent(_ bytes: Span<UInt8>, by side: CapturedConversation.Side) {
    record { $0?.sent(bytes, by: side) ?? [] }
  }

  func finished(by side: CapturedConversation.Side) { record { $0?.finished(by: side) ?? [] } }

  func reset(by side: CapturedConversation.Side) { record { $0?.reset(by: side) ?? [] } }

  var hasEnded: Bool { conversation.withLock { $0?.hasEnded ?? false } }

  /// `comment` is for the first packet.
  private func record(comment: String? = nil, _ body: (inout CapturedConversation?) -> [CapturedConversation.Packet]) {
    let packets = conversation.withLock(body)
    if packets.isEmpty { return }
    let time = realtimeNanoseconds()
    var comment = comment
    capture.append(
      packets.map { packet in
        CaptureBlock.packet(
          packet.bytes, at: time, packet.sender == .local ? .outbound : .inbound, comment: comment.take())
      })
  }
}

/// A connection whose bytes may be recorded. A layer above it shares its recorder.
package protocol CapturedStream: ByteStream {
  nonisolated var recorder: ConversationRecorder? { get }
}
