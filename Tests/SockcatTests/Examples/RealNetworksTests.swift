import ActorSockets
import SocketSystem
import TestSupport
import Testing

/// The examples of the article about proxies and load balancers.
@Suite struct RealNetworksTests {
  @Test func `A client connects through a proxy that comes up later`() async throws {
    try await within("the bytes arrive") {
      let probe = try RawSocket.listening()
      let address = try probe.address
      probe.close()
      let connecting = Task {
        try await connectPatiently(
          to: .host("example.test", port: 80), through: try proxy(at: "\(address)", password: "secret"))
      }
      let listener = try RawSocket.listening(on: address)
      let peer = try await listener.accept()
      #expect(try await peer.receive(exactly: 4) == [5, 2, 0, 2])
      try peer.send([5, 2])
      #expect(try await peer.receive(exactly: 11) == [1, 2] + Array("me".utf8) + [6] + Array("secret".utf8))
      try peer.send([1, 0])
      #expect(try await peer.receive(exactly: 19) == [5, 1, 0, 3, 12] + Array("example.test".utf8) + [0, 80])
      try peer.send([5, 0, 0, 1, 0, 0, 0, 0, 0, 0] + Array("hello".utf8))
      let connection = try await connecting.value
      #expect(try await connection.read(exactly: 5) == Array("hello".utf8))
      await connection.close()
    }
  }

  @Test func `A forwarder tells the server whose connection it forwards`() async throws {
    try await within("the greeting names the client") {
      let network = try IPNetwork(parsing: "127.0.0.0/8")
      let server = try listenBehindBalancers(on: .host("127.0.0.1", port: 0), at: [network])
      let forwarder = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      let target = Endpoint.address(server.localAddresses[0])
      let tasks = [
        Task { try await greetClients(server) },
        Task { _ = try await forwarder.serve { try await forward($0, to: target) } },
      ]
      let client = try await TCPConnection.connect(to: .address(forwarder.localAddresses[0]))
      let address = try #require(client.localAddress)
      #expect(try await client.read(until: .lf) == Array("hello, \(address)\n".utf8))
      #expect(try await client.read() == nil)
      await client.close()
      for task in tasks {
        task.cancel()
        try await task.value
      }
    }
  }
}
