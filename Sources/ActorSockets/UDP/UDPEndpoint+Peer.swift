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
  ///   - timeout: How long the call may take, including the look-up of a name and the wait for earlier sends; `nil` for 30 seconds,
  ///     as for all calls that connect.
  /// - Throws: ``SocketError``: `.hostNotFound`, `.resolverFailed`, `.unreachable`, `.familyNotSupported`, `.timedOut`,
  ///   `.closed`; for a unix socket also `.connectionRefused`, `.pathNotFound`, `.notASocket`, `.permissionDenied`;
  ///   `CancellationError` when the task is cancelled.
  public func connect(to endpoint: Endpoint, timeout: Timeout? = nil) async throws {
    let timeout = timeout ?? .toConnect
    let place = if let place = claimPlace() { place } else { await requeue() }
    try Task.checkCancellation()
    if let refusal { throw refusal.during("connect") }
    if let error = timeout.refusal(toConnectAt: registration.reactor.now, endpoint.address) { throw error }
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

  func connectNow(to addresses: [SocketAddress]) -> Result<Void, SocketError> {
    var failure: SocketError?
    for address in addresses {
      do throws(SocketError) {
        let route = try core.routes.routeWithoutPeer(address, for: "connect")
        guard let socket = core.routes.sockets[route.index].socket else {
          // The socket was closed when the endpoint was connected to a peer of the other family.
          throw SocketError(
            .familyNotSupported, operation: "connect", detail: "the endpoint had a peer of another address family",
            address: address)
        }
        do throws(SystemError) {
          try leavePeer(socket, route.index)
          _ = try socket.connect(to: route.destination ?? address)
        } catch {
          if let old = core.routes.peer,
            let destination = try? core.routes.routeWithoutPeer(old.address, for: "connect").destination
          {
            _ = try? core.routes.sockets[old.index].socket?.connect(to: destination)
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
        connected(route.index, peer, (try? socket.localAddress())?.unmapped)
        return .success(())
      } catch {
        failure = failure ?? error
      }
    }
    return .failure(failure ?? SocketError(.hostNotFound, operation: "connect"))
  }

  /// A connected socket keeps its source address, from which another peer may be unreachable. Disconnecting clears that address, and also
  /// the port if the kernel chose it, so the socket is bound again. An adopted socket may have had no address before it was connected.
  private func leavePeer(_ socket: BorrowedDescriptor, _ index: Int) throws(SystemError) {
    if core.routes.peer == nil || core.isUnix { return }
    try socket.disconnect()
    let address = core.routes.sockets[index].address
    guard let rest = try socket.localAddress(), let port = address.port, rest.port != port else { return }
    try socket.bind(to: rest.isUnspecified ? rest.with(port: port) : address)
  }

  private func connected(_ index: Int, _ address: SocketAddress, _ local: SocketAddress?) {
    core.connected(index, to: address)
    gate.forgetFailures()
    sends.queue.peer = address
    // The other sockets cannot receive from the peer. Datagrams fetched earlier may come from other senders.
    for (other, socket) in core.routes.sockets.enumerated() where other != index { socket.registration.leave() }
    receives.queue.keepFetched { $0.remoteAddress == address }
    identity.withLock {
      $0.remoteAddress = address
      if let local { $0.localAddress = local }
    }
  }
}
