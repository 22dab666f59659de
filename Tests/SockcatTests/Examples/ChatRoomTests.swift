import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// The chat of the article about testing.
@Suite struct ChatRoomTests {
  @Test func `Everyone hears what the others say, until the server stops`() async throws {
    let listener = InMemoryListener()
    async let report = serveChat(on: listener)
    let ada = try await listener.connect(from: SocketAddress(parsing: "192.0.2.1:1000"))
    let grace = try await listener.connect(from: SocketAddress(parsing: "192.0.2.2:1000"))
    for member in [ada, grace] {
      #expect(try await member.read(until: .lf, timeout: .seconds(30)) == Array("welcome\n".utf8))
    }
    try await ada.write(utf8: "hello\n")
    #expect(try await grace.read(until: .lf, timeout: .seconds(30)) == Array("hello\n".utf8))

    await listener.drain(within: .seconds(30))
    #expect(try await ada.read(timeout: .seconds(30)) == nil)
    #expect(try await report.finished == 2)
  }

  @Test func `The server of the article also serves sockets, and limits the connections of a peer`() async throws {
    try await within("the server ends") {
      let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)))
      let serving = Task { try await serveChat(on: listener) }
      let members = try (0..<2).map { _ in try RawSocket.connected(to: listener.localAddresses[0]) }
      for member in members { #expect(try await member.receive(exactly: 8) == Array("welcome\n".utf8)) }
      let third = try RawSocket.connected(to: listener.localAddresses[0])
      await #expect(throws: (any Error).self) { try await third.receive() }
      try members[0].send("hello\n")
      #expect(try await members[1].receive(exactly: 6) == Array("hello\n".utf8))
      await listener.drain(within: .seconds(30))
      for member in members { #expect(try await member.receiveToEnd() == []) }
      for member in members { member.close() }
      let report = try await serving.value
      #expect(report.finished == 2 && report.refused == 1)
    }
  }
}
