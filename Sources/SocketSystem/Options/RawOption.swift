import Glibc

/// A socket option as the kernel names it: setsockopt(2), getsockopt(2). The options listed here have one C `int` as
/// their value, and cost nothing but the system call. Users of the library have `SocketOption`.
package struct RawOption: Hashable, Sendable {
  package let level: Int32
  package let name: Int32

  /// SO_REUSEADDR: bind although connections of an earlier listener are in TIME_WAIT.
  package static var reuseAddress: RawOption { RawOption(level: SOL_SOCKET, name: SO_REUSEADDR) }
  /// SO_REUSEPORT: several sockets listen on the same port.
  package static var reusePort: RawOption { RawOption(level: SOL_SOCKET, name: SO_REUSEPORT) }
  /// SO_ERROR: the pending error, which reading clears.
  package static var pendingError: RawOption { RawOption(level: SOL_SOCKET, name: SO_ERROR) }
  /// SO_TYPE: SOCK_STREAM and so on.
  package static var type: RawOption { RawOption(level: SOL_SOCKET, name: SO_TYPE) }
  /// SO_PROTOCOL: IPPROTO_TCP and so on.
  package static var `protocol`: RawOption { RawOption(level: SOL_SOCKET, name: SO_PROTOCOL) }
  /// SO_DOMAIN: AF_INET and so on.
  package static var domain: RawOption { RawOption(level: SOL_SOCKET, name: SO_DOMAIN) }
  /// SO_PEERCRED: the process at the other end of a unix socket. Its value is a struct ucred.
  package static var peerCredentials: RawOption { RawOption(level: SOL_SOCKET, name: SO_PEERCRED) }
  /// SO_ACCEPTCONN: whether the socket listens.
  package static var isListening: RawOption { RawOption(level: SOL_SOCKET, name: SO_ACCEPTCONN) }
  /// SO_SNDBUF: the bytes the kernel keeps for sending; it doubles what is set.
  package static var sendBuffer: RawOption { RawOption(level: SOL_SOCKET, name: SO_SNDBUF) }
  /// SO_RCVBUF: the bytes the kernel keeps for receiving; it doubles what is set.
  package static var receiveBuffer: RawOption { RawOption(level: SOL_SOCKET, name: SO_RCVBUF) }
  /// TCP_NODELAY: send small segments at once.
  package static var noDelay: RawOption { RawOption(level: Int32(IPPROTO_TCP), name: TCP_NODELAY) }
  /// IP_BIND_ADDRESS_NO_PORT: bind(2) chooses no port; connect(2) chooses a free one.
  package static var bindAddressNoPort: RawOption { RawOption(level: Int32(IPPROTO_IP), name: 24) }
  /// IPV6_V6ONLY: an IPv6 socket does not serve IPv4.
  package static var ipv6Only: RawOption { RawOption(level: Int32(IPPROTO_IPV6), name: IPV6_V6ONLY) }
  /// SO_LINGER: what close(2) does with unsent bytes. Its value is a struct linger.
  package static var linger: RawOption { RawOption(level: SOL_SOCKET, name: SO_LINGER) }
  /// UDP_SEGMENT: the length of the datagrams that the kernel divides a message into. Linux 4.18 and later.
  package static var segmentSize: RawOption { RawOption(level: Int32(IPPROTO_UDP), name: 103) }
  /// UDP_GRO: the kernel joins datagrams of one length and sender into a message. Linux 5.0 and later.
  package static var joinsReceived: RawOption { RawOption(level: Int32(IPPROTO_UDP), name: 104) }
}

extension RawOption {
  /// The value of `linger` for a number of seconds, with 0 of which close(2) resets; `nil` turns the option off.
  package static func lingerValue(seconds: Int32?) -> [UInt8] {
    Int32(seconds == nil ? 0 : 1).kernelBytes + (seconds ?? 0).kernelBytes
  }

  /// Returns whether close(2) of a socket with this option would wait for the peer.
  func blocksOnClose(with value: [UInt8]) -> Bool {
    let size = MemoryLayout<Int32>.size
    guard self == .linger, value.count >= 2 * size else { return false }
    return Int32(kernelBytes: value) != 0 && Int32(kernelBytes: Array(value.dropFirst(size))) != 0
  }
}

extension BorrowedDescriptor {
  /// Sets an option whose value is an `int`: setsockopt(2).
  package func set(_ option: RawOption, to value: Int32) throws(SystemError) {
    try call("setsockopt") { $0.setOption(option, of: number, to: value) }
  }

  /// Sets an option whose value has any type: setsockopt(2).
  package func set(_ option: RawOption, to bytes: [UInt8]) throws(SystemError) {
    try call("setsockopt") { $0.setOption(option, of: number, to: bytes) }
  }

  /// Returns the value of an option whose value is an `int`: getsockopt(2).
  package func get(_ option: RawOption) throws(SystemError) -> Int32 {
    let (result, value) = CurrentSystem.of(number) { $0.option(option, of: number) }
    try check(result, "getsockopt")
    return value
  }

  /// Returns the value of an option, at most `count` bytes: getsockopt(2).
  package func get(_ option: RawOption, atMost count: Int) throws(SystemError) -> [UInt8] {
    let (result, value) = CurrentSystem.of(number) { $0.option(option, of: number, atMost: count) }
    try check(result, "getsockopt")
    return value
  }

  /// Restricts the socket to the interface with this name: SO_BINDTODEVICE.
  package func bind(toDevice name: String) throws(SystemError) {
    try set(RawOption(level: SOL_SOCKET, name: SO_BINDTODEVICE), to: Array(name.utf8))
  }

  /// Makes close(2) send RST and discard unsent bytes: SO_LINGER with a time of zero.
  package func resetOnClose() throws(SystemError) {
    try set(.linger, to: RawOption.lingerValue(seconds: 0))
  }

  /// Returns whether close(2) would wait for the peer, on any thread: SO_LINGER with a time above zero.
  package func blocksOnClose() throws(SystemError) -> Bool {
    RawOption.linger.blocksOnClose(with: try get(.linger, atMost: 2 * MemoryLayout<Int32>.size))
  }

  /// Makes close(2) return at once: SO_LINGER.
  package func stopBlockingOnClose() throws(SystemError) {
    try set(.linger, to: RawOption.lingerValue(seconds: nil))
  }

  /// Returns whether the socket is a byte stream: SO_TYPE.
  package func isStream() throws(SystemError) -> Bool {
    try get(.type) == Int32(SOCK_STREAM.rawValue)
  }

  /// Returns whether the socket is a TCP socket: SO_PROTOCOL. There are other byte streams, even over IP.
  package func isTCP() throws(SystemError) -> Bool {
    try get(.protocol) == Int32(IPPROTO_TCP)
  }
}
