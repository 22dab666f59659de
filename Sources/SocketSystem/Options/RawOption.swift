import Glibc

/// A socket option as the kernel names it: setsockopt(2), getsockopt(2). Those listed here have one C `int` as their
/// value, and cost nothing but the call; users have `SocketOption`.
package struct RawOption: Sendable {
  let level: Int32
  let name: Int32

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
  /// SO_ACCEPTCONN: whether the socket listens.
  package static var isListening: RawOption { RawOption(level: SOL_SOCKET, name: SO_ACCEPTCONN) }
  /// SO_SNDBUF: the bytes the kernel keeps for sending; it doubles what is set.
  package static var sendBuffer: RawOption { RawOption(level: SOL_SOCKET, name: SO_SNDBUF) }
  /// SO_RCVBUF: the bytes the kernel keeps for receiving; it doubles what is set.
  package static var receiveBuffer: RawOption { RawOption(level: SOL_SOCKET, name: SO_RCVBUF) }
  /// TCP_NODELAY: send small segments at once.
  package static var noDelay: RawOption { RawOption(level: Int32(IPPROTO_TCP), name: TCP_NODELAY) }
  /// IP_BIND_ADDRESS_NO_PORT: bind(2) leaves the choice of a free port to connect(2).
  package static var bindAddressNoPort: RawOption { RawOption(level: Int32(IPPROTO_IP), name: 24) }
  /// IPV6_V6ONLY: an IPv6 listener that leaves IPv4 alone.
  package static var ipv6Only: RawOption { RawOption(level: Int32(IPPROTO_IPV6), name: IPV6_V6ONLY) }
}

extension Socket {
  /// setsockopt(2)
  package func set(_ option: RawOption, to value: Int32) throws(SystemError) {
    var value = value
    let size = socklen_t(MemoryLayout<Int32>.size)
    // SAFETY: the option reads one int, which `value` is.
    _ = try check(unsafe setsockopt(number, option.level, option.name, &value, size), "setsockopt")
  }

  /// getsockopt(2)
  package func get(_ option: RawOption) throws(SystemError) -> Int32 {
    var value: Int32 = 0
    var size = socklen_t(MemoryLayout<Int32>.size)
    // SAFETY: the option writes one int, which `value` is.
    _ = try check(unsafe getsockopt(number, option.level, option.name, &value, &size), "getsockopt")
    return value
  }

  /// setsockopt(2) with a value of any kind.
  func set(_ option: RawOption, to bytes: [UInt8]) throws(SystemError) {
    // SAFETY: the option reads no more than the array has.
    let result = unsafe bytes.withUnsafeBytes {
      unsafe setsockopt(number, option.level, option.name, $0.baseAddress, socklen_t($0.count))
    }
    _ = try check(result, "setsockopt")
  }

  /// getsockopt(2) of a value of at most `count` bytes.
  func get(_ option: RawOption, atMost count: Int) throws(SystemError) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    var size = socklen_t(count)
    // SAFETY: the option writes no more than the array has room for.
    let result = unsafe bytes.withUnsafeMutableBytes {
      unsafe getsockopt(number, option.level, option.name, $0.baseAddress, &size)
    }
    _ = try check(result, "getsockopt")
    return Array(bytes.prefix(Int(size)))
  }

  /// SO_BINDTODEVICE: everything goes through the interface of this name.
  package func bind(toDevice name: String) throws(SystemError) {
    try set(RawOption(level: SOL_SOCKET, name: SO_BINDTODEVICE), to: Array(name.utf8))
  }

  /// SO_LINGER of zero: close(2) sends RST and forgets what is unsent.
  package func resetOnClose() throws(SystemError) {
    var value = linger(l_onoff: 1, l_linger: 0)
    let size = socklen_t(MemoryLayout<linger>.size)
    // SAFETY: the option reads one struct linger, which `value` is.
    _ = try check(unsafe setsockopt(number, SOL_SOCKET, SO_LINGER, &value, size), "setsockopt")
  }

  /// Whether the socket is a byte stream, as SO_TYPE says.
  package func isStream() throws(SystemError) -> Bool {
    try get(.type) == Int32(SOCK_STREAM.rawValue)
  }

  /// Whether the socket is a TCP socket, as SO_PROTOCOL says: not every byte stream is, nor every one over IP.
  package func isTCP() throws(SystemError) -> Bool {
    try get(.protocol) == Int32(IPPROTO_TCP)
  }
}
