import ActorSockets
import TestSupport

extension RawSocket {
  /// A connection whose peer is a raw socket.
  static func peerOfConnection(
    configuration: TCPConnection.Configuration = .init(), on reactor: Reactor = .shared
  ) throws -> (TCPConnection, RawSocket) {
    let (near, far) = try pair()
    let connection = try TCPConnection.adopt(
      fileDescriptor: near.number, configuration: configuration, reactor: reactor)
    _ = near.release()
    return (connection, far)
  }
}
