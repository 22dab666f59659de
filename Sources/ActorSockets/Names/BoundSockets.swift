internal import EpollReactor
internal import SocketSystem

// An endpoint to bind to may stand for several addresses, all of which get the same port, and some of which this machine may
// not have.

enum BoundSockets {
  /// Makes a socket for each address.
  ///
  /// - Parameters:
  ///   - wanted: The addresses, at least one; with port 0 for one that is free on all of them.
  ///   - canFallBack: Whether IPv4's wildcard will do for that of both families, where there is no IPv6.
  ///   - make: Makes a socket and says where it is bound.
  /// - Returns: The sockets and their addresses. Those that this machine does not have are left out, if there are others.
  /// - Throws: Why there is none.
  static func make(
    _ wanted: [SocketAddress], canFallBack: Bool,
    _ make: (SocketAddress) throws(SocketError) -> (Registration, SocketAddress)
  ) throws(SocketError) -> ([Registration], [SocketAddress]) {
    // The port that the kernel chose on one address may be taken on another: then it chooses again.
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
      // All share the port that the first one got.
      let shared = addresses.first?.port.map { address.with(port: $0) } ?? address
      do throws(SocketError) {
        let (socket, bound) = try make(shared)
        sockets.append(socket)
        addresses.append(bound)
      } catch {
        // A machine without IPv6, or without this address of several: the others are enough.
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
