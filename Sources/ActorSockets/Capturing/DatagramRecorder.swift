internal import SocketSystem

/// Records the datagrams of an endpoint: those that the kernel has taken, and those that it has delivered, before any filter.
final class DatagramRecorder {
  private let capture: PacketCapture
  private let id: UInt64
  private let identity: Locked<ConnectionIdentity>
  private var hasBegun = false

  init?(_ capture: PacketCapture?, _ id: UInt64, _ identity: Locked<ConnectionIdentity>) {
    guard let capture else { return nil }
    self.capture = capture
    self.id = id
    self.identity = identity
  }

  /// `local` is the address of the socket. The metadata may have a better one, because a socket may be bound to all addresses.
  func record(
    _ bytes: Span<UInt8>, _ direction: CaptureBlock.Direction, local: SocketAddress, remote: SocketAddress?,
    _ metadata: DatagramMetadata?
  ) {
    let own = metadata?.localAddress.flatMap { address in local.port.map { address.socketAddress(port: $0) } } ?? local
    let (local, remote) = CapturedEnd.ends(ofDatagram: own, remote: remote, number: id)
    let isSent = direction == .outbound
    let datagram = CapturedDatagram(
      source: isSent ? local : remote, destination: isSent ? remote : local, hopLimit: metadata?.hopLimit ?? 64,
      trafficClass: metadata?.trafficClass ?? 0)
    let recorded = bytes.extracting(first: min(bytes.count, datagram.largestPayload))
    var comments: [String] = []
    if !hasBegun { comments.append(ConversationRecorder.comment("endpoint", id, identity.withLock { $0 })) }
    if recorded.count < bytes.count { comments.append("cut off after \(recorded.count) of \(bytes.count) bytes") }
    hasBegun = true
    capture.append([
      CaptureBlock.packet(
        datagram.encoded(recorded), at: realtimeNanoseconds(), direction,
        comment: comments.isEmpty ? nil : comments.joined(separator: ", "))
    ])
  }
}
