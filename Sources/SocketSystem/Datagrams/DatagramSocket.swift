internal import CLinux
import Glibc

// The calls that only datagram sockets need: sending to an address, multicast groups, the error queue and the count of
// dropped datagrams.

extension OwnedDescriptor {
  /// Creates a nonblocking datagram socket that child processes do not inherit: socket(2).
  package static func datagramSocket(family: Int32) throws(SystemError) -> OwnedDescriptor {
    let type = Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    if let simulation = SimulatedDescriptors.system {
      let number = simulation.socket(family: family, type: Int32(SOCK_DGRAM.rawValue))
      if number < 0 { throw SystemError(call: "socket", errno: -number) }
      return OwnedDescriptor(owning: number)
    }
    return try OwnedDescriptor(new: try check(Glibc.socket(family, type, 0), "socket"))
  }
}

extension BorrowedDescriptor {
  /// Sends a datagram to an address, or to the connected peer: sendto(2) or send(2), with MSG_NOSIGNAL.
  package func send(_ bytes: Span<UInt8>, to address: SocketAddress?) -> Transfer {
    if isSimulated {
      return Self.transfer(simulatedTransfer { $0.send(number, bytes, to: address, nil, passing: []) }, "sendto")
    }
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

  /// Joins or leaves a multicast group: setsockopt(2) of MCAST_JOIN_GROUP, MCAST_LEAVE_GROUP and their forms with a
  /// source (RFC 3678).
  ///
  /// - Parameters:
  ///   - joins: True to join, false to leave.
  ///   - group: The group.
  ///   - source: The only host to receive from, in the family of the group; `nil` for any host.
  ///   - interface: The index of the interface; 0 for the interface that the routing table names.
  /// - Throws: The error of setsockopt(2).
  package func changeMembership(
    joins: Bool, group: IPAddress, source: IPAddress?, interface: UInt32
  ) throws(SystemError) {
    if isSimulated {
      _ = try simulated("setsockopt") {
        $0.changeMembership(number, joins: joins, group: group, source: source, interface: interface)
      }
      return
    }
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

  /// Returns whether the socket is in a multicast group on an interface, for a source if there is one: getsockopt(2) with
  /// MCAST_MSFILTER, RFC 3678.
  package func isMember(of group: IPAddress, source: IPAddress?, interface: UInt32) -> Bool {
    if isSimulated {
      return SimulatedDescriptors.system?.isMember(number, of: group, source: source, interface: interface) ?? false
    }
    // SAFETY: the addresses are valid for their lengths during the call, which copies them. The source is of the group's family.
    return unsafe group.socketAddress(port: 0).withKernelAddress { group, length in
      guard let source else { return unsafe clinux_is_member(number, interface, group, length, nil) != 0 }
      return unsafe source.socketAddress(port: 0).withKernelAddress { source, _ in
        unsafe clinux_is_member(number, interface, group, length, source) != 0
      }
    }
  }

  /// Sets the interface that datagrams to multicast groups leave through: IP_MULTICAST_IF, IPV6_MULTICAST_IF.
  ///
  /// - Parameters:
  ///   - interface: The index of the interface; 0 for the interface that the routing table names.
  ///   - ipv4: Whether to set it for IPv4.
  ///   - ipv6: Whether to set it for IPv6.
  /// - Throws: The error of setsockopt(2).
  package func setMulticastInterface(_ interface: UInt32, ipv4: Bool, ipv6: Bool) throws(SystemError) {
    let index = Int32(bitPattern: interface).kernelBytes
    // This is a struct ip_mreqn. Only its index is used here.
    let request = [UInt8](repeating: 0, count: 8) + index
    if ipv4 { try set(RawOption(level: Int32(IPPROTO_IP), name: IP_MULTICAST_IF), to: request) }
    if ipv6 { try set(RawOption(level: Int32(IPPROTO_IPV6), name: IPV6_MULTICAST_IF), to: index) }
  }

  /// Returns the number of datagrams that the kernel has dropped because the receive buffer was full: SO_MEMINFO.
  /// Returns 0 if the kernel does not report it.
  package func droppedDatagrams() -> UInt32 {
    // SK_MEMINFO_DROPS is the ninth integer.
    let offset = 8 * MemoryLayout<UInt32>.size
    let option = RawOption(level: SOL_SOCKET, name: SO_MEMINFO)
    guard let values = try? get(option, atMost: offset + MemoryLayout<UInt32>.size), values.count > offset else {
      return 0
    }
    return UInt32(bitPattern: Int32(kernelBytes: Array(values[offset...])))
  }

  /// Disconnects the socket from its peer: connect(2) to AF_UNSPEC.
  package func disconnect() throws(SystemError) {
    if isSimulated {
      _ = try simulated("connect") { $0.disconnect(number) }
      return
    }
    var address = sockaddr()
    address.sa_family = sa_family_t(AF_UNSPEC)
    // SAFETY: the address is valid for the call, which reads it.
    let length = socklen_t(MemoryLayout<sockaddr>.size)
    _ = try check(unsafe withUnsafePointer(to: address) { unsafe Glibc.connect(number, $0, length) }, "connect")
  }

  /// Binds a unix socket to an abstract name that the kernel chooses: bind(2), "autobind" in unix(7).
  package func bindToFreeName() throws(SystemError) {
    if isSimulated { return try bind(to: .unix(.unnamed)) }
    var address = sockaddr()
    address.sa_family = sa_family_t(AF_UNIX)
    // SAFETY: the length given lets the call read only the family.
    let length = socklen_t(MemoryLayout<sa_family_t>.size)
    _ = try check(unsafe withUnsafePointer(to: address) { unsafe Glibc.bind(number, $0, length) }, "bind")
  }

  /// Takes the first entry out of the error queue (IP_RECVERR). Returns `nil` if the queue is empty.
  package func takeReportedError() -> ReportedError? {
    if isSimulated { return SimulatedDescriptors.system?.takeReportedError(number) }
    while true {
      var entry = clinux_socket_error()
      // SAFETY: the call fills in one such value.
      let result = unsafe clinux_receive_error(number, &entry)
      if result == -EINTR { continue }
      if result < 0 { return nil }
      // A local call returns its own error, so the entry for it is skipped.
      if entry.error == 0 || entry.origin == 1 { continue }
      return ReportedError(entry)
    }
  }
}
