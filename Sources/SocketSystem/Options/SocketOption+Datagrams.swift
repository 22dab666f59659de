import Glibc

extension SocketOption where Value == Bool {
  /// Whether datagrams may go to broadcast addresses: SO_BROADCAST. `UDPEndpoint.Configuration.broadcast` sets it.
  public static var broadcast: Self { .flag("broadcast", .socket(SO_BROADCAST)) }
  /// Whether datagrams to groups come back to members on this machine: IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP.
  public static var multicastLoopback: Self {
    .flag("multicastLoopback", .ip(IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP))
  }
  /// Whether datagrams of groups come that another socket of this machine has joined: IP_MULTICAST_ALL, IPV6_MULTICAST_ALL.
  /// Off for a `UDPEndpoint`.
  public static var multicastAll: Self { .flag("multicastAll", .ip(IP_MULTICAST_ALL, 29)) }
  /// IPV6_V6ONLY
  package static var ipv6Only: Self { .flag("ipv6Only", .same(.ipv6Only)) }
  /// IP_PKTINFO, IPV6_RECVPKTINFO
  package static var receivesLocalAddress: Self { .flag("localAddress", .ip(IP_PKTINFO, IPV6_RECVPKTINFO)) }
  /// IP_RECVTOS, IPV6_RECVTCLASS
  package static var receivesTrafficClass: Self { .flag("trafficClass", .ip(IP_RECVTOS, IPV6_RECVTCLASS)) }
  /// IP_RECVTTL, IPV6_RECVHOPLIMIT
  package static var receivesHopLimit: Self { .flag("hopLimit", .ip(IP_RECVTTL, IPV6_RECVHOPLIMIT)) }
  /// SO_TIMESTAMPNS
  package static var receivesTimestamp: Self { .flag("timestamp", .socket(SO_TIMESTAMPNS)) }
  /// SO_PASSCRED
  package static var receivesCredentials: Self { .flag("credentials", .socket(SO_PASSCRED)) }
  /// IP_RECVERR, IPV6_RECVERR
  package static var receivesErrors: Self { .flag("errors", .ip(IP_RECVERR, IPV6_RECVERR)) }
}

extension SocketOption where Value == Int {
  /// The routers that datagrams to groups may pass: IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS. 0 to 255; 1 at first, which is the
  /// own network.
  public static var multicastTimeToLive: Self {
    .number("multicastTimeToLive", .ip(IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS), in: 0...255)
  }
}
