import Glibc

// The named options of stream sockets and of all sockets. The ranges are the kernel's own.

extension SocketOption where Value == Bool {
  /// Whether small segments are sent immediately: TCP_NODELAY. `TCPConnection.Configuration.noDelay` sets it.
  public static var noDelay: Self { .flag("noDelay", .single(.noDelay)) }
  /// Whether the kernel probes a quiet connection: SO_KEEPALIVE. `TCPConnection.Configuration.liveness` sets it.
  public static var keepAlive: Self { .flag("keepAlive", .single(.keepAlive)) }
  /// Whether each segment is acknowledged immediately: TCP_QUICKACK. The kernel may turn it off again by itself.
  public static var quickAcknowledgement: Self { .flag("quickAcknowledgement", .single(.quickAcknowledgement)) }
  /// Whether the socket can be bound although connections of an earlier listener are in TIME_WAIT: SO_REUSEADDR.
  public static var reuseAddress: Self { .flag("reuseAddress", .single(.reuseAddress)) }
  /// Whether several sockets of the same user may have the same address: SO_REUSEPORT.
  public static var reusePort: Self { .flag("reusePort", .single(.reusePort)) }
}

extension SocketOption where Value == Duration {
  /// How long a connection must be quiet before the first probe: TCP_KEEPIDLE. 1 to 32,767 seconds, rounded up to
  /// seconds.
  public static var keepAliveIdle: Self { .time("keepAliveIdle", .single(.keepAliveIdle), in: 1...32_767, .seconds) }
  /// The time between two probes: TCP_KEEPINTVL. 1 to 32,767 seconds, rounded up to seconds.
  public static var keepAliveInterval: Self {
    .time("keepAliveInterval", .single(.keepAliveInterval), in: 1...32_767, .seconds)
  }
  /// How long sent bytes may stay unacknowledged, or unsent because the peer has no room, before the kernel ends the
  /// connection: TCP_USER_TIMEOUT. The time is rounded up to milliseconds. Zero selects the system's default, about a
  /// quarter of an hour.
  public static var userTimeout: Self { .time("userTimeout", .single(.userTimeout), in: 0...Int32.max, .milliseconds) }
}

extension SocketOption where Value == Duration? {
  /// How long close(2) waits until the peer has acknowledged everything: SO_LINGER. With zero, close(2) resets the connection. With `nil`,
  /// the default of the kernel, it does not wait.
  ///
  /// Times above zero are refused, because close(2) would block the reactor's thread, even on a nonblocking socket. `close()` of the
  /// connection waits without blocking a thread.
  public static var linger: Self {
    Self("linger", .single(.linger), size: 2 * MemoryLayout<Int32>.size) { value throws(SocketOptionError) in
      guard let value else { return RawOption.lingerValue(seconds: nil) }
      return RawOption.lingerValue(seconds: try DurationUnit.seconds.count(value, in: 0...Int32.max))
    } decode: { bytes in
      if Int32(kernelBytes: bytes) == 0 { return nil }
      return .seconds(Int32(kernelBytes: Array(bytes.dropFirst(MemoryLayout<Int32>.size))))
    }
  }
}

extension SocketOption where Value == Int {
  /// The number of unanswered probes after which the kernel ends the connection, 1 to 127: TCP_KEEPCNT.
  public static var keepAliveCount: Self { .number("keepAliveCount", .single(.keepAliveCount), in: 1...127) }
  /// The size in bytes of the kernel's send buffer: SO_SNDBUF. The kernel doubles the value that is set, up to
  /// `net.core.wmem_max`, and no longer adapts the size to the connection.
  public static var sendBufferSize: Self { .number("sendBufferSize", .single(.sendBuffer)) }
  /// The size in bytes of the kernel's receive buffer: SO_RCVBUF. The kernel doubles the value that is set, up to
  /// `net.core.rmem_max`, and no longer adapts the size to the connection.
  public static var receiveBufferSize: Self { .number("receiveBufferSize", .single(.receiveBuffer)) }
  /// The number of unsent bytes below which the socket counts as writable: TCP_NOTSENT_LOWAT.
  public static var notSentLowWater: Self { .number("notSentLowWater", .single(.notSentLowWater)) }
  /// The largest segment in bytes, 88 to 32,767: TCP_MAXSEG. Set it before connecting.
  public static var maximumSegmentSize: Self {
    .number("maximumSegmentSize", .single(.maximumSegmentSize), in: 88...32_767)
  }
  /// The number of routers that a packet may pass, 1 to 255: IP_TTL, or the hop limit of IPv6, IPV6_UNICAST_HOPS.
  public static var timeToLive: Self { .number("timeToLive", .perFamily(RawOption.hopLimit), in: 1...255) }
  /// The mark of the socket's packets, for routing and filters: SO_MARK. Setting it needs CAP_NET_ADMIN or CAP_NET_RAW.
  public static var mark: Self { .number("mark", .single(.mark)) }
  /// The priority of the socket's packets in the queue of the interface: SO_PRIORITY. A value above 6 needs
  /// CAP_NET_ADMIN.
  public static var priority: Self { .number("priority", .single(.priority)) }
}

extension SocketOption where Value == TrafficClass {
  /// The treatment that routers should give the packets: IP_TOS, or IPV6_TCLASS. TCP sets the congestion bits itself.
  public static var typeOfService: Self {
    Self("typeOfService", .perFamily(RawOption.trafficClass)) {
      Int32($0.rawValue).kernelBytes
    } decode: {
      TrafficClass(rawValue: UInt8(truncatingIfNeeded: Int32(kernelBytes: $0)))
    }
  }
}

extension SocketOption where Value == String? {
  /// The only interface that packets may use, or `nil` for any interface: SO_BINDTODEVICE.
  public static var bindToDevice: Self {
    Self("bindToDevice", .single(.device), size: KernelName.size) { value throws(SocketOptionError) in
      guard let value else { return [0] }
      return try KernelName.encode(value)
    } decode: { bytes in
      let name = KernelName.decode(bytes)
      return name.isEmpty ? nil : name
    }
  }
}

extension SocketOption where Value == String {
  /// The name of the congestion control algorithm, for example `cubic`: TCP_CONGESTION.
  public static var congestionControl: Self {
    Self("congestionControl", .single(.congestionControl), size: KernelName.size) { value throws(SocketOptionError) in
      try KernelName.encode(value)
    } decode: {
      KernelName.decode($0)
    }
  }
}
