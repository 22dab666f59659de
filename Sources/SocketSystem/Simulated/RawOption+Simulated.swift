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
  package static let stream = Int32(SOCK_STREAM.rawValue)
  package static let tcp = Int32(IPPROTO_TCP)
  /// SHUT_WR of shutdown(2).
  package static let sendingSide = Int32(SHUT_WR)
}
