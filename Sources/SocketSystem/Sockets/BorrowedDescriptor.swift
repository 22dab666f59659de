import Glibc

/// A borrowed socket. Another value owns the descriptor, and must live at least as long.
package struct BorrowedDescriptor: Sendable {
  package let number: Int32

  package init(_ number: Int32) { self.number = number }
}

extension OwnedDescriptor {
  package static func streamSocket(family: Int32) throws(SystemError) -> OwnedDescriptor {
    try socket(family: family, type: Int32(SOCK_STREAM.rawValue))
  }

  package static func datagramSocket(family: Int32) throws(SystemError) -> OwnedDescriptor {
    try socket(family: family, type: Int32(SOCK_DGRAM.rawValue))
  }

  /// A nonblocking socket that becomes readable when an interface or an address of one changes: rtnetlink(7).
  package static func interfaceSocket() throws(SystemError) -> OwnedDescriptor {
    OwnedDescriptor(owning: try check(CurrentSystem.calls.interfaceSocket(), "socket"))
  }

  private static func socket(family: Int32, type: Int32) throws(SystemError) -> OwnedDescriptor {
    OwnedDescriptor(owning: try check(CurrentSystem.calls.socket(family: family, type: type), "socket"))
  }
}

extension BorrowedDescriptor {
  /// Makes a call in the system that the descriptor belongs to. `name` is the call's name.
  @inline(__always)
  @discardableResult
  func call(_ name: String, _ body: (any SystemCalls) -> Int32) throws(SystemError) -> Int32 {
    try check(CurrentSystem.of(number, body), name)
  }

  /// The unnamed unix address asks for an abstract name that the kernel chooses: "autobind" in unix(7).
  package func bind(to address: SocketAddress) throws(SystemError) { try call("bind") { $0.bind(number, to: address) } }

  package func listen(backlog: Int32) throws(SystemError) {
    try call("listen") { $0.listen(number, backlog: backlog) }
  }

  /// Returns whether the socket is connected already, which is common for unix sockets. If not, it becomes writable when the attempt has
  /// ended.
  package func connect(to address: SocketAddress) throws(SystemError) -> Bool {
    let result = CurrentSystem.of(number) { $0.connect(number, to: address) }
    if result == -EINPROGRESS { return false }
    try check(result, "connect")
    return true
  }

  /// Of a datagram socket: connect(2) to AF_UNSPEC.
  package func disconnect() throws(SystemError) { try call("connect") { $0.disconnect(number) } }

  /// Resets the connection of a TCP socket now, and discards unsent bytes: connect(2) to AF_UNSPEC. The peer sees a reset even while
  /// another process has a duplicate of the descriptor, for which close(2) sends nothing.
  package func reset() throws(SystemError) { try call("connect") { $0.reset(number) } }

  package func accept() throws(SystemError) -> Accepted? {
    let (result, peer) = CurrentSystem.of(number) { $0.accept(number) }
    if result == -EAGAIN { return nil }
    return Accepted(descriptor: OwnedDescriptor(owning: try check(result, "accept4")), peer: peer)
  }

  package struct Accepted: ~Copyable {
    package let descriptor: OwnedDescriptor
    /// `nil` if the kernel did not report it.
    package let peer: SocketAddress?

    package consuming func take() -> OwnedDescriptor { descriptor }
  }

  package func shutdownWriting() throws(SystemError) {
    try call("shutdown") { $0.shutdown(number, how: Int32(SHUT_WR)) }
  }

  /// The peer sees the end of the stream after the bytes sent. The peer of a unix socket can send nothing more. Bytes that the peer sent
  /// before can still be received.
  package func shutdownBoth() throws(SystemError) {
    try call("shutdown") { $0.shutdown(number, how: Int32(SHUT_RDWR)) }
  }

  package func localAddress() throws(SystemError) -> SocketAddress? {
    let (result, address) = CurrentSystem.of(number) { $0.address(of: number, isPeer: false) }
    try check(result, "getsockname")
    return address
  }

  package func remoteAddress() throws(SystemError) -> SocketAddress? {
    let (result, address) = CurrentSystem.of(number) { $0.address(of: number, isPeer: true) }
    try check(result, "getpeername")
    return address
  }

  /// For a socket from elsewhere, which child processes then do not inherit either: fcntl(2).
  package func makeNonblocking() throws(SystemError) { try call("fcntl") { $0.prepare(number, nonblocking: true) } }

  package func closeOnExec() throws(SystemError) { try call("fcntl") { $0.prepare(number, nonblocking: false) } }

  package func receivableBytes() -> Int { CurrentSystem.of(number) { $0.receivableBytes(number) } }

  /// recv(2) with MSG_PEEK. FIONREAD cannot tell after an urgent byte. On a TCP socket that was read up to such a byte it says 0,
  /// whatever came after the byte. On a unix socket it counts the urgent byte, which recv(2) skips.
  package func hasReceivableBytes() -> Bool { CurrentSystem.of(number) { $0.hasReceivableBytes(number) } }

  /// SIOCOUTQ of ioctl(2), tcp(7). An end of the stream that was sent counts as one byte until it is acknowledged.
  package func unacknowledgedBytes() -> Int { CurrentSystem.of(number) { $0.unacknowledgedBytes(number) } }

  /// The connections that wait for accept4(2): tcpi_unacked of TCP_INFO. The result is `most` if connections wait but the kernel does not
  /// report their number, as for a unix socket.
  package func waitingConnections(atMost most: Int) -> Int {
    if let info = try? tcpInfo() { return info.unacknowledgedSegments }
    return CurrentSystem.of(number) { $0.isReadable(number) } ? most : 0
  }
}
