/// A message to be sent that further datagrams may join.
struct OpenMessage {
  private var segments: SegmentRun
  private let address: SocketAddress?
  private let metadata: DatagramMetadata?

  /// `nil` if no other datagram may join the message.
  init?(_ length: Int, _ address: SocketAddress?, _ metadata: DatagramMetadata?, _ segmentLimit: Int) {
    guard let segments = SegmentRun(size: length, limit: segmentLimit) else { return nil }
    self.segments = segments
    self.address = address
    self.metadata = metadata
  }

  /// Returns the length of the message's datagrams; `nil` if the datagram must be a message of its own.
  mutating func join(_ length: Int, _ address: SocketAddress?, _ metadata: DatagramMetadata?) -> Int? {
    guard address == self.address, metadata == self.metadata, segments.extend(by: length) else { return nil }
    return segments.size
  }
}
