internal import EpollReactor
internal import SocketSystem

enum BoundSockets {
  /// Creates a socket for each address, of which there is at least one. With port 0, all get the same free port. Addresses that this
  /// machine does not have are left out if there are others. `canFallBack`: the IPv4 wildcard may replace the wildcard of both families if
  /// there is no IPv6. `make` returns a socket with its bound address.
  static func make(
    _ wanted: [SocketAddress], canFallBack: Bool,
    _ make: (SocketAddress) throws(SocketError) -> (Registration, SocketAddress)
  ) throws(SocketError) -> ([Registration], [SocketAddress]) {
    // The port that the kernel chose for one address may be taken on another. If so, try again with another port.
    for _ in 0..<15 where wanted.count > 1 && wanted[0].port == 0 {
      do {
        return try makeOnce(wanted, canFallBack, make)
      } catch {
        if error.code != .addressInUse { throw error }
      }
    }
    return try makeOnce(wanted, canFallBack, make)
  }

  private static func makeOnce(
    _ wanted: [SocketAddress], _ canFallBack: Bool,
    _ make: (SocketAddress) throws(SocketError) -> (Registration, SocketAddress)
  ) throws(SocketError) -> ([Registration], [SocketAddress]) {
    var sockets: [Registration] = []
    var addresses: [SocketAddress] = []
    var missing: SocketError?
    for address in wanted {
      let shared = addresses.first?.port.map { address.with(port: $0) } ?? address
      do throws(SocketError) {
        let (socket, bound) = try make(shared)
        sockets.append(socket)
        addresses.append(bound)
      } catch {
        // This machine lacks IPv6, or one of several addresses. The others are enough.
        if error.errno != Errno.familyNotSupported, error.errno != Errno.addressNotAvailable { throw error }
        missing = error
      }
    }
    if let missing, sockets.isEmpty {
      guard canFallBack, wanted.count == 1, case .ipv6(.any, let port) = wanted[0] else { throw missing }
      let (socket, bound) = try make(.ipv4(.any, port: port))
      return ([socket], [bound])
    }
    return (sockets, addresses)
  }
}
