import Glibc

// The numbers of all options, once. `SocketOption` describes those that programs can set. An option whose value is not one C `int` says
// so. An option that IPv4 and IPv6 have under different numbers is a function of the family.

extension RawOption {
  // MARK: socket(7)

  package static var reuseAddress: RawOption { socket(SO_REUSEADDR) }
  package static var reusePort: RawOption { socket(SO_REUSEPORT) }
  /// Reading the error clears it.
  package static var pendingError: RawOption { socket(SO_ERROR) }
  package static var type: RawOption { socket(SO_TYPE) }
  package static var `protocol`: RawOption { socket(SO_PROTOCOL) }
  package static var domain: RawOption { socket(SO_DOMAIN) }
  /// A struct ucred: the process at the other end of a unix socket.
  package static var peerCredentials: RawOption { socket(SO_PEERCRED) }
  package static var isListening: RawOption { socket(SO_ACCEPTCONN) }
  package static var sendBuffer: RawOption { socket(SO_SNDBUF) }
  package static var receiveBuffer: RawOption { socket(SO_RCVBUF) }
  package static var keepAlive: RawOption { socket(SO_KEEPALIVE) }
  /// A struct linger.
  package static var linger: RawOption { socket(SO_LINGER) }
  /// Text.
  package static var device: RawOption { socket(SO_BINDTODEVICE) }
  static var mark: RawOption { socket(SO_MARK) }
  static var priority: RawOption { socket(SO_PRIORITY) }
  package static var broadcast: RawOption { socket(SO_BROADCAST) }
  /// Nine integers. The last one is the number of datagrams that were dropped: SK_MEMINFO_DROPS.
  package static var memoryInfo: RawOption { socket(SO_MEMINFO) }
  package static var timestamp: RawOption { socket(SO_TIMESTAMPNS) }
  package static var receivesCredentials: RawOption { socket(SO_PASSCRED) }

  // MARK: tcp(7), udp(7)

  package static var noDelay: RawOption { tcp(TCP_NODELAY) }
  package static var keepAliveIdle: RawOption { tcp(TCP_KEEPIDLE) }
  package static var keepAliveInterval: RawOption { tcp(TCP_KEEPINTVL) }
  package static var keepAliveCount: RawOption { tcp(TCP_KEEPCNT) }
  package static var userTimeout: RawOption { tcp(TCP_USER_TIMEOUT) }
  static var quickAcknowledgement: RawOption { tcp(TCP_QUICKACK) }
  static var notSentLowWater: RawOption { tcp(TCP_NOTSENT_LOWAT) }
  static var maximumSegmentSize: RawOption { tcp(TCP_MAXSEG) }
  /// Text.
  package static var congestionControl: RawOption { tcp(TCP_CONGESTION) }
  /// UDP_SEGMENT, Linux 4.18: the length of the datagrams that the kernel divides a message into.
  package static var segmentSize: RawOption { RawOption(level: Int32(IPPROTO_UDP), name: 103) }
  /// UDP_GRO, Linux 5.0: the kernel joins datagrams of one length and sender into a message.
  package static var joinsReceived: RawOption { RawOption(level: Int32(IPPROTO_UDP), name: 104) }

  // MARK: ip(7), ipv6(7)

  /// IP_BIND_ADDRESS_NO_PORT: bind(2) chooses no port; connect(2) chooses a free one.
  package static var bindAddressNoPort: RawOption { RawOption(level: Int32(IPPROTO_IP), name: 24) }
  package static var ipv6Only: RawOption { RawOption(level: Int32(IPPROTO_IPV6), name: IPV6_V6ONLY) }
  package static func errors(isIPv4: Bool) -> RawOption { ip(isIPv4, IP_RECVERR, IPV6_RECVERR) }
  package static func localAddress(isIPv4: Bool) -> RawOption { ip(isIPv4, IP_PKTINFO, IPV6_RECVPKTINFO) }
  package static func receivesTrafficClass(isIPv4: Bool) -> RawOption { ip(isIPv4, IP_RECVTOS, IPV6_RECVTCLASS) }
  package static func receivesHopLimit(isIPv4: Bool) -> RawOption { ip(isIPv4, IP_RECVTTL, IPV6_RECVHOPLIMIT) }
  package static func trafficClass(isIPv4: Bool) -> RawOption { ip(isIPv4, IP_TOS, IPV6_TCLASS) }
  package static func hopLimit(isIPv4: Bool) -> RawOption { ip(isIPv4, IP_TTL, IPV6_UNICAST_HOPS) }
  package static func multicastHopLimit(isIPv4: Bool) -> RawOption { ip(isIPv4, IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS) }
  package static func multicastLoopback(isIPv4: Bool) -> RawOption {
    ip(isIPv4, IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP)
  }
  /// The number for IPv6 is IPV6_MULTICAST_ALL, which Glibc does not define.
  package static func multicastAll(isIPv4: Bool) -> RawOption { ip(isIPv4, IP_MULTICAST_ALL, 29) }
  /// For IPv4 a struct ip_mreqn.
  package static func multicastInterface(isIPv4: Bool) -> RawOption { ip(isIPv4, IP_MULTICAST_IF, IPV6_MULTICAST_IF) }

  private static func socket(_ name: Int32) -> RawOption { RawOption(level: SOL_SOCKET, name: name) }
  private static func tcp(_ name: Int32) -> RawOption { RawOption(level: Int32(IPPROTO_TCP), name: name) }
  private static func ip(_ isIPv4: Bool, _ ipv4: Int32, _ ipv6: Int32) -> RawOption {
    isIPv4 ? RawOption(level: Int32(IPPROTO_IP), name: ipv4) : RawOption(level: Int32(IPPROTO_IPV6), name: ipv6)
  }

  /// Whether sockets of every family have the option.
  package var isForEverySocket: Bool { level == SOL_SOCKET }
  /// Whether only IPv6 sockets have the option.
  package var isForIPv6: Bool { level == Int32(IPPROTO_IPV6) }
  package var isHopLimit: Bool { self == .hopLimit(isIPv4: true) || self == .hopLimit(isIPv4: false) }
  package var isText: Bool { self == .device || self == .congestionControl }
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
