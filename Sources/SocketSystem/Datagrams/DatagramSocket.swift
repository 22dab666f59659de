internal import CLinux
import Glibc

// What datagram sockets have beside the calls of all sockets: groups, the error queue, what was dropped.

extension Descriptor {
  /// socket(2): a nonblocking datagram socket that a child process does not inherit.
  package static func datagramSocket(family: Int32) throws(SystemError) -> Descriptor {
    let type = Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    return Descriptor(owning: try check(Glibc.socket(family, type, 0), "socket"))
  }
}

extension Socket {
  /// sendto(2) with MSG_NOSIGNAL, or send(2) to the connected peer.
  package func send(_ bytes: Span<UInt8>, to address: SocketAddress?) -> Transfer {
    // SAFETY: the pointers are valid for the call, which only reads.
    let sent = unsafe bytes.withUnsafeBytes { buffer in
      guard let address else {
        return retryingInterrupts { unsafe clinux_sendto(number, buffer.baseAddress, UInt(buffer.count), nil, 0) }
      }
      return unsafe address.withKernelAddress { kernel, length in
        retryingInterrupts { unsafe clinux_sendto(number, buffer.baseAddress, UInt(buffer.count), kernel, length) }
      }
    }
    return Self.transfer(sent, "sendto")
  }

  /// setsockopt(2) of MCAST_JOIN_GROUP, MCAST_LEAVE_GROUP and their forms with a source: RFC 3678.
  ///
  /// - Parameters:
  ///   - joins: To join, or to leave.
  ///   - group: The group.
  ///   - source: The only host whose datagrams are wanted, of the same family; `nil` for any.
  ///   - interface: The index of the interface; 0 for the one that the routing table names.
  /// - Throws: What the call reports.
  package func changeMembership(
    joins: Bool, group: IPAddress, source: IPAddress?, interface: UInt32
  ) throws(SystemError) {
    // SAFETY: the addresses are valid for their lengths during the call, which copies them.
    let result = unsafe group.socketAddress(port: 0).withKernelAddress { group, groupLength in
      guard let source else {
        return unsafe clinux_multicast(number, joins ? 1 : 0, interface, group, groupLength, nil, 0)
      }
      return unsafe source.socketAddress(port: 0).withKernelAddress { source, sourceLength in
        unsafe clinux_multicast(number, joins ? 1 : 0, interface, group, groupLength, source, sourceLength)
      }
    }
    if result < 0 { throw SystemError(call: "setsockopt", errno: -result) }
  }

  /// IP_MULTICAST_IF, IPV6_MULTICAST_IF: the interface that datagrams to groups go out of.
  ///
  /// - Parameters:
  ///   - interface: Its index; 0 for the one that the routing table names.
  ///   - ipv4: Whether it is to be set for IPv4.
  ///   - ipv6: Whether it is to be set for IPv6.
  /// - Throws: What the call reports.
  package func setMulticastInterface(_ interface: UInt32, ipv4: Bool, ipv6: Bool) throws(SystemError) {
    let index = Int32(bitPattern: interface).kernelBytes
    // A struct ip_mreqn, of which only the index counts here.
    let request = [UInt8](repeating: 0, count: 8) + index
    if ipv4 { try set(RawOption(level: Int32(IPPROTO_IP), name: IP_MULTICAST_IF), to: request) }
    if ipv6 { try set(RawOption(level: Int32(IPPROTO_IPV6), name: IPV6_MULTICAST_IF), to: index) }
  }

  /// SO_MEMINFO: how many datagrams the kernel has dropped because there was no room for them.
  package func droppedDatagrams() -> UInt32 {
    // The ninth of its integers: SK_MEMINFO_DROPS.
    let offset = 8 * MemoryLayout<UInt32>.size
    let option = RawOption(level: SOL_SOCKET, name: SO_MEMINFO)
    guard let values = try? get(option, atMost: offset + MemoryLayout<UInt32>.size), values.count > offset else {
      return 0
    }
    return UInt32(bitPattern: Int32(kernelBytes: Array(values[offset...])))
  }

  /// connect(2) to AF_UNSPEC: a socket without a peer.
  package func disconnect() throws(SystemError) {
    var address = sockaddr()
    address.sa_family = sa_family_t(AF_UNSPEC)
    // SAFETY: the address is valid for the call, which reads it.
    let length = socklen_t(MemoryLayout<sockaddr>.size)
    _ = try check(unsafe withUnsafePointer(to: address) { unsafe Glibc.connect(number, $0, length) }, "connect")
  }

  /// bind(2) of a unix socket to an abstract name that the kernel chooses: unix(7), autobind.
  package func bindToFreeName() throws(SystemError) {
    var address = sockaddr()
    address.sa_family = sa_family_t(AF_UNIX)
    // SAFETY: the family alone is what the call is told to read.
    let length = socklen_t(MemoryLayout<sa_family_t>.size)
    _ = try check(unsafe withUnsafePointer(to: address) { unsafe Glibc.bind(number, $0, length) }, "bind")
  }

  /// Takes the first entry out of the error queue; `nil` when it is empty: IP_RECVERR.
  package func takeReportedError() -> ReportedError? {
    while true {
      var entry = clinux_socket_error()
      // SAFETY: the call fills in one such value.
      let result = unsafe clinux_receive_error(number, &entry)
      if result == -EINTR { continue }
      if result < 0 { return nil }
      // The error of a call of this machine's own is what the call returns.
      if entry.error == 0 || entry.origin == 1 { continue }
      return ReportedError(entry)
    }
  }
}
