import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

/// Datagrams that a closure sees in place, among those that it does not get.
@Suite struct BorrowingTests {
  @Test func `A call gets its peer's datagram although hundreds of strangers came before`() async throws {
    try await within("it arrives") {
      let localhost = Endpoint.host("127.0.0.1", port: 0)
      let (server, peer) = (try UDPEndpoint.bind(to: localhost), try UDPEndpoint.bind(to: localhost))
      let stranger = try UDPEndpoint.bind(to: localhost)
      // Each datagram counts with its overhead; the kernel doubles what is set.
      try await server.set(.receiveBufferSize, to: 200_000)
      try await stranger.send((0..<400).map { _ in Datagram([1], to: server.localAddresses[0]) })
      try await peer.send([7], to: server.localAddresses[0])
      try await server.connect(to: .address(peer.localAddresses[0]))
      var seen: [UInt8] = []
      let count = try await server.withDatagrams { bytes, _ in seen += [bytes[0]] }
      #expect(count == 1 && seen == [7])
      // More than one budget of them was dropped.
      #expect(await server.metrics.datagramsReceived > 256)
    }
  }

  @Test func `A descriptor that came with a datagram is closed before the closure runs`() async throws {
    try await within("it arrives") {
      var configuration = UDPEndpoint.Configuration()
      configuration.descriptorsPerDatagram = 1
      let receiver = try UDPEndpoint.bind(to: .unix(path: ""), configuration: configuration)
      let sender = try UDPEndpoint.bind(to: .unix(path: ""))
      let ends = try pipeEnds()
      let reading = OwnedDescriptor(owning: ends.reading)
      try await sender.send([1], passing: OwnedDescriptor(owning: ends.writing), to: receiver.localAddresses[0])
      let number = reading.number
      try await receiver.withDatagrams { _, _ in
        var entry = pollfd(fd: number, events: Int16(POLLIN), revents: 0)
        // SAFETY: the call reads and writes one entry.
        #expect(unsafe poll(&entry, 1, 0) == 1 && entry.revents & Int16(POLLHUP) != 0)
      }
    }
  }
}
