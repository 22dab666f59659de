struct HostLimits {
  /// RLIMIT_NOFILE: one more than the highest descriptor.
  var descriptors = 65_536
  /// net.ipv4.ip_local_port_range: the ports that the kernel chooses from.
  var ports: ClosedRange<UInt16> = 32_768...60_999
  /// net.core.somaxconn: the longest backlog.
  var backlog = 4_096
}
