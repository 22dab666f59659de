import Glibc

// The calls that only datagram sockets need: multicast groups, the error queue and the count of dropped datagrams.

extension BorrowedDescriptor {
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
    try call("setsockopt") {
      $0.changeMembership(number, joins: joins, group: group, source: source, interface: interface)
    }
  }

  /// Returns whether the socket is in a multicast group on an interface, for a source if there is one: getsockopt(2) with
  /// MCAST_MSFILTER, RFC 3678.
  package func isMember(of group: IPAddress, source: IPAddress?, interface: UInt32) -> Bool {
    CurrentSystem.of(number) { $0.isMember(number, of: group, source: source, interface: interface) }
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
    if ipv4 { try set(.multicastInterface(isIPv4: true), to: request) }
    if ipv6 { try set(.multicastInterface(isIPv4: false), to: index) }
  }

  /// Returns the number of datagrams that the kernel has dropped because the receive buffer was full: SO_MEMINFO.
  /// Returns 0 if the kernel does not report it.
  package func droppedDatagrams() -> UInt32 {
    // SK_MEMINFO_DROPS is the ninth integer.
    let offset = 8 * MemoryLayout<UInt32>.size
    guard let values = try? get(.memoryInfo, atMost: offset + MemoryLayout<UInt32>.size), values.count > offset else {
      return 0
    }
    return UInt32(bitPattern: Int32(kernelBytes: Array(values[offset...])))
  }

  /// Takes the first entry out of the error queue (IP_RECVERR). Returns `nil` if the queue is empty.
  package func takeReportedError() -> ReportedError? { CurrentSystem.of(number) { $0.takeReportedError(number) } }
}
