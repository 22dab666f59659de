import ActorSockets
import SocketSystem
import TestSupport
import Testing

extension RawSocket {
  /// Checks that the peer has reset the connection.
  func expectReset(sourceLocation: SourceLocation = #_sourceLocation) async {
    let error = await #expect(throws: SystemError.self, sourceLocation: sourceLocation) { try await receive() }
    #expect(error?.errno == Errno.connectionReset, sourceLocation: sourceLocation)
  }

  /// A connection whose peer is a raw socket.
  static func peerOfConnection(
    configuration: TCPConnection.Configuration = .init(), on reactor: Reactor = .shared,
    at address: SocketAddress = .ipv4(.loopback, port: 0)
  ) throws -> (TCPConnection, RawSocket) {
    let (near, far) = try pair(on: address)
    let connection = try TCPConnection.adopt(
      fileDescriptor: near.number, configuration: configuration, reactor: reactor)
    _ = near.release()
    return (connection, far)
  }

  /// The same with a peer that reads nothing: its kernel has no room for all that this side's took.
  static func stuckPeerOfConnection(
    configuration: TCPConnection.Configuration = .init(), on reactor: Reactor = .shared
  ) async throws -> (TCPConnection, RawSocket) {
    let (connection, peer) = try peerOfConnection(configuration: configuration, on: reactor)
    try BorrowedDescriptor(peer.number).set(.receiveBuffer, to: 16_384)
    try await connection.withFileDescriptor { try BorrowedDescriptor($0).set(.sendBuffer, to: 200_000) }
    try await connection.write(pattern(150_000))
    try await connection.flush(until: .sent)
    return (connection, peer)
  }
}
