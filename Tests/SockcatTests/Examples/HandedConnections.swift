import ActorSockets

/// Hands a connected socket to the process that receives at `worker`.
func hand(
  _ connection: consuming OwnedDescriptor, to worker: SocketAddress, through endpoint: UDPEndpoint
) async throws {
  try await endpoint.send([1], passing: connection, to: worker)
}

/// Makes an endpoint at a unix socket that receives one descriptor and the sender's credentials with each datagram.
func workerEndpoint(at path: String) throws -> UDPEndpoint {
  var configuration = UDPEndpoint.Configuration()
  configuration.descriptorsPerDatagram = 1
  configuration.metadata = .peerCredentials
  return try UDPEndpoint.bind(to: .unix(path: path), configuration: configuration)
}

/// Takes over the connections that processes of `userID` hand out, until the endpoint is closed.
func takeConnections(
  from endpoint: UDPEndpoint, ofUser userID: UInt32, _ body: (TCPConnection) async throws -> Void
) async throws {
  for try await datagram in endpoint.datagrams {
    // A descriptor that another user passes is closed with the datagram.
    guard datagram.peerCredentials?.userID == userID, let descriptor = datagram.takeDescriptor() else { continue }
    let number = descriptor.release()
    do {
      try await body(TCPConnection.adopt(fileDescriptor: number))
    } catch let error as SocketError where error.operation == "adopt" {
      // The descriptor is not a connection, and still belongs to this process: close it.
      _ = OwnedDescriptor(owning: number)
    }
  }
}
