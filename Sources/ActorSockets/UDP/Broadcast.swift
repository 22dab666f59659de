internal import SocketSystem

extension SocketAddress {
  /// Whether a send to this address that failed with EACCES failed because this is a broadcast address. Only the routing table knows the
  /// broadcast addresses, so the kernel is asked: connect(2) with SO_BROADCAST, which sends nothing.
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
