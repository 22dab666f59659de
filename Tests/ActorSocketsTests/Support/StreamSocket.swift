import ActorSockets
import SocketSystem
import TestSupport
import Testing

/// The kinds of stream sockets.
enum StreamSocket: String, CaseIterable, CustomTestStringConvertible {
  case ipv4 = "TCP over IPv4"
  case ipv6 = "TCP over IPv6"
  case unix = "unix sockets"

  var testDescription: String { rawValue }

  /// An address to listen on, of which the port or the name is free.
  func freeAddress() throws -> SocketAddress {
    switch self {
    case .ipv4: .ipv4(.loopback, port: 0)
    case .ipv6: .ipv6(.loopback, port: 0)
    case .unix: .unix(try UnixPath(parsing: "@stream socket \(UInt64.random(in: 0 ... .max))"))
    }
  }

  /// Two connected sockets.
  func pair() throws -> (RawSocket, RawSocket) {
    self == .unix ? try RawSocket.unixPair() : try RawSocket.pair(on: freeAddress())
  }

  /// A connection whose peer is a raw socket.
  func connection(
    _ configuration: TCPConnection.Configuration = .init(), on reactor: Reactor = .shared
  ) throws -> (TCPConnection, RawSocket) {
    let (near, far) = try pair()
    let number = near.release()
    return (try TCPConnection.adopt(fileDescriptor: number, configuration: configuration, reactor: reactor), far)
  }
}
