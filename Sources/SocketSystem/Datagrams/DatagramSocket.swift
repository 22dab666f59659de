import Glibc

extension BorrowedDescriptor {
  /// setsockopt(2) of MCAST_JOIN_GROUP, MCAST_LEAVE_GROUP and their forms with a source (RFC 3678). `source` is the only host to receive
  /// from, in the family of the group; `nil` for any host. Interface 0 is the one that the routing table names.
  package func changeMembership(
    joins: Bool, group: IPAddress, source: IPAddress?, interface: UInt32
  ) throws(SystemError) {
    try call("setsockopt") {
      $0.changeMembership(number, joins: joins, group: group, source: source, interface: interface)
    }
  }

  /// getsockopt(2) with MCAST_MSFILTER, RFC 3678.
  package func isMember(of group: IPAddress, source: IPAddress?, interface: UInt32) -> Bool {
    CurrentSystem.of(number) { $0.isMember(number, of: group, source: source, interface: interface) }
  }

  /// IP_MULTICAST_IF, IPV6_MULTICAST_IF. Interface 0 is the one that the routing table names.
  package func setMulticastInterface(_ interface: UInt32, ipv4: Bool, ipv6: Bool) throws(SystemError) {
    let index = Int32(bitPattern: interface).kernelBytes
    // This is a struct ip_mreqn. Only its index is used here.
    let request = [UInt8](repeating: 0, count: 8) + index
    if ipv4 { try set(.multicastInterface(isIPv4: true), to: request) }
    if ipv6 { try set(.multicastInterface(isIPv4: false), to: index) }
  }

  /// The datagrams that the kernel has dropped because the receive buffer was full: SO_MEMINFO; 0 if the kernel does not report it.
  package func droppedDatagrams() -> UInt32 {
    // SK_MEMINFO_DROPS is the ninth integer.
    let offset = 8 * MemoryLayout<UInt32>.size
    guard let values = try? get(.memoryInfo, atMost: offset + MemoryLayout<UInt32>.size), values.count > offset else {
      return 0
    }
    return UInt32(bitPattern: Int32(kernelBytes: Array(values[offset...])))
  }

  /// Takes the first entry out of the error queue (IP_RECVERR); `nil` if the queue is empty.
  package func takeReportedError() -> ReportedError? { CurrentSystem.of(number) { $0.takeReportedError(number) } }
}
