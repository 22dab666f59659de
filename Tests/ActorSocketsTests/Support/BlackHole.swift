import ActorSockets
import SocketSystem
import TestSupport

/// An address that never answers: a listener whose backlog is full, so that the kernel drops every SYN to it.
final class BlackHole: Sendable {
  private let listener: RawSocket
  private let fillers: [RawSocket]
  let address: SocketAddress

  init() throws {
    listener = try RawSocket.listening(backlog: 0)
    address = try listener.address
    fillers = try (0..<8).map { [address] _ in
      let filler = try Descriptor.streamSocket(family: address.family)
      _ = try filler.socket.connect(to: address)
      return RawSocket(owning: filler.release())
    }
  }

  var endpoint: Endpoint { .address(address) }
}
