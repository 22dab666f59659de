import ActorSockets

struct UDPListenOptions: Equatable {
  var endpoint: Endpoint
  var echoes = false
  var groups: [IPAddress] = []
  var interface: InterfaceSelector?
  /// `nil` means no limit.
  var count: Int?
  var idleTimeout: Duration?
}

struct UDPSendOptions: Equatable {
  var endpoint: Endpoint
  var isWhole = false
  /// How long to print answers after the last datagram was sent.
  var wait: Duration?
  var broadcast = false
  var hopLimit: UInt8?
  var interface: InterfaceSelector?
  var addressPreference = AddressPreference.any
  var source: Endpoint?

  var isToGroup: Bool { endpoint.numericAddress?.isMulticast ?? false }

  /// Whether the kernel may refuse to send because the endpoint is a broadcast address.
  var mayNeedBroadcast: Bool { !broadcast && !endpoint.isUnix }
}

extension UDPListenOptions: CommandOptions {
  static let text = CommandText(
    name: "udp-listen", operands: ["ENDPOINT"],
    missingOperand: "say what to listen on, as in: sockcat udp-listen :9000",
    summary: "prints datagrams",
    text: """
      Prints "listening on ADDRESS" on standard error, and each datagram as a line on standard output: the sender's \
      address, the length, the bytes. Bytes that are not printable ASCII are written as \\n, \\r, \\t or \\xNN, the \
      backslash as \\\\. A "+" after the length means that the datagram was longer. SIGTERM and SIGINT end it.
      """)

  static let options: [Option<UDPListenOptions>] = [
    Option("--echo", "sends each datagram back as well") { $0.echoes = true },
    Option(
      "--join", .named("GROUP"),
      "receives what is sent to a multicast group; may be repeated. Several programs may then listen on the port"
    ) { $0.groups.append(try $1.group()) },
    Option("--interface", .interface, "joins groups on this interface, which has this name or address") {
      $0.interface = try $1.interface()
    },
    Option("--count", .number, "ends after N datagrams") { $0.count = try $1.count() },
    Option("--idle-timeout", .seconds, "gives up when nothing has arrived for S seconds") {
      $0.idleTimeout = try $1.seconds()
    },
  ]

  static func parse(_ words: inout Words) throws(Failure) -> UDPListenOptions? {
    // A placeholder, replaced below when the endpoint is known.
    var options = UDPListenOptions(endpoint: .port(0))
    guard let operands = try options.read(&words) else { return nil }
    options.endpoint = try .parsed(operands[0])
    if options.interface != nil, options.groups.isEmpty { throw .usage("--interface is for groups: it needs --join") }
    if options.endpoint.isUnix, !options.groups.isEmpty { throw .usage("a unix socket joins no group") }
    return options
  }
}

extension UDPSendOptions: CommandOptions {
  static let text = CommandText(
    name: "udp-send", operands: ["ENDPOINT"],
    missingOperand: "say where to send to, as in: sockcat udp-send example.com:9000",
    summary: "sends datagrams",
    text: "Sends each line of standard input as a datagram, without its newline.")

  static let options: [Option<UDPSendOptions>] = [
    Option("--whole", "sends all of standard input as one datagram") { $0.isWhole = true },
    Option(
      "--wait", .seconds, "prints answers, as udp-listen does, until S seconds after the last datagram was sent"
    ) { $0.wait = try $1.seconds() },
    Option("--broadcast", "allows sending to broadcast addresses") { $0.broadcast = true },
    Option("--ttl", .number, "lets the datagrams pass at most N routers") {
      $0.hopLimit = UInt8(try $1.count(atMost: 255))
    },
    Option("--interface", .interface, "sends datagrams to a multicast group through this interface") {
      $0.interface = try $1.interface()
    },
    Option("-4", "sends over IPv4 only") { $0.addressPreference = .ipv4Only },
    Option("-6", "sends over IPv6 only") { $0.addressPreference = .ipv6Only },
    Option(
      "--source", OptionText.Value(name: "SOURCE", kind: .interface),
      "sends from an address or an interface, as connect does; or from unix:/path or unix:@name"
    ) { $0.source = try $1.source() },
  ]

  static func parse(_ words: inout Words) throws(Failure) -> UDPSendOptions? {
    // A placeholder, replaced below. Port 0 cannot be connected to.
    var options = UDPSendOptions(endpoint: .port(0))
    guard let operands = try options.read(&words) else { return nil }
    options.endpoint = try .parsed(operands[0])
    try options.check()
    return options
  }
}

extension Words.Argument {
  fileprivate func group() throws(Failure) -> IPAddress {
    guard let group = IPAddress(text), group.isMulticast else {
      throw .usage("\(option) takes a multicast group, as in 239.1.2.3 or ff15::1, not \(text.debugDescription)")
    }
    return group
  }

  fileprivate func interface() throws(Failure) -> InterfaceSelector {
    if text.isEmpty { throw .usage("\(option) takes a name or an address") }
    return InterfaceSelector(text)
  }
}

extension UDPSendOptions {
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
  /// `nil` if a name must be looked up, and for `.unix`.
  var numericAddress: SocketAddress? {
    switch self {
    case .host(let name, let port): IPAddress(name)?.socketAddress(port: port)
    case .address(let address): address
    case .unix: nil
    }
  }
}
