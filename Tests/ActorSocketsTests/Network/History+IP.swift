import SocketSystem

// The histories of TCP and UDP sockets.

/// The addresses of a history. `network` is that of the network interface, `silent` has no sockets.
private enum IPPlace: CaseIterable { case own, other, any, foreign, network, silent, group, broadcast }

extension History {
  /// Most begin with a connection.
  static func tcp(seed: UInt64) -> History {
    var history = History(seed: seed)
    let domain = history.isOne(of: 4) ? SocketKind.ipv6 : SocketKind.ipv4
    if !history.isOne(of: 8) {
      history.add(
        .make(0, .stream, domain), .bind(0, history.address(.own, portOf: nil)), .listen(0, backlog: 3),
        .make(1, .stream, domain))
      if history.isOne(of: 2) { history.add(.watch(0), .watch(1)) }
      history.add(.connect(1, Self.address(of: 0, for: 1)))
      if !history.isOne(of: 4) { history.add(.accept(0, into: 2)) }
      if history.isOne(of: 2) { history.add(.watch(2), .poll) }
    }
    history.add(5 + history.below(30)) { $0.tcpCall(domain) }
    history.add(.poll)
    return history
  }

  private mutating func tcpCall(_ domain: Int32) -> HistoryCall {
    let (one, other, amount) = (place(), place(), 1 + below(3_000))
    switch below(40) {
    case 0: return .make(one, .stream, this(or: domain))
    case 1: return .set(one, pick([.reuseAddress, .reusePort, .ipv6Only]), below(2))
    case 2, 3: return .bind(one, address(pick([.own, .other, .any, .foreign]), portOf: isOne(of: 2) ? other : nil))
    case 4: return .listen(one, backlog: below(3))
    case 5, 6, 7: return .connect(one, Self.address(of: other, for: one))
    case 8: return .connect(one, address(.silent, portOf: nil))
    case 9, 10, 11: return .accept(one, into: other)
    case 12...16: return .send(one, amount)
    case 17...20: return .receive(one, isOne(of: 2) ? amount : 100_000)
    case 21: return .do(one, "reset on close") { try $1.resetOnClose() }
    default: return commonCall(on: one)
    }
  }

  static func udp(seed: UInt64) -> History {
    var history = History(seed: seed)
    let domain = history.isOne(of: 3) ? SocketKind.ipv6 : SocketKind.ipv4
    for place in 0..<3 where !history.isOne(of: 8) {
      history.add(.make(place, .datagram, history.this(or: domain)))
      if history.isOne(of: 2) { history.add(.watch(place)) }
      if history.isOne(of: 2) { history.add(.set(place, .reuseAddress, 1)) }
      if !history.isOne(of: 3) {
        history.add(.bind(place, history.address(history.pick([.own, .any]), portOf: history.isOne(of: 4) ? 0 : nil)))
      }
      for isIPv4 in [true, false] where history.isOne(of: 2) {
        history.add(
          .set(place, .errors(isIPv4: isIPv4), 1), .set(place, .localAddress(isIPv4: isIPv4), 1),
          .set(place, .receivesHopLimit(isIPv4: isIPv4), 1), .set(place, .receivesTrafficClass(isIPv4: isIPv4), 1))
      }
    }
    history.add(5 + history.below(30)) { $0.udpCall(domain) }
    history.add(.poll)
    return history
  }

  private mutating func udpCall(_ domain: Int32) -> HistoryCall {
    let (one, other) = (place(), place())
    switch below(46) {
    case 0, 1: return .make(one, .datagram, this(or: domain))
    case 2, 3, 4: return .set(one, udpOption(), below(2))
    case 5, 6: return .bind(one, address(udpPlace(), portOf: isOne(of: 2) ? other : nil))
    case 7, 8, 9: return .connect(one, target(other, for: one))
    case 10: return .disconnect(one)
    case 11...14: return .send(one, size(65_500..<65_540, 5_000))
    case 15...20: return .send(one, size(65_500..<65_540, 5_000), to: target(other))
    case 21, 22: return .sendBatch(one, sizes(65_500..<65_540, 5_000), to: target(other))
    case 23...25: return .receive(one, 1 + below(200))
    case 26...29: return .receiveBatch(one, atMost: 1 + below(6), size: 1 + below(2_000))
    case 30, 31:
      return .get(one, "take report") {
        guard let report = $1.takeReportedError() else { return "no report" }
        return "\(report.errno) \($0.name(report.destination)) \(report.reporter.map { "\($0)" } ?? "no reporter")"
      }
    case 32, 33: return membershipCall(one)
    default: return commonCall(on: one, changesInterest: true)
    }
  }

  private mutating func udpOption() -> RawOption {
    let isIPv4 = isOne(of: 2)
    return pick([
      .reuseAddress, .ipv6Only, .broadcast, .errors(isIPv4: isIPv4), .localAddress(isIPv4: isIPv4),
      .multicastLoopback(isIPv4: isIPv4), .multicastAll(isIPv4: isIPv4), .receivesHopLimit(isIPv4: isIPv4),
    ])
  }

  private mutating func membershipCall(_ place: Int) -> HistoryCall {
    let (joins, group, source) = (!isOne(of: 3), 1 + below(3), isOne(of: 4) ? below(2) : nil)
    let interface = pick([0, 1, 2, 2, 7] as [UInt32])
    let text = "\(joins ? "join" : "leave") \(group) of \(source.map { "\($0)" } ?? "all") on \(interface)"
    return .do(place, text) { _, socket in
      let isIPv6 = try socket.get(.domain) == SocketKind.ipv6
      let sources = isIPv6 ? ["fd00::1", "::1"] : ["10.0.0.1", "127.0.0.1"]
      try socket.changeMembership(
        joins: joins, group: IPAddress(parsing: isIPv6 ? "ff15::\(group)" : "239.1.2.\(group)"),
        source: source.map { try IPAddress(parsing: sources[$0]) }, interface: interface)
    }
  }

  // MARK: Addresses

  /// Sometimes the other family.
  private mutating func this(or domain: Int32) -> Int32 {
    if !isOne(of: 8) { return domain }
    return domain == SocketKind.ipv6 ? SocketKind.ipv4 : SocketKind.ipv6
  }

  private mutating func udpPlace() -> IPPlace {
    isOne(of: 3) ? pick(IPPlace.allCases) : pick([.own, .other, .any])
  }

  /// The address to which another socket is bound. With port 0 the kernel chooses a port by itself, perhaps the socket's own: a connection
  /// with itself.
  private static func address(of other: Int, for place: Int) -> HistoryAddress {
    HistoryAddress(description: "that of \(other)") { sockets, _ in
      guard let target = try sockets[other]?.localAddress(), target.port != 0, other != place else { return nil }
      return target
    }
  }

  /// An address of this history with the port that another socket has. With `connecting`, there is no address if another socket with a peer
  /// has the same port: which of two sockets with the same two addresses receives depends on the version of Linux.
  private mutating func target(_ other: Int, for connecting: Int? = nil) -> HistoryAddress {
    let base = address(udpPlace(), portOf: other)
    return HistoryAddress(description: base.description) { sockets, socket in
      guard let target = try base.find(sockets, socket), target.port != 0 else { return nil }
      guard let connecting else { return target }
      let port = try sockets.port(of: connecting)
      let isShared = try (0..<HistorySockets.places).contains { place in
        let isConnected = sockets[place].flatMap { try? $0.remoteAddress() } != nil
        return try place != connecting && isConnected && sockets.port(of: place) == port
      }
      return isShared ? nil : target
    }
  }

  /// An address of this history, with port 0 or with the port that another socket has.
  private func address(_ place: IPPlace, portOf other: Int?) -> HistoryAddress {
    // Each history has addresses of its own, so that others' sockets do not matter.
    let number = 127 << 24 | UInt32(1 + 2 * (seed % 4_000_000)) + (place == .other ? 1 : 0)
    let (ipv4, ipv6) =
      switch place {
      case .own, .other, .silent: ("\(IPv4Address(rawValue: number))", "::1")
      case .any: ("0.0.0.0", "::")
      case .network: ("10.0.0.1", "fd00::1")
      case .foreign: ("192.0.2.1", "2001:db8::1")
      case .group: ("239.1.2.1", "ff15::1%2")
      case .broadcast: ("10.255.255.255", "::ffff:10.255.255.255")
      }
    return HistoryAddress(description: "\(place) with the port of \(other.map { "\($0)" } ?? "no socket")") {
      let port = try place == .silent ? 1 : other.map($0.port) ?? 0
      let isIPv6 = try $1.get(.domain) == SocketKind.ipv6
      return try SocketAddress(parsing: isIPv6 ? "[\(ipv6)]:0" : "\(ipv4):0").with(port: port)
    }
  }
}
