import ActorSockets
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

/// How connections of unix sockets end. On these, Linux never destroys bytes that were sent, and has no reset.
@Suite(.endsInTime) struct UnixCloseTests {
  @Test(.endsInTime(seconds: 20), arguments: [0, 7, 100_000])
  func `Closing does not wait for the peer, and destroys nothing that was sent`(unread: Int) async throws {
    // The clock stands still: a wait would never end.
    let time = ManualTime()
    let (connection, peer) = try StreamSocket.unix.connection(on: time.reactor)
    if unread > 0 { try peer.send(pattern(unread)) }
    try await connection.write(pattern(50_000))
    await connection.close()
    await expectError(.closed) { _ = try await connection.withFileDescriptor { $0 } }
    // The peer reads everything that was sent, and then the end, not an error.
    #expect(try await peer.receiveToEnd() == pattern(50_000))
    guard case .local = try await connection.closed.reason else { Issue.record("not by us"); return }
  }

  @Test(.endsInTime(seconds: 20)) func `Dropping a connection closes it`() async throws {
    let time = ManualTime()
    let (near, peer) = try RawSocket.unixPair()
    try peer.send(pattern(1000))
    do {
      let connection = try TCPConnection.adopt(fileDescriptor: near.release(), reactor: time.reactor)
      try await connection.write(pattern(50_000))
    }
    #expect(try await peer.receiveToEnd() == pattern(50_000))
    try await eventually("the descriptor is closed") { (try? peer.send([1])) == nil }
  }

  @Test(.endsInTime(seconds: 20)) func `Closing stops a peer that sends without end`() async throws {
    let time = ManualTime()
    let (connection, peer) = try StreamSocket.unix.connection(on: time.reactor)
    let isOver = Gate()
    try startThread(name: "sender") {
      while (try? peer.send(pattern(10_000))) != nil {}
      isOver.open()
    }
    _ = try await connection.read(exactly: 100_000)
    try await connection.write(pattern(1000))
    await connection.close()
    await isOver.wait()
    #expect(try await peer.receiveToEnd() == pattern(1000))
  }

  @Test func `After an abort the peer sees a clean end, unless bytes that it sent were not received`() async throws {
    for unread in [0, 7] {
      let (connection, peer) = try StreamSocket.unix.connection()
      try await connection.write(pattern(5000))
      if unread > 0 { try peer.send(pattern(unread)) }
      await connection.abort()
      #expect(try await peer.receive(exactly: 5000) == pattern(5000))
      if unread == 0 {
        #expect(try await peer.receive() == [])
      } else {
        await peer.expectReset()
      }
    }
  }

  @Test func `A connection whose peer aborted reads what it sent, and then an end or a reset`() async throws {
    for unread in [0, 7] {
      let pair = try await Transport.unix.pair()
      try await pair.server.write(pattern(5000))
      if unread > 0 { try await pair.client.write(pattern(unread)) }
      await pair.server.abort()
      #expect(try await pair.client.read(exactly: 5000) == pattern(5000))
      if unread == 0 {
        #expect(try await pair.client.read() == nil)
      } else {
        await expectError(.connectionReset) { _ = try await pair.client.read() }
      }
      await expectError(.connectionReset) { try await pair.client.write([1]) }
    }
  }
}
