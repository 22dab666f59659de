internal import EpollReactor
internal import SocketSystem

extension UDPEndpoint {
  /// Connects the endpoint to a peer: connect(2). No datagram is sent for this.
  ///
  /// From then on, the endpoint sends only to the peer and receives only from the peer, and the next call throws an error that
  /// is reported about the peer; replies do not (``Configuration/throwsUndeliverableReplies``). Another call changes the peer.
  ///
  /// *Cancellation* takes back the call, unless it is already done. *Ordering*: sends that were called earlier leave earlier;
  /// sends that are called later wait for this call.
  ///
  /// - Parameters:
  ///   - endpoint: The peer. Of several addresses of a name, the first that can be reached is used.
  ///   - timeout: How long the call may take, including the look-up of a name and the wait for earlier sends. 30 seconds by
  ///     default; `nil` for no limit.
  /// - Throws: ``SocketError``: `.hostNotFound`, `.resolverFailed`, `.unreachable`, `.familyNotSupported`, `.timedOut`,
  ///   `.closed`; for a unix socket also `.connectionRefused`, `.pathNotFound`, `.notASocket`, `.permissionDenied`;
  ///   `CancellationError` when the task is cancelled.
  public func connect(to endpoint: Endpoint, timeout: Timeout? = .within(.seconds(30))) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    try Task.checkCancellation()
    if let refusal { throw refusal.during("connect") }
    if let error = timeout?.refusal(toConnectAt: registration.reactor.now, endpoint.address) { throw error }
    let operation: Operation
    switch try target(endpoint, "connect") {
    case .addresses(let addresses): operation = admitSend(.peer(addresses), timeout)
    case .name(let name, let port):
      operation = admitSend(.lookingUpPeer, timeout)
      lookUp(name, port, for: operation.id)
    }
    pumpSends(startingWith: operation)
    prepareToSuspend(operation, place)
    try await finish(operation)
  }

  /// Calls connect(2) with each address until one succeeds.
  func connectNow(to addresses: [SocketAddress]) -> Result<Void, SocketError> {
    var failure: SocketError?
    for address in addresses {
      do throws(SocketError) {
        let (index, destination) = try socketIndex(for: address)
        guard let socket = sockets[index].socket else {
          // The socket was closed when the endpoint was connected to a peer of the other family.
          throw SocketError(
            .familyNotSupported, operation: "connect", detail: "the endpoint had a peer of another address family",
            address: address)
        }
        do throws(SystemError) {
          try leavePeer(socket, index)
          _ = try socket.connect(to: destination)
        } catch {
          if let old = peer, let (index, old) = try? socketIndex(for: old) {
            _ = try? sockets[index].socket?.connect(to: old)
          }
          if error.errno == Errno.wrongType {
            throw SocketError(
              .system, operation: "connect", detail: "the socket at this path is not a datagram socket",
              errno: error.errno,
              address: address)
          }
          throw SocketError(error, operation: "connect", address: address)
        }
        // The address as the kernel now reports it, with the scope of a link-local address.
        let peer = (try? socket.remoteAddress())?.unmapped ?? address
        connected(index, peer, (try? socket.localAddress())?.unmapped)
        return .success(())
      } catch {
        failure = failure ?? error
      }
    }
    return .failure(failure ?? SocketError(.hostNotFound, operation: "connect"))
  }

  /// A connected socket keeps its source address, from which another peer may be unreachable. Disconnecting clears that
  /// address, and also the port if the kernel chose it, so the socket is bound again.
  private func leavePeer(_ socket: BorrowedDescriptor, _ index: Int) throws(SystemError) {
    if peer == nil || sockets[index].kind == .unix { return }
    try socket.disconnect()
    let address = sockets[index].address
    if try socket.localAddress()?.port != address.port { try socket.bind(to: address) }
  }

  private func connected(_ index: Int, _ address: SocketAddress, _ local: SocketAddress?) {
    peer = address
    sends.queue.peer = address
    connectedSocket = index
    reportedError = nil
    // The other sockets cannot receive from the peer. Datagrams fetched earlier may come from other senders.
    for (other, socket) in sockets.enumerated() where other != index { socket.registration.leave() }
    receives.queue.keepFetched { $0.remoteAddress == address }
    identity.withLock {
      $0.remoteAddress = address
      if let local { $0.localAddress = local }
    }
  }

  // MARK: Routing

  /// Returns the socket that sends to an address, and the address in the form that this socket's family needs; `nil` as the
  /// destination means the connected peer. A reply without an address is to a sender without a name, which is not the peer.
  func route(
    _ address: SocketAddress?, isReply: Bool = false
  ) throws(SocketError) -> (index: Int, destination: SocketAddress?) {
    guard let address else {
      guard let connectedSocket, !isReply else {
        throw SocketError(
          .notConnected, operation: "send", detail: "the endpoint has no peer; name the address to send to")
      }
      return (connectedSocket, nil)
    }
    if let peer, let connectedSocket {
      if address.unmapped == peer { return (connectedSocket, nil) }
      throw .invalid("send", "the endpoint is connected to \(peer), and sends nothing to \(address)")
    }
    let (index, destination) = try socketIndex(for: address)
    return (index, destination)
  }

  /// Returns why no datagram can be sent to an address, whatever the endpoint; `nil` if there is no such reason.
  @inline(__always)
  private static func flaw(of address: SocketAddress) -> SocketError? {
    if address.port == 0 { return .invalid("send", "port 0 cannot receive datagrams: \(address)") }
    guard case .unix(let path) = address, path.isUnnamed else { return nil }
    return .invalid("send", "a socket without a name cannot receive datagrams")
  }

  /// Returns why no reply can be sent to the sender of a datagram; `nil` if there is no such reason.
  static func flaw(ofSender address: SocketAddress?) -> SocketError? {
    guard let address else {
      return SocketError(.notConnected, operation: "send", detail: "the sender has no name to reply to")
    }
    return flaw(of: address)
  }

  func socketIndex(for address: SocketAddress) throws(SocketError) -> (Int, SocketAddress) {
    let address = address.unmapped
    if let flaw = Self.flaw(of: address) { throw flaw }
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
        .familyNotSupported, operation: "send", detail: "\(sockets[0].address) cannot send to this kind of address",
        address: address)
    }
    let local: SocketAddress? = sockets[found].address
    let scoped = try address.scoped(by: local, isOnDevice: configuration.device != nil || address.isMulticast)
    guard sockets[found].kind == .dual, case .ipv4(let ipv4, let port) = scoped else { return (found, scoped) }
    return (found, .ipv6(IPv6Address(mapped: ipv4), port: port))
  }
}
