internal import CLinux
import Glibc

/// A socket that somebody else owns, for the calls on it: every method is one system call, named after it. EINTR is
/// retried.
package struct Socket: Sendable {
  /// The number that the kernel knows it by.
  package let number: Int32

  package init(_ number: Int32) { self.number = number }
}

extension Descriptor {
  /// socket(2): a nonblocking stream socket that a child process does not inherit.
  package static func streamSocket(family: Int32) throws(SystemError) -> Descriptor {
    let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    return Descriptor(owning: try check(Glibc.socket(family, type, 0), "socket"))
  }
}

extension Socket {
  /// bind(2)
  package func bind(to address: SocketAddress) throws(SystemError) {
    // SAFETY: the address is valid for its length during the call.
    _ = try check(unsafe address.withKernelAddress { unsafe Glibc.bind(number, $0, $1) }, "bind")
  }

  /// listen(2)
  package func listen(backlog: Int32) throws(SystemError) {
    _ = try check(Glibc.listen(number, backlog), "listen")
  }

  /// connect(2), which for a nonblocking socket is only begun.
  ///
  /// - Returns: Whether the connection is there already (unix sockets, often); otherwise writability tells.
  package func connect(to address: SocketAddress) throws(SystemError) -> Bool {
    // SAFETY: the address is valid for its length during the call.
    if unsafe address.withKernelAddress({ unsafe Glibc.connect(number, $0, $1) }) == 0 { return true }
    let error = errno
    // An interrupted connect(2) goes on in the background like any other nonblocking one.
    if error == EINPROGRESS || error == EINTR { return false }
    throw SystemError(call: "connect", errno: error)
  }

  /// accept4(2): the connection, nonblocking, and the address of its peer; `nil` when none waits.
  package func accept() throws(SystemError) -> Accepted? {
    var storage = sockaddr_storage()
    var length = UInt32(MemoryLayout<sockaddr_storage>.size)
    // SAFETY: `storage` and `length` are valid for the call, which writes no more than `length` says.
    let result = unsafe withUnsafeMutablePointer(to: &storage) { pointer in
      Int32(clamping: retryingInterrupts { Int(unsafe clinux_accept(number, pointer, &length)) })
    }
    if result >= 0 {
      let descriptor = Descriptor(owning: result)
      // SAFETY: the kernel filled `storage` up to `length`.
      let peer = unsafe withUnsafePointer(to: &storage) { unsafe SocketAddress(storage: $0, length: length) }
      return Accepted(descriptor: descriptor, peer: peer)
    }
    if -result == EAGAIN { return nil }
    throw SystemError(call: "accept4", errno: -result)
  }

  /// A connection that accept4(2) brought.
  package struct Accepted: ~Copyable {
    /// The connection.
    package let descriptor: Descriptor
    /// Where it came from; `nil` when the kernel did not say.
    package let peer: SocketAddress?

    /// Takes the descriptor out.
    package consuming func take() -> Descriptor { descriptor }
  }

  /// shutdown(2) of the sending side: the peer sees the end of the stream behind the bytes sent.
  package func shutdownWriting() throws(SystemError) {
    _ = try check(shutdown(number, Int32(SHUT_WR)), "shutdown")
  }

  /// shutdown(2) of both sides: the peer sees the end of the stream behind the bytes sent, and on a unix socket the peer can
  /// send nothing more. Bytes that it sent before can still be received.
  package func shutdownBoth() throws(SystemError) {
    _ = try check(shutdown(number, Int32(SHUT_RDWR)), "shutdown")
  }

  /// getsockname(2)
  package func localAddress() throws(SystemError) -> SocketAddress? {
    // SAFETY: `address` gives pointers that are valid for the call.
    unsafe try address("getsockname") { unsafe getsockname($0, $1, $2) }
  }

  /// getpeername(2)
  package func remoteAddress() throws(SystemError) -> SocketAddress? {
    // SAFETY: as above.
    unsafe try address("getpeername") { unsafe getpeername($0, $1, $2) }
  }

  private func address(
    _ call: String, _ body: (Int32, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32
  ) throws(SystemError) -> SocketAddress? {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    // SAFETY: sockaddr_storage is what the sockets API lets any sockaddr be read as; its length goes along.
    let result = unsafe withUnsafeMutablePointer(to: &storage) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe body(number, $0, &length) }
    }
    _ = try check(result, call)
    // SAFETY: the kernel filled `storage` up to `length`.
    return unsafe withUnsafePointer(to: &storage) { unsafe SocketAddress(storage: $0, length: length) }
  }

  /// fcntl(2): makes a descriptor from elsewhere nonblocking, and keeps child processes from inheriting it.
  package func makeNonblocking() throws(SystemError) {
    let flags = try check(fcntl(number, F_GETFL), "fcntl")
    _ = try check(fcntl(number, F_SETFL, flags | O_NONBLOCK), "fcntl")
    try closeOnExec()
  }

  /// fcntl(2): keeps child processes from inheriting it.
  package func closeOnExec() throws(SystemError) {
    _ = try check(fcntl(number, F_SETFD, FD_CLOEXEC), "fcntl")
  }

  /// ioctl(2) FIONREAD: the bytes that wait to be received.
  package func receivableBytes() -> Int {
    var count: Int32 = 0
    // SAFETY: FIONREAD writes one int, which `count` is.
    return unsafe ioctl(number, UInt(FIONREAD), &count) == 0 ? Int(count) : 0
  }

  /// ioctl(2) SIOCOUTQ, tcp(7): the bytes that wait to be sent or acknowledged; an end that was sent counts as one.
  package func unacknowledgedBytes() -> Int {
    var count: Int32 = 0
    // SAFETY: SIOCOUTQ, which is TIOCOUTQ, writes one int, which `count` is.
    return unsafe ioctl(number, UInt(TIOCOUTQ), &count) == 0 ? Int(count) : 0
  }
}
