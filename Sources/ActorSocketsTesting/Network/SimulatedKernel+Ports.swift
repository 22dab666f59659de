// Which sockets may use which local addresses: bind(2), ip(7), and inet_csk_bind_conflict() of Linux.

internal import SocketSystem

enum PortKey: Hashable {
  case tcp(UInt16), udp(UInt16)
}

/// The use of a local port by a socket, or by a connection in TIME_WAIT.
final class PortUse {
  /// `nil` in TIME_WAIT.
  private(set) weak var socket: SimulatedSocket?
  /// Not IPv4-mapped.
  let address: SocketAddress
  let isIPv6Only: Bool
  let reusesAddress: Bool
  let reusesPort: Bool
  /// Whether connect(2) has chosen the port. Connections to other addresses can have the same one.
  let isOutgoing: Bool

  init(
    _ socket: SimulatedSocket?, _ address: SocketAddress, isIPv6Only: Bool, reusesAddress: Bool, reusesPort: Bool,
    isOutgoing: Bool
  ) {
    self.socket = socket
    self.address = address
    self.isIPv6Only = isIPv6Only
    self.reusesAddress = reusesAddress
    self.reusesPort = reusesPort
    self.isOutgoing = isOutgoing
  }

  /// The use in TIME_WAIT, after the socket has ended the connection.
  var withoutSocket: PortUse {
    PortUse(
      nil, address, isIPv6Only: isIPv6Only, reusesAddress: reusesAddress, reusesPort: false,
      isOutgoing: isOutgoing)
  }

  /// Whether this use concerns packets that the earlier one receives.
  func overlaps(_ other: PortUse) -> Bool {
    if address.isIPv4 == other.address.isIPv4 {
      return address.with(port: 0) == other.address.with(port: 0) || address.isUnspecified
        || other.address.isUnspecified
    }
    // Linux also lets the unspecified IPv4 address clash with any IPv6 address that was there before.
    if address.isIPv4 { return !other.isIPv6Only && (address.isUnspecified || other.address.isUnspecified) }
    return address.isUnspecified && !isIPv6Only
  }

  func conflicts(with other: PortUse) -> Bool {
    if !overlaps(other) { return false }
    // For UDP, the current options count.
    let otherReuses = (other.socket as? UDPSocket)?.options.reusesAddress ?? other.reusesAddress
    if reusesAddress, otherReuses, other.socket?.isListening != true { return false }
    return !(reusesPort && other.reusesPort)
  }
}

/// A busy server has many connections on one port, so adding or removing one does not search them.
struct PortUses {
  /// By sockets that were bound and may listen, the earliest first.
  private(set) var bound: [PortUse] = []
  /// By connections. The key is the socket, in TIME_WAIT the use itself.
  private var connected: [ObjectIdentifier: PortUse] = [:]

  var isEmpty: Bool { bound.isEmpty && connected.isEmpty }

  mutating func add(_ use: PortUse, isConnected: Bool) {
    let key = use.socket.map { ObjectIdentifier($0) } ?? ObjectIdentifier(use)
    if isConnected { connected[key] = use } else { bound.append(use) }
  }

  @discardableResult
  mutating func remove(_ socket: SimulatedSocket) -> PortUse? {
    if let use = connected.removeValue(forKey: ObjectIdentifier(socket)) { return use }
    return bound.firstIndex { $0.socket === socket }.map { bound.remove(at: $0) }
  }

  /// Removes the use of a connection in TIME_WAIT.
  mutating func remove(_ use: PortUse) { connected[ObjectIdentifier(use)] = nil }

  func use(of socket: SimulatedSocket) -> PortUse? {
    connected[ObjectIdentifier(socket)] ?? bound.first { $0.socket === socket }
  }

  func contains(where hasProperty: (PortUse) -> Bool) -> Bool {
    bound.contains(where: hasProperty) || connected.values.contains(where: hasProperty)
  }
}

extension SimulatedKernel {
  private func use(of socket: SimulatedSocket, _ address: SocketAddress, isOutgoing: Bool = false) -> PortUse {
    PortUse(
      socket, address.unmapped, isIPv6Only: socket.options.isIPv6Only, reusesAddress: socket.options.reusesAddress,
      reusesPort: socket.options.reusesPort, isOutgoing: isOutgoing)
  }

  private func isTaken(_ address: SocketAddress, for socket: SimulatedSocket) -> Bool {
    guard let port = address.port, let uses = ports[socket.key(of: port)] else { return false }
    let wanted = use(of: socket, address)
    return uses.contains { $0.socket !== socket && wanted.conflicts(with: $0) }
  }

  /// `isConnected`: the socket has a connection, or begins one. `isOutgoing`: connect(2) has chosen the port.
  func takePort(of socket: SimulatedSocket, isConnected: Bool, isOutgoing: Bool = false) {
    guard let local = socket.local, let port = local.port else { return }
    ports[socket.key(of: port), default: PortUses()].add(
      use(of: socket, local, isOutgoing: isOutgoing), isConnected: isConnected)
    socket.holdsPort = true
  }

  func freePort(of socket: SimulatedSocket) {
    socket.holdsPort = false
    guard let port = socket.local?.port.map({ socket.key(of: $0) }) else { return }
    ports[port]?.remove(socket)
    dropPort(port)
  }

  func dropPort(_ port: PortKey) { if ports[port]?.isEmpty == true { ports[port] = nil } }

  /// A port that no socket of the protocol uses, or with `remote` one that no connection to `remote` uses; `nil` if all are taken.
  func freePort(for socket: SimulatedSocket, _ address: SocketAddress, to remote: SocketAddress? = nil) -> UInt16? {
    let range = limits.ports
    let start = UInt16(network?.random(below: UInt64(range.count)) ?? 0)
    for step in 0..<range.count {
      let port = range.lowerBound + UInt16((Int(start) + step) % range.count)
      if let remote {
        let flow = Flow(local: address.unmapped.with(port: port), remote: remote.unmapped)
        let isBound = ports[.tcp(port)]?.contains { !$0.isOutgoing } ?? false
        if !isBound, flows[flow] == nil, ended[flow] == nil { return port }
      } else if ports[socket.key(of: port)] == nil {
        return port
      }
    }
    return nil
  }

  func bind(_ socket: SimulatedSocket, to address: SocketAddress) -> Int32 {
    if address.family != socket.family { return -socket.errorOfOtherFamily }
    let isBound = socket.holdsPort || !socket.isIdle
    if isBound, address.isIPv6 { return -Errno.invalidArgument }
    if socket.options.isIPv6Only, address.isIPv6, address.unmapped.isIPv4 { return -Errno.invalidArgument }
    let mayBeGroup = socket is UDPSocket && address.isOfSeveral
    if !address.isUnspecified, !addresses.contains(address), !mayBeGroup { return -Errno.addressNotAvailable }
    if isBound { return -Errno.invalidArgument }
    var wanted = address.withoutNeedlessScope
    if address.port == 0 {
      guard let port = freePort(for: socket, address) else { return refuse(socket) }
      wanted = wanted.with(port: port)
    }
    if isTaken(wanted, for: socket) { return refuse(socket) }
    socket.local = wanted
    // As Linux does: a specific IPv6 address is for IPv6 only.
    if address.isIPv6, !address.isUnspecified, !address.unmapped.isIPv4 { socket.options.isIPv6Only = true }
    socket.hasChosenPort = address.port != 0
    socket.hasChosenAddress = !address.isUnspecified
    takePort(of: socket, isConnected: false)
    return 0
  }

  /// The socket forgets its earlier address, but not the port.
  private func refuse(_ socket: SimulatedSocket) -> Int32 {
    socket.forgetAddress()
    return -Errno.addressInUse
  }

  func listen(_ socket: TCPSocket, backlog: Int32) -> Int32 {
    let limit = backlog < 0 ? limits.backlog : min(Int(backlog), limits.backlog)
    if case .listening(var old) = socket.role {
      old.limit = limit
      socket.role = .listening(old)
      return 0
    }
    guard socket.isFresh else { return -Errno.invalidArgument }
    if socket.holdsPort, let local = socket.local {
      if isTaken(local, for: socket) { return -Errno.addressInUse }
      // It may have tried to connect before.
      let port = PortKey.tcp(local.port ?? 0)
      if let use = ports[port]?.remove(socket) { ports[port]?.add(use, isConnected: false) }
    } else {
      let address = socket.local ?? socket.unspecified
      guard let port = freePort(for: socket, address) else { return -Errno.addressInUse }
      socket.local = address.with(port: port)
      takePort(of: socket, isConnected: false)
    }
    socket.role = .listening(TCPSocket.Backlog(limit: limit))
    return 0
  }

  /// The most specific address wins.
  func listener(for flow: Flow) -> TCPSocket? {
    guard let port = flow.local.port, let uses = ports[.tcp(port)] else { return nil }
    var best: (score: Int, uses: [PortUse]) = (0, [])
    for use in uses.bound where use.socket?.isListening == true {
      let score =
        if use.address == flow.local {
          3
        } else if use.address.isUnspecified, use.address.isIPv4 == flow.local.isIPv4 {
          2
        } else if use.address.isUnspecified, use.address.isIPv6, !use.isIPv6Only {
          1
        } else {
          0
        }
      if score == 0 || score < best.score { continue }
      if score > best.score { best = (score, []) }
      best.uses.append(use)
    }
    if best.uses.isEmpty { return nil }
    // Several sockets with SO_REUSEPORT divide the connections by the ports of the peers.
    return best.uses[Int(flow.remote.port ?? 0) % best.uses.count].socket as? TCPSocket
  }
}

extension SimulatedSocket {
  func key(of port: UInt16) -> PortKey { type == SocketKind.datagram ? .udp(port) : .tcp(port) }
  /// Replaces the local address by the unspecified one. The port stays.
  func forgetAddress() { local = local.map { unspecified.with(port: $0.port ?? 0) } }
  var unspecified: SocketAddress {
    switch family {
    case SocketKind.ipv4: .ipv4(.any, port: 0)
    case SocketKind.ipv6: .ipv6(.any, port: 0)
    default: .unix(.unnamed)
    }
  }
  /// The answer of Linux to an address of another family. An IPv4 address is too short for an IPv6 socket.
  var errorOfOtherFamily: Int32 { family == SocketKind.ipv4 ? Errno.familyNotSupported : Errno.invalidArgument }
}
