internal import CLinux
import Glibc

/// A borrowed socket, for the calls on it. Another value owns the descriptor, and must live at least as long.
///
/// Each method makes one system call and has its name. An interrupted call (EINTR) is repeated.
package struct BorrowedDescriptor: Sendable {
  /// The number of the descriptor in this process.
  package let number: Int32

  package init(_ number: Int32) { self.number = number }
}

extension OwnedDescriptor {
  /// Creates a nonblocking stream socket that child processes do not inherit: socket(2).
  package static func streamSocket(family: Int32) throws(SystemError) -> OwnedDescriptor {
    if let simulation = SimulatedDescriptors.system {
      let number = simulation.socket(family: family, type: Int32(SOCK_STREAM.rawValue))
      if number < 0 { throw SystemError(call: "socket", errno: -number) }
      return OwnedDescriptor(owning: number)
    }
    let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    return try OwnedDescriptor(new: try check(Glibc.socket(family, type, 0), "socket"))
  }
}

extension BorrowedDescriptor {
  /// Binds the socket to an address: bind(2).
  package func bind(to address: SocketAddress) throws(SystemError) {
    if isSimulated {
      _ = try simulated("bind") { $0.bind(number, to: address) }
      return
    }
    // SAFETY: the address is valid for its length during the call.
    _ = try check(unsafe address.withKernelAddress { unsafe Glibc.bind(number, $0, $1) }, "bind")
  }

  /// Listens for connections: listen(2).
  package func listen(backlog: Int32) throws(SystemError) {
    if isSimulated {
      _ = try simulated("listen") { $0.listen(number, backlog: backlog) }
      return
    }
    _ = try check(Glibc.listen(number, backlog), "listen")
  }

  /// Begins to connect: connect(2). The socket is nonblocking, so the call does not wait.
  ///
  /// - Returns: Whether the socket is connected already, which is common for unix sockets. If not, it becomes writable
  ///   when the attempt has ended.
  package func connect(to address: SocketAddress) throws(SystemError) -> Bool {
    if isSimulated {
      let result = SimulatedDescriptors.system?.connect(number, to: address) ?? -EBADF
      if result >= 0 || -result == EINPROGRESS { return result >= 0 }
      throw SystemError(call: "connect", errno: -result)
    }
    // SAFETY: the address is valid for its length during the call.
    if unsafe address.withKernelAddress({ unsafe Glibc.connect(number, $0, $1) }) == 0 { return true }
    let error = errno
    // An interrupted connect(2) continues in the background, as any nonblocking one does.
    if error == EINPROGRESS || error == EINTR { return false }
    throw SystemError(call: "connect", errno: error)
  }

  /// Accepts a connection, which is nonblocking: accept4(2). Returns `nil` if none waits.
  package func accept() throws(SystemError) -> Accepted? {
    if isSimulated { return try acceptSimulated() }
    var storage = sockaddr_storage()
    var length = UInt32(MemoryLayout<sockaddr_storage>.size)
    // SAFETY: `storage` and `length` are valid for the call, which writes no more than `length` says.
    let result = unsafe withUnsafeMutablePointer(to: &storage) { pointer in
      Int32(clamping: retryingInterrupts { Int(unsafe clinux_accept(number, pointer, &length)) })
    }
    if result >= 0 {
      let descriptor = try OwnedDescriptor(new: result)
      // SAFETY: the kernel filled `storage` up to `length`.
      let peer = unsafe withUnsafePointer(to: &storage) { unsafe SocketAddress(storage: $0, length: length) }
      return Accepted(descriptor: descriptor, peer: peer)
    }
    if -result == EAGAIN { return nil }
    throw SystemError(call: "accept4", errno: -result)
  }

  private func acceptSimulated() throws(SystemError) -> Accepted? {
    let (result, peer) = SimulatedDescriptors.system?.accept(number) ?? (-EBADF, nil)
    if result >= 0 { return Accepted(descriptor: OwnedDescriptor(owning: result), peer: peer) }
    if -result == EAGAIN { return nil }
    throw SystemError(call: "accept4", errno: -result)
  }

  /// A connection from accept4(2).
  package struct Accepted: ~Copyable {
    /// The descriptor of the connection.
    package let descriptor: OwnedDescriptor
    /// The address of the peer, or `nil` if the kernel did not report it.
    package let peer: SocketAddress?

    /// Takes out the descriptor.
    package consuming func take() -> OwnedDescriptor { descriptor }
  }

  /// Shuts down the sending side: shutdown(2). The peer sees the end of the stream after the bytes sent.
  package func shutdownWriting() throws(SystemError) {
    try shutDown(Int32(SHUT_WR))
  }

  /// Shuts down both sides: shutdown(2). The peer sees the end of the stream after the bytes sent. The peer of a unix
  /// socket can send nothing more. Bytes that the peer sent before can still be received.
  package func shutdownBoth() throws(SystemError) {
    try shutDown(Int32(SHUT_RDWR))
  }

  private func shutDown(_ how: Int32) throws(SystemError) {
    if isSimulated {
      _ = try simulated("shutdown") { $0.shutdown(number, how: how) }
    } else {
      _ = try check(shutdown(number, how), "shutdown")
    }
  }

  /// Returns the socket's own address: getsockname(2).
  package func localAddress() throws(SystemError) -> SocketAddress? {
    if isSimulated { return try simulatedAddress("getsockname", isPeer: false) }
    // SAFETY: `address` gives pointers that are valid for the call.
    return unsafe try address("getsockname") { unsafe getsockname($0, $1, $2) }
  }

  /// Returns the peer's address: getpeername(2).
  package func remoteAddress() throws(SystemError) -> SocketAddress? {
    if isSimulated { return try simulatedAddress("getpeername", isPeer: true) }
    // SAFETY: as above.
    return unsafe try address("getpeername") { unsafe getpeername($0, $1, $2) }
  }

  private func simulatedAddress(_ call: String, isPeer: Bool) throws(SystemError) -> SocketAddress? {
    let (result, address) = SimulatedDescriptors.system?.address(of: number, isPeer: isPeer) ?? (-EBADF, nil)
    if result < 0 { throw SystemError(call: call, errno: -result) }
    return address
  }

  private func address(
    _ call: String, _ body: (Int32, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32
  ) throws(SystemError) -> SocketAddress? {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    // SAFETY: the sockets API allows any sockaddr to be read as a sockaddr_storage; its length is passed too.
    let result = unsafe withUnsafeMutablePointer(to: &storage) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe body(number, $0, &length) }
    }
    _ = try check(result, call)
    // SAFETY: the kernel filled `storage` up to `length`.
    return unsafe withUnsafePointer(to: &storage) { unsafe SocketAddress(storage: $0, length: length) }
  }

  /// Makes a socket from elsewhere nonblocking, and keeps child processes from inheriting it: fcntl(2).
  package func makeNonblocking() throws(SystemError) {
    if isSimulated { return }
    let flags = try check(fcntl(number, F_GETFL), "fcntl")
    _ = try check(fcntl(number, F_SETFL, flags | O_NONBLOCK), "fcntl")
    try closeOnExec()
  }

  /// Keeps child processes from inheriting the socket: fcntl(2).
  package func closeOnExec() throws(SystemError) {
    if isSimulated { return }
    _ = try check(fcntl(number, F_SETFD, FD_CLOEXEC), "fcntl")
  }

  /// Returns the number of bytes that wait to be received: FIONREAD of ioctl(2).
  package func receivableBytes() -> Int {
    var count: Int32 = 0
    if isSimulated { return SimulatedDescriptors.system?.receivableBytes(number) ?? 0 }
    // SAFETY: FIONREAD writes one int, which `count` is.
    return unsafe ioctl(number, UInt(FIONREAD), &count) == 0 ? Int(count) : 0
  }

  /// Returns whether bytes wait to be received: recv(2) with MSG_PEEK.
  ///
  /// FIONREAD cannot tell after an urgent byte. On a TCP socket that was read up to such a byte it says 0, whatever came after the
  /// byte. On a unix socket it counts the urgent byte, which recv(2) skips.
  package func hasReceivableBytes() -> Bool {
    // A question has no faults.
    if isSimulated, !isOfKernel { return receivableBytes() > 0 }
    var byte: UInt8 = 0
    // SAFETY: recv writes at most the one byte that there is room for.
    return retryingInterrupts { unsafe clinux_peek(kernelNumber, &byte, 1) } > 0
  }

  /// Returns the number of bytes that wait to be sent or acknowledged: SIOCOUTQ of ioctl(2), tcp(7). An end of the
  /// stream that was sent counts as one byte until it is acknowledged.
  package func unacknowledgedBytes() -> Int {
    var count: Int32 = 0
    if isSimulated { return SimulatedDescriptors.system?.unacknowledgedBytes(number) ?? 0 }
    // SAFETY: SIOCOUTQ, which is TIOCOUTQ, writes one int, which `count` is.
    return unsafe ioctl(number, UInt(TIOCOUTQ), &count) == 0 ? Int(count) : 0
  }
}
