import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite(.endsInTime, .tags(.manualMemory)) struct AdoptTests {
  @Test func `A connected socket of any family can be adopted`() async throws {
    let pairs = [
      try RawSocket.pair(on: .ipv4(.loopback, port: 0)), try RawSocket.pair(on: .ipv6(.loopback, port: 0)),
      try RawSocket.unixPair(),
    ]
    for (near, peer) in pairs {
      let number = near.release()
      let connection = try TCPConnection.adopt(fileDescriptor: number)
      try peer.send("hello\n")
      #expect(try await connection.read(until: .lf) == Array("hello\n".utf8))
      try await connection.write(utf8: "bye")
      try await connection.finishWriting()
      #expect(try await peer.receiveToEnd() == Array("bye".utf8))
      #expect(try await connection.withFileDescriptor { $0 } == number)
      peer.close()
      await connection.close()
      await expectError(.closed) { try await connection.withFileDescriptor { _ in } }
    }
  }

  @Test func `A descriptor that is owned is adopted, or closed if it is refused`() async throws {
    let (near, peer) = try RawSocket.pair()
    let connection = try TCPConnection.adopt(OwnedDescriptor(owning: near.release()))
    try peer.send("hello\n")
    #expect(try await connection.read(until: .lf) == Array("hello\n".utf8))
    await connection.close()
    let listener = try TCPListener.adopt(OwnedDescriptor(owning: RawSocket.listening().release()))
    let client = try await TCPConnection.connect(to: .address(listener.localAddresses[0]))
    _ = try await listener.accept()
    await client.close()
    await listener.close()
    let endpoint = try UDPEndpoint.adopt(OwnedDescriptor.datagramSocket(family: SocketKind.ipv4))
    await endpoint.close()

    let ends = try pipeEnds()
    await expectError(.notASocket) { _ = try TCPConnection.adopt(OwnedDescriptor(owning: dup(ends.writing))) }
    await expectError(.notASocket) { _ = try TCPListener.adopt(OwnedDescriptor(owning: dup(ends.writing))) }
    await expectError(.notASocket) { _ = try UDPEndpoint.adopt(OwnedDescriptor(owning: ends.writing)) }
    // All writing ends are closed, so the pipe has ended.
    var byte: UInt8 = 0
    // SAFETY: the byte is valid for the call.
    #expect(unsafe read(ends.reading, &byte, 1) == 0)
    close(ends.reading)
  }

  enum Unfit { case none, closed, pipe, file, datagram, sequence, netlink, listening, unconnected, connected }

  /// A descriptor that is no connection, no listener or no datagram socket.
  private func make(_ unfit: Unfit) throws -> (number: Int32, others: [RawSocket]) {
    switch unfit {
    case .none: return (-1, [])
    case .closed: return (1_000_000, [])
    case .pipe:
      let ends = try pipeEnds()
      return (ends.reading, [RawSocket(owning: ends.writing)])
    // SAFETY: the text is valid for the call.
    case .file: return (unsafe open("/proc/self/stat", O_RDONLY), [])
    case .datagram: return (socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0), [])
    case .sequence: return (socket(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue), 0), [])
    case .netlink: return (socket(AF_NETLINK, Int32(SOCK_DGRAM.rawValue), 0), [])
    case .listening: return (try RawSocket.listening().release(), [])
    case .unconnected: return (socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0), [])
    case .connected:
      let (near, far) = try RawSocket.pair()
      return (near.release(), [far])
    }
  }

  @Test(
    arguments: [
      (.none, .invalidArgument, "is not open"), (.closed, .invalidArgument, "is not open"),
      (.pipe, .notASocket, "is a pipe, not a socket"), (.file, .notASocket, "is a regular file, not a socket"),
      (.datagram, .invalidArgument, "for datagrams; use UDPEndpoint.adopt"),
      (.sequence, .invalidArgument, "is a socket for packets, not for a stream of bytes"),
    ] as [(Unfit, SocketError.Code, String)])
  func `A descriptor that is no stream socket stays the caller's, as it was`(
    unfit: Unfit, code: SocketError.Code, part: String
  ) async throws {
    try await expectUntouched(unfit, code, part) { _ = try TCPConnection.adopt(fileDescriptor: $0) }
    try await expectUntouched(unfit, code, part) { _ = try TCPListener.adopt(fileDescriptor: $0) }
  }

  @Test func `A stream socket of another kind stays the caller's, as it was`() async throws {
    for (unfit, part) in [(Unfit.listening, "use TCPListener.adopt"), (.unconnected, "not connected")] {
      try await expectUntouched(unfit, .invalidArgument, part) { _ = try TCPConnection.adopt(fileDescriptor: $0) }
    }
    for (unfit, part) in [(Unfit.connected, "use TCPConnection.adopt"), (.unconnected, "does not listen")] {
      try await expectUntouched(unfit, .invalidArgument, part) { _ = try TCPListener.adopt(fileDescriptor: $0) }
    }
  }

  @Test(
    arguments: [
      (.none, .invalidArgument, "is not open"), (.closed, .invalidArgument, "is not open"),
      (.pipe, .notASocket, "is a pipe, not a socket"), (.file, .notASocket, "is a regular file, not a socket"),
      (.sequence, .invalidArgument, "is a socket for packets, not for datagrams"),
      (.netlink, .invalidArgument, "has an address family that is not supported"),
      (.listening, .invalidArgument, "use TCPListener.adopt"),
      (.connected, .invalidArgument, "use TCPConnection.adopt"),
      (.unconnected, .invalidArgument, "is a socket for a stream of bytes, not for datagrams"),
    ] as [(Unfit, SocketError.Code, String)])
  func `A descriptor that is no datagram socket stays the caller's, as it was`(
    unfit: Unfit, code: SocketError.Code, part: String
  ) async throws {
    try await expectUntouched(unfit, code, part) { _ = try UDPEndpoint.adopt(fileDescriptor: $0) }
  }

  private func expectUntouched(
    _ unfit: Unfit, _ code: SocketError.Code, _ part: String, _ adopt: (Int32) throws -> Void
  ) async throws {
    let (number, others) = try make(unfit)
    let before = Flags(of: number)
    let error = await expectError(code) { try adopt(number) }
    #expect(error.description.contains("descriptor \(number) ") && error.description.contains(part), "\(error)")
    #expect(Flags(of: number) == before)
    if unfit != .none, unfit != .closed {
      #expect(before.ofFile >= 0 && before.ofFile & O_NONBLOCK == 0)
      close(number)
    }
    for other in others { other.close() }
  }

  struct Flags: Equatable {
    let ofFile: Int32
    let ofDescriptor: Int32

    init(of number: Int32) {
      ofFile = fcntl(number, F_GETFL)
      ofDescriptor = fcntl(number, F_GETFD)
    }
  }

  @Test(arguments: [SocketAddress.ipv4(.loopback, port: 0), .ipv6(.loopback, port: 0)])
  func `A socket that listens is adopted with what waits in its backlog`(address: SocketAddress) async throws {
    let raw = try RawSocket.listening(on: address)
    let bound = try raw.address
    let early = try RawSocket.connected(to: bound)
    let number = raw.release()
    let listener = try TCPListener.adopt(fileDescriptor: number)
    #expect(listener.localAddresses == [bound])
    #expect(try await listener.accept().remoteAddress == early.address)
    let flags = Flags(of: number)
    #expect(flags.ofFile & O_NONBLOCK != 0 && flags.ofDescriptor == FD_CLOEXEC)
    let waiting = Task.immediate { try await listener.accept() }
    let late = try RawSocket.connected(to: bound)
    let server = try await waiting.value
    #expect(try server.remoteAddress == late.address)
    try late.send("hello")
    #expect(try await server.read(exactly: 5) == Array("hello".utf8))
    await listener.close()
    #expect(throws: SystemError.self) { try RawSocket.connected(to: bound) }
  }

  /// Of a file that another descriptor keeps open, close(2) does not remove the registration: epoll(7), questions and answers.
  @Test func `A closed listener whose socket stays open elsewhere wakes the reactor no more`() async throws {
    let number = try RawSocket.listening().release()
    let kept = dup(number)
    defer { close(kept) }
    let listener = try TCPListener.adopt(fileDescriptor: number)
    let waiting = Task.immediate { _ = try await listener.accept() }
    try await eventually("it is registered") { try epollsWatching(kept) == 1 }
    await listener.close()
    await expectError(.closed) { try await waiting.value }
    #expect(try epollsWatching(kept) == 0)
  }

  @Test func `The file of an adopted listener stays`() async throws {
    let folder = try SocketFolder()
    let address = SocketAddress.unix(try UnixPath(parsing: folder()))
    let listener = try TCPListener.adopt(fileDescriptor: RawSocket.listening(on: address).release())
    #expect(listener.localAddresses == [address])
    let client = try await TCPConnection.connect(to: .unix(path: folder()))
    try await client.write([1])
    #expect(try await listener.accept().read() == [1])
    await listener.close()
    #expect(folder.names == ["socket"])
  }

  @Test func `An adopted listener is closed with its reactor`() async throws {
    let reactor = Reactor()
    reactor.shutdown()
    let listener = try TCPListener.adopt(fileDescriptor: RawSocket.listening().release(), reactor: reactor)
    await expectError(.reactorShutDown) { _ = try await listener.accept() }
  }
}
