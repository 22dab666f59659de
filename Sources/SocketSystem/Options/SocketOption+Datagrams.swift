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
  package static var ipv6Only: Self { .flag("ipv6Only", .single(.ipv6Only)) }
  package static var receivesLocalAddress: Self { .flag("localAddress", .perFamily(RawOption.localAddress)) }
  package static var receivesTrafficClass: Self { .flag("trafficClass", .perFamily(RawOption.receivesTrafficClass)) }
  package static var receivesHopLimit: Self { .flag("hopLimit", .perFamily(RawOption.receivesHopLimit)) }
  package static var receivesTimestamp: Self { .flag("timestamp", .single(.timestamp)) }
  package static var receivesCredentials: Self { .flag("credentials", .single(.receivesCredentials)) }
  package static var receivesErrors: Self { .flag("errors", .perFamily(RawOption.errors)) }
}

extension SocketOption where Value == Int {
  /// The number of routers that a datagram to a group may pass, 0 to 255: IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS. The
  /// initial value is 1, which keeps datagrams in the local network.
  public static var multicastTimeToLive: Self {
    .number("multicastTimeToLive", .perFamily(RawOption.multicastHopLimit), in: 0...255)
  }
}
