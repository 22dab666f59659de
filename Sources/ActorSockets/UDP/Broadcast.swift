internal import SocketSystem

extension SocketAddress {
  /// Whether datagrams to this address are broadcasts. The routing table knows it, so a socket that may send broadcasts tries:
  /// connect(2), which sends nothing.
  var isBroadcast: Bool {
    let address = unmapped
    guard address.isIPv4, let probe = try? OwnedDescriptor.datagramSocket(family: address.family) else { return false }
    do {
      try probe.socket.set(.broadcast, to: true)
      _ = try probe.socket.connect(to: address)
      return true
    } catch {
      return false
    }
  }
}
