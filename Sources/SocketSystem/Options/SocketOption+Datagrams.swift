import Glibc

extension SocketOption where Value == Bool {
  /// Whether datagrams may be sent to broadcast addresses: SO_BROADCAST. `UDPEndpoint.Configuration.broadcast` sets it.
  public static var broadcast: Self { .flag("broadcast", .single(.broadcast)) }
  /// Whether datagrams to multicast groups are also delivered to members on this machine: IP_MULTICAST_LOOP,
  /// IPV6_MULTICAST_LOOP.
  public static var multicastLoopback: Self {
    .flag("multicastLoopback", .perFamily(RawOption.multicastLoopback))
  }
  /// Whether the socket receives datagrams to groups that only other sockets of this machine have joined:
  /// IP_MULTICAST_ALL, IPV6_MULTICAST_ALL. A `UDPEndpoint` turns it off.
  public static var multicastAll: Self { .flag("multicastAll", .perFamily(RawOption.multicastAll)) }
  /// Whether an IPv6 socket serves only IPv6: IPV6_V6ONLY.
  package static var ipv6Only: Self { .flag("ipv6Only", .single(.ipv6Only)) }
  /// Whether the local address of each datagram is reported: IP_PKTINFO, IPV6_RECVPKTINFO.
  package static var receivesLocalAddress: Self { .flag("localAddress", .perFamily(RawOption.localAddress)) }
  /// Whether the traffic class of each datagram is reported: IP_RECVTOS, IPV6_RECVTCLASS.
  package static var receivesTrafficClass: Self { .flag("trafficClass", .perFamily(RawOption.receivesTrafficClass)) }
  /// Whether the hop limit of each datagram is reported: IP_RECVTTL, IPV6_RECVHOPLIMIT.
  package static var receivesHopLimit: Self { .flag("hopLimit", .perFamily(RawOption.receivesHopLimit)) }
  /// Whether the time of arrival of each datagram is reported: SO_TIMESTAMPNS.
  package static var receivesTimestamp: Self { .flag("timestamp", .single(.timestamp)) }
  /// Whether the sender's credentials are reported with each datagram: SO_PASSCRED.
  package static var receivesCredentials: Self { .flag("credentials", .single(.receivesCredentials)) }
  /// Whether reported errors are put into the error queue: IP_RECVERR, IPV6_RECVERR.
  package static var receivesErrors: Self { .flag("errors", .perFamily(RawOption.errors)) }
}

extension SocketOption where Value == Int {
  /// The number of routers that a datagram to a group may pass, 0 to 255: IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS. The
  /// initial value is 1, which keeps datagrams in the local network.
  public static var multicastTimeToLive: Self {
    .number("multicastTimeToLive", .perFamily(RawOption.multicastHopLimit), in: 0...255)
  }
}
