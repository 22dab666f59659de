import ActorSockets
import SocketSystem
import TestSupport

/// An address that never answers: a listener whose backlog is full, so that the kernel drops every SYN to it.
final class BlackHole: Sendable {
  private let listener: RawSocket
  private let fillers: [RawSocket]
  let address: SocketAddress

  /// Makes one at a place, or of a listener that is there.
  init(at place: SocketAddress = .ipv4(.loopback, port: 0), _ listening: RawSocket? = nil) throws {
    listener = try listening ?? RawSocket.listening(on: place)
    try BorrowedDescriptor(listener.number).listen(backlog: 0)
    address = try listener.address
    fillers = try (0..<8).map { [address] _ in
      let filler = try OwnedDescriptor.streamSocket(family: address.family)
      _ = try filler.socket.connect(to: address)
      return RawSocket(owning: filler.release())
    }
  }

  var endpoint: Endpoint { .address(address) }
}
