import ActorSockets
import ActorSocketsTesting
import EpollReactor
import Glibc
import SocketSystem
import TestSupport
import Testing

// What a peer can do to a connection, with a raw socket as the peer.

@Suite(.endsInTime) struct PeerTests {
  @Test func `Bytes that came before a reset can still be read`() async throws {
    for waits in [true, false] {
      let (connection, peer) = try RawSocket.peerOfConnection()
      if waits { _ = await connection.state }
      try peer.send("before")
      peer.reset()
      #expect(try await connection.read(exactly: 6) == Array("before".utf8))
      await expectError(.connectionReset) { _ = try await connection.read() }
      await expectError(.connectionReset) { try await connection.write([1]) }
      guard case .reset = try await connection.closed.reason else { Issue.record("no reset"); return }
    }
  }

  @Test(arguments: [SocketAddress.ipv4(.loopback, port: 0), .ipv6(.loopback, port: 0)])
  func `An abort resets although nothing waits to be read`(address: SocketAddress) async throws {
    let (connection, peer) = try RawSocket.peerOfConnection(at: address)
    await connection.abort()
    await #expect(throws: SystemError.self) { try await peer.receive() }
  }

  @Test func `A reset ends a read and a write that wait, each once`() async throws {
    let (connection, peer) = try RawSocket.peerOfConnection()
    try await connection.narrow()
    let reading = Task.immediate { _ = try await connection.read(exactly: 100) }
    let writing = Task.immediate { try await connection.write(pattern(16 * tooMuch)) }
    try peer.send("part")
    try await connection.hasBuffered(4)
    try await eventually("the write waits") { await connection.status.unsentBytes > 0 }
    peer.reset()
    await expectError(.connectionReset) { try await reading.value }
    let error = await expectError(.connectionReset) { try await writing.value }
    #expect(error.bytesTransferred > 0)
    #expect(await connection.takeBuffered() == Array("part".utf8))
  }

  @Test func `A peer that closes while it is written to is noticed`() async throws {
    let (connection, peer) = try RawSocket.peerOfConnection()
    peer.close()
    await expectError(.connectionReset) { while true { try await connection.write(pattern(1000)) } }
  }

  @Test(arguments: 1...20)
  func `Data and the end in one event are both seen`(length: Int) async throws {
    let reactor = Reactor()
    let (connection, peer) = try RawSocket.peerOfConnection(on: reactor)
    let reading = Task.immediate { try await connection.readToEnd() }
    // Both are there before the reactor looks.
    await Task(executorPreference: reactor) {
      try? peer.send(pattern(length * 5000))
      peer.finishWriting()
    }.value
    #expect(try await reading.value == pattern(length * 5000))
    try await connection.peerFinishedWriting()
  }

  @Test func `An urgent byte in the middle holds nothing up`() async throws {
    let (connection, peer) = try RawSocket.peerOfConnection()
    let reading = Task.immediate { try await connection.read(exactly: 10) }
    try peer.send("12345")
    try await connection.hasBuffered(5)
    try peer.sendUrgent(33)
    try peer.send("67890abc")
    #expect(try await reading.value == Array("1234567890".utf8))
    #expect(try await connection.read(exactly: 3) == Array("abc".utf8))
    for round in 0..<100 {
      try peer.send("x")
      if round % 7 == 0 { try peer.sendUrgent(34) }
      try peer.send("y")
      #expect(try await connection.read(exactly: 2) == Array("xy".utf8))
    }
  }

  @Test func `A descriptor in the middle of a unix stream holds nothing up`() async throws {
    let (connection, peer) = try StreamSocket.unix.connection()
    for round in 0..<50 {
      try peer.send("12345")
      try peer.sendDescriptor(along: "6")
      try peer.send("7890")
      #expect(try await connection.read(exactly: 10) == Array("1234567890".utf8), "round \(round)")
    }
    peer.close()
    #expect(try await connection.read() == nil)
  }

  @Test func `A write that waits fails when the peer of a unix socket stops reading`() async throws {
    let time = ManualTime()
    let (connection, peer) = try StreamSocket.unix.connection(on: time.reactor)
    let writing = Task { try await connection.write(pattern(tooMuch)) }
    try await eventually("the socket is full") { await connection.status.queuedWrites == 1 }
    shutdown(peer.number, Int32(SHUT_RD))
    await time.advance(by: .seconds(1))
    await expectError(.connectionReset) { try await writing.value }
  }

  @Test func `A read with timeout zero finds bytes in the kernel that were not announced`() async throws {
    let reactor = Reactor()
    let (connection, peer) = try RawSocket.peerOfConnection(on: reactor)
    _ = await connection.state
    try await Task(executorPreference: reactor) {
      for round in 0..<10 {
        try peer.send("round \(round)")
        #expect(try await connection.read(upTo: 100, timeout: .zero) == Array("round \(round)".utf8))
        await expectError(.timedOut) { _ = try await connection.read(upTo: 100, timeout: .zero) }
      }
    }.value
  }

  @Test func `A connection that is over and not read costs nothing`() async throws {
    let reactor = Reactor()
    for ending in 0..<3 {
      let (connection, peer) = try RawSocket.peerOfConnection(on: reactor)
      _ = await connection.state
      try peer.send("unread")
      switch ending {
      case 0: peer.close()
      case 1: peer.reset()
      default:
        try await connection.finishWriting()
        peer.close()
      }
      try await reactor.sleeps()
      await connection.abort()
    }
  }

  @Test func `Closing waits two seconds at most for a peer that does not finish`() async throws {
    let time = ManualTime()
    let (connection, peer) = try RawSocket.peerOfConnection(on: time.reactor)
    _ = await connection.state
    let closing = Task.immediate { await connection.close() }
    #expect(try await peer.receiveToEnd() == [])
    await time.advance(by: .milliseconds(1999))
    _ = try await connection.withFileDescriptor { $0 }
    await time.advance(by: .milliseconds(1))
    await expectError(.closed) { _ = try await connection.withFileDescriptor { $0 } }
    await closing.value
  }

  @Test func `A peer that sends on and on does not keep a connection from closing`() async throws {
    let (connection, peer) = try RawSocket.peerOfConnection()
    let isOver = Gate()
    try startThread(name: "sender") {
      // Ends when the connection is gone.
      while (try? peer.send(pattern(10_000))) != nil {}
      isOver.open()
    }
    await connection.close()
    #expect(await connection.state == .closed)
    await isOver.wait()
  }

  @Test func `An error does not print what a peer sent`() async throws {
    let (connection, peer) = try RawSocket.peerOfConnection()
    try peer.send([0xff, 27, 0x0a])
    let error = await expectError(.invalidUTF8) { for try await _ in connection.lines {} }
    #expect(error.bytes == [0xff, 27])
    #expect(error.description.unicodeScalars.allSatisfy { $0.value >= 32 && $0.value < 127 })
  }

  @Test(arguments: [true, false])
  func `A reset that a read meets before its event ends all that waits`(looks: Bool) async throws {
    let reactor = Reactor()
    let configuration = TCPConnection.Configuration { $0.writeBudget = 32 * tooMuch }
    let (connection, peer) = try RawSocket.peerOfConnection(configuration: configuration, on: reactor)
    try await connection.narrow()
    let writing = Task.immediate { try await connection.write(pattern(16 * tooMuch)) }
    let behind = Task.immediate { try await connection.write([1]) }
    let pending = connection.enqueueWrite([2])
    let finishing = Task.immediate { try await connection.finishWriting() }
    try await eventually("all wait") { await connection.status.queuedWrites == 4 }
    // In one iteration of the reactor, which has not heard of the reset. The outcome of the read is not checked.
    await Task(executorPreference: reactor) {
      peer.reset()
      if looks {
        _ = try? await connection.withBytes(timeout: .zero) { _, _ in }
      } else {
        _ = try? await connection.read(upTo: 1, timeout: .zero)
      }
    }.value
    for call in [writing, behind, finishing] { await expectError(.connectionReset) { try await call.value } }
    await expectError(.connectionReset) { try await pending.value }
    guard case .reset = try await connection.closed.reason else { Issue.record("no reset"); return }
  }
}

extension RawSocket {
  /// Sends text with a descriptor, that of standard error, attached: unix(7).
  fileprivate func sendDescriptor(along text: String) throws {
    // struct cmsghdr: length, level, type; and the descriptor, filled up to eight bytes.
    var control: [UInt64] = [20, UInt64(SOL_SOCKET) | UInt64(SCM_RIGHTS) << 32, 2]
    var bytes = Array(text.utf8)
    let count = bytes.count
    // SAFETY: the message points into two arrays that live and lie still until sendmsg returns, which only reads them.
    let sent = unsafe bytes.withUnsafeMutableBytes { bytes in
      unsafe control.withUnsafeMutableBytes { control in
        var vector = unsafe iovec(iov_base: bytes.baseAddress, iov_len: bytes.count)
        return unsafe withUnsafeMutablePointer(to: &vector) { vector in
          var message = unsafe msghdr()
          unsafe message.msg_iov = vector
          unsafe message.msg_iovlen = 1
          unsafe message.msg_control = control.baseAddress
          unsafe message.msg_controllen = control.count
          return unsafe sendmsg(number, &message, 0)
        }
      }
    }
    if sent != count { throw SystemError(call: "sendmsg", errno: errno) }
  }
}
