import ActorSockets
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@Suite struct AcceptOrderTests {
  @Test func `An accept in the listener's own isolation does not get ahead of one that was called before`() async throws
  {
    try await within("all are accepted") {
      for _ in 0..<10 {
        let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)))
        let clients = try (0..<3).map { _ in try RawSocket.connected(to: listener.localAddresses[0]) }
        let (first, second, third) = try await listener.acceptThree {
          Task.immediate { try await listener.accept() }
        }
        #expect(first.remoteAddress == (try clients[0].address))
        #expect(second.remoteAddress == (try clients[1].address))
        #expect(third.remoteAddress == (try clients[2].address))
      }
    }
  }
}

extension TCPListener {
  fileprivate func acceptThree(
    _ call: @Sendable () -> Task<TCPConnection, any Error>
  ) async throws -> (TCPConnection, TCPConnection, TCPConnection) {
    // The first call uses the place in the queue that the call of this method has.
    let first = try await accept()
    let calling = call()
    let third = try await accept()
    return (first, try await calling.value, third)
  }
}
