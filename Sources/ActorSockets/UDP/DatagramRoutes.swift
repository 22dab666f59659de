internal import SocketSystem

// Which of an endpoint's sockets sends to an address. It makes no system call.
//
// Invariant: without a peer, a datagram leaves through a socket that reaches its address. With a peer, only datagrams to the peer leave,
// and through the peer's socket.

struct DatagramRoutes: Sendable {
  /// Never empty; several if the endpoint was bound to several addresses.
  var sockets: [BoundSocket]
  let isOnDevice: Bool
  /// The index is that of the connected socket.
  var peer: (address: SocketAddress, index: Int)?

  var isUnix: Bool { sockets[0].kind == .unix }

  struct Route {
    let index: Int
    /// The address in the form that the socket's family needs; `nil` for the connected peer.
    let destination: SocketAddress?
  }

  /// `nil` means the peer. A reply without an address is to a sender without a name, which is the peer only if that has no name either.
  func route(_ address: SocketAddress?, isReply: Bool = false) throws(SocketError) -> Route {
    guard let address else {
      guard let peer, !isReply || peer.address.isUnnamed else {
        throw SocketError(
          .notConnected, operation: "send", detail: "the endpoint has no peer; name the address to send to")
      }
      return Route(index: peer.index, destination: nil)
    }
    if let peer {
      if address.unmapped == peer.address { return Route(index: peer.index, destination: nil) }
      throw .invalid("send", "the endpoint is connected to \(peer.address), and sends nothing to \(address)")
    }
    return try routeWithoutPeer(address, for: "send")
  }

  /// For an endpoint that is not connected, or that is to get another peer. The destination of the route is not `nil`.
  func routeWithoutPeer(_ address: SocketAddress, for operation: String) throws(SocketError) -> Route {
    let address = address.unmapped
    if let flaw = Self.flaw(of: address, for: operation) { throw flaw }
    // The socket with the matching scope; otherwise any socket of the family.
    var found: Int?
    for index in sockets.indices where sockets[index].kind.reaches(address) {
      if sockets.count == 1 || sockets[index].address.isLoopback == address.isLoopback {
        found = index
        break
      }
      found = found ?? index
    }
    guard let found else {
      throw SocketError(
        .familyNotSupported, operation: operation, detail: "\(sockets[0].address) cannot send to this kind of address",
        address: address)
    }
    let local: SocketAddress? = sockets[found].address
    let scoped = try address.scoped(by: local, isOnDevice: isOnDevice || address.isMulticast, for: operation)
    guard sockets[found].kind == .dual, case .ipv4(let ipv4, let port) = scoped else {
      return Route(index: found, destination: scoped)
    }
    return Route(index: found, destination: .ipv6(IPv6Address(mapped: ipv4), port: port))
  }

  /// The reason why no endpoint can send to this address.
  @inline(__always)
  private static func flaw(of address: SocketAddress, for operation: String) -> SocketError? {
    if address.port == 0 { return .invalid(operation, "port 0 cannot receive datagrams: \(address)") }
    if !address.isUnnamed { return nil }
    return .invalid(operation, "a socket without a name cannot receive datagrams")
  }

  static func flaw(ofSender address: SocketAddress?) -> SocketError? {
    guard let address else {
      return SocketError(.notConnected, operation: "send", detail: "the sender has no name to reply to")
    }
    return flaw(of: address, for: "send")
  }
}

extension SocketAddress {
  /// A unix socket has no name until it is bound, for example one of a socketpair(2).
  var isUnnamed: Bool { if case .unix(let path) = self { path.isUnnamed } else { false } }
}
