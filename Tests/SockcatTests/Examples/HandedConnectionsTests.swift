import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite struct HandedConnectionsTests {
  @Test func `A connection that is handed to another endpoint goes on there`() async throws {
    try await within("the answer comes") {
      let worker = try workerEndpoint(at: "")
      let taking = Task {
        try await takeConnections(from: worker, ofUser: getuid()) { connection in
          try await connection.write(utf8: "from the worker\n")
          await connection.close(after: .pendingWrites)
        }
      }
      let endpoint = try UDPEndpoint.bind(to: .unix(path: ""))
      let address = worker.localAddresses[0]
      // A datagram without a descriptor is skipped, and a descriptor that is not a connection is closed.
      try await endpoint.send([1], to: address)
      try await hand(OwnedDescriptor(owning: dup(2)), to: address, through: endpoint)
      let (near, peer) = try RawSocket.unixPair()
      try await hand(OwnedDescriptor(owning: near.release()), to: address, through: endpoint)
      #expect(try await peer.receiveToEnd() == Array("from the worker\n".utf8))
      await worker.close()
      try await taking.value
    }
  }
}
