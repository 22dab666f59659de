// Multicast groups and broadcasts: ip(7), ipv6(7), RFC 3678.
//
// A host has two interfaces: `lo` and `eth0`, through which it reaches the other hosts. They are one network, so a datagram to a group or
// a broadcast address reaches all of them.

internal import SocketSystem

extension SimulatedKernel {
  static var loopbackInterface: UInt32 { 1 }
  static var networkInterface: UInt32 { 2 }
  /// net.ipv4.igmp_max_memberships.
  private static var mostMemberships: Int { 20 }

  var interfaces: [NetworkInterface] {
    [
      NetworkInterface(
        name: "lo", index: Self.loopbackInterface, flags: [.up, .running, .loopback],
        addresses: [
          NetworkInterface.Address(.ipv4(.loopback), prefixLength: 8),
          NetworkInterface.Address(.ipv6(.loopback), prefixLength: 128),
        ]),
      NetworkInterface(
        name: "eth0", index: Self.networkInterface, flags: [.up, .running, .multicast],
        addresses: [
          NetworkInterface.Address(.ipv4(addresses.ipv4), prefixLength: 8),
          NetworkInterface.Address(.ipv6(addresses.ipv6), prefixLength: 64),
        ]),
    ]
  }

  func changeMembership(
    _ socket: UDPSocket, joins: Bool, _ group: IPAddress, source: IPAddress?, _ interface: UInt32
  ) -> Int32 {
    if socket.family == SocketKind.ipv4, group.isIPv6 { return -Errno.noProtocolOption }
    if interface > Self.networkInterface, joins || source != nil { return -Errno.noDevice }
    let group = group.withoutScope
    // For IPv6, no interface stands for the one on which the group was joined last.
    let isAny = interface == 0 && group.isIPv6
    let interface = interface == 0 ? Self.networkInterface : interface
    let index = socket.memberships.lastIndex { $0.group == group && (isAny || $0.interface == interface) }
    if let source { return changeSources(socket, index, joins, group, source.withoutScope, interface) }
    if !joins {
      guard let index else { return -Errno.addressNotAvailable }
      socket.memberships.remove(at: index)
      return 0
    }
    return index == nil ? join(socket, group, nil, interface) : -Errno.addressInUse
  }

  private func join(_ socket: UDPSocket, _ group: IPAddress, _ sources: [IPAddress]?, _ interface: UInt32) -> Int32 {
    let count = socket.memberships.count { $0.group.isIPv4 }
    if group.isIPv4, count >= Self.mostMemberships { return -Errno.noBuffers }
    socket.memberships.append(UDPSocket.Membership(group: group, interface: interface, sources: sources))
    return 0
  }

  private func changeSources(
    _ socket: UDPSocket, _ index: Int?, _ joins: Bool, _ group: IPAddress, _ source: IPAddress, _ interface: UInt32
  ) -> Int32 {
    guard let index else { return joins ? join(socket, group, [source], interface) : -Errno.invalidArgument }
    // A membership for any source becomes one for some.
    let sources = socket.memberships[index].sources ?? []
    let isKnown = sources.contains(source)
    socket.memberships[index].sources = sources
    if isKnown == joins { return -Errno.addressNotAvailable }
    if joins {
      socket.memberships[index].sources = sources + [source]
    } else if sources.count == 1 {
      socket.memberships.remove(at: index)
    } else {
      socket.memberships[index].sources = sources.filter { $0 != source }
    }
    return 0
  }

  func outgoingInterface(
    of socket: UDPSocket, to destination: SocketAddress, _ metadata: DatagramMetadata
  ) -> UInt32 {
    if metadata.interface != 0 { return metadata.interface }
    if case .ipv6(let address, _) = destination.withoutNeedlessScope, address.scopeID != 0 { return address.scopeID }
    // The IPv4 option is a struct ip_mreqn, whose last number is the index.
    let value = socket.options.value(.multicastInterface(isIPv4: destination.isIPv4))
    let chosen = UInt32(bitPattern: Int32(kernelBytes: Array(value.suffix(4))))
    if destination.isMulticast, chosen != 0 { return chosen }
    return destination.isIPv4 && socket.local?.unmapped.isLoopback == true
      ? Self.loopbackInterface : Self.networkInterface
  }

  /// The socket that was bound last comes first.
  func receivers(of arrived: UDPSocket.Arrived) -> [UDPSocket] {
    guard let port = arrived.destination.port, arrived.destination.isBroadcast || isMember(arrived) else { return [] }
    return (ports[.udp(port)]?.bound ?? []).reversed().compactMap { use in
      guard let socket = use.socket as? UDPSocket, use.receives(arrived) else { return nil }
      if let remote = socket.remote?.unmapped, remote != arrived.source { return nil }
      return arrived.destination.isBroadcast || wants(socket, arrived) ? socket : nil
    }
  }

  private func wants(_ socket: UDPSocket, _ arrived: UDPSocket.Arrived) -> Bool {
    guard let group = IPAddress(arrived.destination)?.withoutScope, let source = IPAddress(arrived.source) else {
      return false
    }
    // Linux does not compare the interfaces of IPv6 groups.
    let membership = socket.memberships.first {
      $0.group == group && ($0.interface == arrived.datagram.interface || group.isIPv6)
    }
    if let membership { return membership.sources?.contains(source) ?? true }
    return socket.isOn(.multicastAll(isIPv4: group.isIPv4))
  }

  /// Whether any socket of the host is in the group, on the interface where the datagram arrives and with its source.
  private func isMember(_ arrived: UDPSocket.Arrived) -> Bool {
    guard let group = IPAddress(arrived.destination)?.withoutScope, let source = IPAddress(arrived.source) else {
      return false
    }
    return files.contains {
      guard case .socket(let socket as UDPSocket) = $0 else { return false }
      return socket.memberships.contains {
        $0.group == group && $0.interface == arrived.datagram.interface && $0.sources?.contains(source) != false
      }
    }
  }
}

extension UDPSocket {
  /// Without `source`, a membership with any sources counts.
  func isMember(of group: IPAddress, source: IPAddress?, _ interface: UInt32) -> Bool {
    memberships.contains {
      $0.group == group.withoutScope && $0.interface == interface
        && (source == nil || $0.sources?.contains { $0 == source?.withoutScope } == true)
    }
  }
}

extension PortUse {
  /// Whether a socket with this use receives the datagram if it is in the group.
  fileprivate func receives(_ arrived: UDPSocket.Arrived) -> Bool {
    if address.isUnspecified {
      return address.isIPv4 == arrived.destination.isIPv4 || address.isIPv6 && !isIPv6Only
    }
    return IPAddress(address)?.withoutScope == IPAddress(arrived.destination)?.withoutScope
  }
}

extension SocketAddress {
  /// As Linux keeps it: only addresses of a link, or of an interface, name an interface.
  var withoutNeedlessScope: SocketAddress {
    guard case .ipv6(var address, let port) = self else { return self }
    let isOfLink = address.isLinkLocal || address.isMulticast && (1...2).contains(address.high >> 48 & 0xf)
    if !isOfLink { address.scopeID = 0 }
    return .ipv6(address, port: port)
  }
}

extension IPAddress {
  var withoutScope: IPAddress {
    guard case .ipv6(var address) = self else { return self }
    address.scopeID = 0
    return .ipv6(address)
  }
}
