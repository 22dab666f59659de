import Glibc

// The options that change how a simulated connection behaves.

extension RawOption {
  /// SO_KEEPALIVE: the kernel probes a quiet connection.
  package static var keepAlive: RawOption { RawOption(level: SOL_SOCKET, name: SO_KEEPALIVE) }
  /// TCP_KEEPIDLE: the seconds before the first probe.
  package static var keepAliveIdle: RawOption { RawOption(level: Int32(IPPROTO_TCP), name: TCP_KEEPIDLE) }
  /// TCP_KEEPINTVL: the seconds between two probes.
  package static var keepAliveInterval: RawOption { RawOption(level: Int32(IPPROTO_TCP), name: TCP_KEEPINTVL) }
  /// TCP_KEEPCNT: the probes before the connection ends.
  package static var keepAliveCount: RawOption { RawOption(level: Int32(IPPROTO_TCP), name: TCP_KEEPCNT) }
  /// TCP_USER_TIMEOUT: the milliseconds for which sent bytes may stay unacknowledged.
  package static var userTimeout: RawOption { RawOption(level: Int32(IPPROTO_TCP), name: TCP_USER_TIMEOUT) }
  /// SO_MEMINFO: numbers about the memory of the socket. The ninth is the number of datagrams that were dropped.
  package static var memoryInfo: RawOption { RawOption(level: SOL_SOCKET, name: SO_MEMINFO) }
  /// SO_BROADCAST: datagrams may be sent to broadcast addresses.
  package static var broadcast: RawOption { RawOption(level: SOL_SOCKET, name: SO_BROADCAST) }
  /// SO_TIMESTAMPNS: the time of arrival comes with each datagram.
  package static var timestamp: RawOption { RawOption(level: SOL_SOCKET, name: SO_TIMESTAMPNS) }
  /// SO_PASSCRED: the sender's credentials come with each datagram.
  package static var receivesCredentials: RawOption { RawOption(level: SOL_SOCKET, name: SO_PASSCRED) }
  /// IP_RECVERR or IPV6_RECVERR: reported errors are kept in the error queue.
  package static func errors(isIPv4: Bool) -> RawOption { ip(isIPv4, IP_RECVERR, IPV6_RECVERR) }
  /// IP_PKTINFO or IPV6_RECVPKTINFO: the local address comes with each datagram.
  package static func localAddress(isIPv4: Bool) -> RawOption { ip(isIPv4, IP_PKTINFO, IPV6_RECVPKTINFO) }
  /// IP_RECVTOS or IPV6_RECVTCLASS: the traffic class comes with each datagram.
  package static func receivesTrafficClass(isIPv4: Bool) -> RawOption { ip(isIPv4, IP_RECVTOS, IPV6_RECVTCLASS) }
  /// IP_RECVTTL or IPV6_RECVHOPLIMIT: the hop limit comes with each datagram.
  package static func receivesHopLimit(isIPv4: Bool) -> RawOption { ip(isIPv4, IP_RECVTTL, IPV6_RECVHOPLIMIT) }
  /// IP_TOS or IPV6_TCLASS: the traffic class of what is sent.
  package static func trafficClass(isIPv4: Bool) -> RawOption { ip(isIPv4, IP_TOS, IPV6_TCLASS) }
  /// IP_TTL or IPV6_UNICAST_HOPS: the hop limit of what is sent.
  package static func hopLimit(isIPv4: Bool) -> RawOption { ip(isIPv4, IP_TTL, IPV6_UNICAST_HOPS) }
  /// IP_MULTICAST_TTL or IPV6_MULTICAST_HOPS: the hop limit of what is sent to groups.
  package static func multicastHopLimit(isIPv4: Bool) -> RawOption { ip(isIPv4, IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS) }
  /// IP_MULTICAST_LOOP or IPV6_MULTICAST_LOOP: what is sent to groups also reaches members on the own host.
  package static func multicastLoopback(isIPv4: Bool) -> RawOption {
    ip(isIPv4, IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP)
  }
  /// IP_MULTICAST_ALL or IPV6_MULTICAST_ALL: groups that only other sockets have joined are received, too.
  package static func multicastAll(isIPv4: Bool) -> RawOption { ip(isIPv4, IP_MULTICAST_ALL, 29) }
  /// IP_MULTICAST_IF or IPV6_MULTICAST_IF: the interface of what is sent to groups.
  package static func multicastInterface(isIPv4: Bool) -> RawOption { ip(isIPv4, IP_MULTICAST_IF, IPV6_MULTICAST_IF) }

  private static func ip(_ isIPv4: Bool, _ ipv4: Int32, _ ipv6: Int32) -> RawOption {
    isIPv4 ? RawOption(level: Int32(IPPROTO_IP), name: ipv4) : RawOption(level: Int32(IPPROTO_IPV6), name: ipv6)
  }

  /// Whether sockets of every family have the option.
  package var isForEverySocket: Bool { level == SOL_SOCKET }
  /// Whether only IPv6 sockets have the option.
  package var isForIPv6: Bool { level == Int32(IPPROTO_IPV6) }
  /// Whether the option is IP_TTL or IPV6_UNICAST_HOPS.
  package var isTimeToLive: Bool {
    level == Int32(IPPROTO_IP) && name == IP_TTL || level == Int32(IPPROTO_IPV6) && name == IPV6_UNICAST_HOPS
  }
  /// SO_BINDTODEVICE and TCP_CONGESTION: the value is a name.
  package var isText: Bool {
    level == SOL_SOCKET && name == SO_BINDTODEVICE || level == Int32(IPPROTO_TCP) && name == TCP_CONGESTION
  }
}

/// The families of sockets, and their types and protocols, as a simulation needs them.
package enum SocketKind {
  package static let ipv4 = AF_INET
  package static let ipv6 = AF_INET6
  package static let unix = AF_UNIX
  package static let stream = Int32(SOCK_STREAM.rawValue)
  package static let datagram = Int32(SOCK_DGRAM.rawValue)
  package static let tcp = Int32(IPPROTO_TCP)
  package static let udp = Int32(IPPROTO_UDP)
  /// SHUT_WR of shutdown(2).
  package static let sendingSide = Int32(SHUT_WR)
}
