import ActorSockets

/// The options of `sockcat udp-listen`.
struct UDPListenOptions: Equatable {
  var endpoint: Endpoint
  /// Whether each datagram is sent back.
  var echoes = false
  /// The multicast groups to join.
  var groups: [IPAddress] = []
  /// The interface to join the groups on.
  var interface: InterfaceSelector?
  /// The number of datagrams to receive; `nil` for no limit.
  var count: Int?
  /// The most time without a datagram.
  var idleTimeout: Duration?
}

/// The options of `sockcat udp-send`.
struct UDPSendOptions: Equatable {
  var endpoint: Endpoint
  /// Whether the whole input is one datagram.
  var isWhole = false
  /// How long to print answers after the last datagram was sent.
  var wait: Duration?
  var broadcast = false
  /// The number of routers that the datagrams may pass.
  var hopLimit: UInt8?
  /// The interface that datagrams to a group leave through.
  var interface: InterfaceSelector?
  var addressPreference = AddressPreference.any
  /// The address or interface to send from.
  var source: Endpoint?

  /// Whether the endpoint is a multicast group.
  var isToGroup: Bool { endpoint.numericAddress?.isMulticast ?? false }

  /// Whether the kernel may refuse to send because the endpoint is a broadcast address.
  var mayNeedBroadcast: Bool { !broadcast && !endpoint.isUnix }
}

extension Command {
  static func udpListen(_ words: inout Words) throws(Failure) -> Command {
    var endpoint: Endpoint?
    // A placeholder, replaced below when the endpoint is known.
    var options = UDPListenOptions(endpoint: .port(0))
    while let word = words.next() {
      if word.asksForHelp { return .help }
      switch word {
      case .operand(let text): endpoint = try Self.endpoint(text, after: endpoint)
      case .option("--echo", nil): options.echoes = true
      case .option("--join", let value): options.groups.append(try group(try words.value(of: "--join", value)))
      case .option("--interface", let value): options.interface = try interface(&words, value)
      case .option("--count", let value): options.count = try words.count(of: "--count", value)
      case .option("--idle-timeout", let value): options.idleTimeout = try words.seconds(of: "--idle-timeout", value)
      case .option: throw .usage("\(word) is no option of udp-listen")
      }
    }
    guard let endpoint else { throw .usage("say what to listen on, as in: sockcat udp-listen :9000") }
    options.endpoint = endpoint
    if options.interface != nil, options.groups.isEmpty { throw .usage("--interface is for groups: it needs --join") }
    if endpoint.isUnix, !options.groups.isEmpty { throw .usage("a unix socket joins no group") }
    return .udpListen(options)
  }

  static func udpSend(_ words: inout Words) throws(Failure) -> Command {
    var endpoint: Endpoint?
    // A placeholder, replaced below. Port 0 cannot be connected to.
    var options = UDPSendOptions(endpoint: .port(0))
    while let word = words.next() {
      if word.asksForHelp { return .help }
      switch word {
      case .operand(let text): endpoint = try Self.endpoint(text, after: endpoint)
      case .option("--whole", nil): options.isWhole = true
      case .option("--wait", let value): options.wait = try words.seconds(of: "--wait", value)
      case .option("--broadcast", nil): options.broadcast = true
      case .option("--ttl", let value): options.hopLimit = UInt8(try words.count(of: "--ttl", value, atMost: 255))
      case .option("--interface", let value): options.interface = try interface(&words, value)
      case .option("-4", nil): options.addressPreference = .ipv4Only
      case .option("-6", nil): options.addressPreference = .ipv6Only
      case .option("--source", let value): options.source = try source(try words.value(of: "--source", value))
      case .option: throw .usage("\(word) is no option of udp-send")
      }
    }
    guard let endpoint else { throw .usage("say where to send to, as in: sockcat udp-send example.com:9000") }
    options.endpoint = endpoint
    try options.check()
    return .udpSend(options)
  }

  private static func group(_ text: String) throws(Failure) -> IPAddress {
    guard let group = IPAddress(text), group.isMulticast else {
      throw .usage("--join takes a multicast group, as in 239.1.2.3 or ff15::1, not \(text.debugDescription)")
    }
    return group
  }

  private static func interface(_ words: inout Words, _ attached: String?) throws(Failure) -> InterfaceSelector {
    let text = try words.value(of: "--interface", attached)
    if text.isEmpty { throw .usage("--interface takes a name or an address") }
    return InterfaceSelector(text)
  }
}

extension UDPSendOptions {
  /// Throws if two options contradict each other.
  fileprivate func check() throws(Failure) {
    if interface != nil, !isToGroup { throw .usage("--interface is for multicast groups, which \(endpoint) is not") }
    if endpoint.isUnix, broadcast || hopLimit != nil || addressPreference != .any {
      throw .usage("--broadcast, --ttl, -4 and -6 are not for unix sockets")
    }
    if let source, source.isUnix != endpoint.isUnix {
      throw .usage("a socket at \(source) cannot send to \(endpoint)")
    }
  }
}

extension Endpoint {
  /// The socket address, if the endpoint contains it. It is `nil` if a name must be looked up.
  var numericAddress: SocketAddress? {
    switch self {
    case .host(let name, let port): IPAddress(name)?.socketAddress(port: port)
    case .address(let address): address
    case .unix: nil
    }
  }
}
