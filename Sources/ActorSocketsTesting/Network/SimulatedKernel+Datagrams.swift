// The calls on UDP sockets, and the datagrams and reports that reach them: udp(7), ip(7), ipv6(7). Results below zero are negative errors.

internal import SocketSystem

extension SimulatedKernel {
  // MARK: Calls

  func connect(_ socket: UDPSocket, to address: SocketAddress) -> Int32 {
    if !bindIfNeeded(socket) { return -Errno.wouldBlock }
    if socket.family == SocketKind.ipv4, address.isIPv6 { return -Errno.familyNotSupported }
    let target = concrete(address, for: socket)
    if target.isIPv4, socket.options.isIPv6Only { return -Errno.networkUnreachable }
    switch route(socket, to: target, DatagramMetadata()) {
    case .failure(let error): return -error.errno
    case .success(let source):
      socket.remote = socket.seen(target)
      if let local = socket.local, local.isUnspecified { move(socket, to: source.with(port: local.port ?? 0)) }
      if socket.local?.isOfSeveral == true { socket.source = source }
      return 0
    }
  }

  func disconnect(_ socket: UDPSocket) -> Int32 {
    socket.remote = nil
    guard let local = socket.local else { return 0 }
    if !socket.hasChosenAddress { move(socket, to: socket.unspecified.with(port: local.port ?? 0)) }
    if !socket.hasChosenPort {
      freePort(of: socket)
      socket.local = socket.local?.with(port: 0)
    }
    return 0
  }

  func send(_ socket: UDPSocket, _ bytes: Span<UInt8>, to address: SocketAddress?, _ metadata: DatagramMetadata) -> Int
  {
    if !bindIfNeeded(socket) { return -Int(Errno.wouldBlock) }
    if socket.family == SocketKind.ipv4, bytes.count > 65_535 { return -Int(Errno.messageTooLong) }
    guard let target = address ?? socket.remote else { return -Int(Errno.destinationRequired) }
    if socket.family == SocketKind.ipv4, target.isIPv6 { return -Int(Errno.familyNotSupported) }
    if target.port == 0 { return -Int(Errno.invalidArgument) }
    let destination = concrete(target, for: socket)
    if destination.isIPv4, socket.options.isIPv6Only { return -Int(Errno.networkUnreachable) }
    if destination.isIPv4, bytes.count > 65_535 { return -Int(Errno.messageTooLong) }
    let source: SocketAddress
    switch route(socket, to: destination, metadata) {
    case .failure(let error): return -Int(error.errno)
    case .success(let found): source = found
    }
    let isIPv4 = destination.isIPv4
    if bytes.count > (isIPv4 ? 65_507 : 65_527) {
      if socket.isOn(.errors(isIPv4: isIPv4)) { socket.refusedLength() }
      return -Int(Errno.messageTooLong)
    }
    if socket.error != 0 { return -Int(socket.takeError()) }
    if socket.hasShutDownSending { return -Int(Errno.brokenPipe) }
    if socket.isFull { return -Int(Errno.wouldBlock) }

    var datagram = UDPDatagram(bytes: [UInt8](copying: bytes))
    let hopOption = destination.isMulticast ? RawOption.multicastHopLimit(isIPv4: isIPv4) : .hopLimit(isIPv4: isIPv4)
    datagram.hopLimit = metadata.hopLimit ?? UInt8(truncatingIfNeeded: socket.number(hopOption))
    datagram.trafficClass =
      metadata.trafficClass ?? UInt8(truncatingIfNeeded: socket.number(.trafficClass(isIPv4: isIPv4)))
    if destination.isOfSeveral {
      datagram.interface = outgoingInterface(of: socket, to: destination, metadata)
    } else if destination.isLoopback || target.isUnspecified {
      datagram.interface = Self.loopbackInterface
    }
    let packet = Packet(
      source: source.with(port: socket.local?.port ?? 0), destination: destination, content: .datagram(datagram))
    transmit(packet, datagram, of: socket)
    return bytes.count
  }

  private func transmit(_ packet: Packet, _ datagram: UDPDatagram, of socket: UDPSocket) {
    guard let network else { return }
    let count = socket.sent(datagram.bytes.count)
    var departure = now
    if packet.destination.isOfSeveral {
      // RFC 4291, section 2.5.3: no host takes a packet from the loopback address of IPv6 that comes through a network.
      let isValid = datagram.interface == Self.loopbackInterface || packet.source.isIPv4 || !packet.source.isLoopback
      let loops = packet.destination.isBroadcast || socket.isOn(.multicastLoopback(isIPv4: packet.destination.isIPv4))
      if loops, isValid { network.deliver(packet, to: host) }
      if isValid, datagram.interface != Self.loopbackInterface, datagram.hopLimit > 0 {
        departure = network.send(packet, from: host)
      }
    } else {
      departure = network.send(packet, from: host)
    }
    if departure > now { network.schedule(.departure(socket, count), at: departure) } else { socket.departed(count) }
  }

  func receive(_ socket: UDPSocket) -> (result: Int32, datagram: ReceivedDatagram?) {
    if socket.error != 0 { return (-socket.takeError(), nil) }
    guard let arrived = socket.takeFirst() else { return (-Errno.wouldBlock, nil) }
    let isIPv4 = arrived.destination.isIPv4
    var metadata = DatagramMetadata()
    if socket.isOn(.localAddress(isIPv4: isIPv4)) {
      metadata.localAddress = IPAddress(arrived.destination)
      if arrived.hasPacketInfo {
        metadata.interface = arrived.datagram.interface
        metadata.answerAddress = arrived.destination.isOfSeveral ? .ipv4(addresses.ipv4) : metadata.localAddress
      }
    }
    if socket.isOn(.receivesTrafficClass(isIPv4: isIPv4)) { metadata.trafficClass = arrived.datagram.trafficClass }
    if socket.isOn(.receivesHopLimit(isIPv4: isIPv4)) { metadata.hopLimit = arrived.datagram.hopLimit }
    if socket.isOn(.timestamp) { metadata.timestamp = UnixTime(durationSince1970: .nanoseconds(arrived.time)) }
    let datagram = ReceivedDatagram(
      bytes: arrived.datagram.bytes, address: socket.seen(arrived.source), metadata: metadata)
    return (0, datagram)
  }

  // MARK: Addresses

  /// Linux calls this autobind. Returns whether the socket has a port.
  private func bindIfNeeded(_ socket: UDPSocket) -> Bool {
    if socket.holdsPort { return true }
    let address = socket.local ?? socket.unspecified
    guard let port = freePort(for: socket, address) else { return false }
    socket.local = address.with(port: port)
    takePort(of: socket, isConnected: false)
    return true
  }

  /// Not IPv4-mapped. The unspecified address stands for the socket's own IPv4 address, or for the own host.
  private func concrete(_ address: SocketAddress, for socket: UDPSocket) -> SocketAddress {
    if !address.isUnspecified { return address.unmapped.withoutNeedlessScope }
    if let local = socket.local, local.isIPv4, !local.isUnspecified, !local.isOfSeveral {
      return local.with(port: address.port ?? 0)
    }
    let isIPv4 = address.unmapped.isIPv4 || socket.local?.unmapped.isIPv4 == true
    return isIPv4 ? .ipv4(.loopback, port: address.port ?? 0) : .ipv6(.loopback, port: address.port ?? 0)
  }

  private func move(_ socket: UDPSocket, to address: SocketAddress) {
    if socket.local == socket.seen(address) { return }
    let holdsPort = socket.holdsPort
    if holdsPort { freePort(of: socket) }
    socket.local = socket.seen(address)
    if holdsPort { takePort(of: socket, isConnected: false) }
  }

  /// The address from which the socket sends to `target`. Neither address is IPv4-mapped.
  private func route(
    _ socket: UDPSocket, to target: SocketAddress, _ metadata: DatagramMetadata
  ) -> Result<SocketAddress, SystemError> {
    func failure(_ errno: Int32) -> Result<SocketAddress, SystemError> {
      .failure(SystemError(call: "send", errno: errno))
    }
    guard var source = network?.source(for: target, from: self) else { return failure(Errno.networkUnreachable) }
    if let local = socket.local?.unmapped, !local.isUnspecified {
      // A socket that has an IPv6 address from connect(2) can still use IPv4.
      if local.isIPv4, !target.isIPv4 { return failure(Errno.familyNotSupported) }
      // A broadcast address that an IPv6 socket is bound to would also be its source.
      if local.isBroadcast, socket.family == SocketKind.ipv6 { return failure(Errno.networkUnreachable) }
      if local.isIPv4 == target.isIPv4 { source = local.isOfSeveral ? socket.source ?? source : local }
    }
    if let own = metadata.localAddress {
      let own = own.socketAddress(port: 0)
      if !addresses.contains(own) { return failure(Errno.invalidArgument) }
      source = own
    }
    // A packet with a loopback address never leaves the host.
    if source.isLoopback, !target.isMulticast, !addresses.contains(target) { return failure(Errno.invalidArgument) }
    if target.isBroadcast, !socket.isOn(.broadcast) { return failure(Errno.permissionDenied) }
    return .success(source)
  }

  // MARK: Packets

  func receive(_ datagram: UDPDatagram, from source: SocketAddress, to destination: SocketAddress) {
    let arrived = UDPSocket.Arrived(
      datagram: datagram, source: source, destination: destination, time: timeOfDay)
    if destination.isOfSeveral {
      for socket in receivers(of: arrived) where !socket.arrived(arrived) {
        network?.droppedDatagram(from: source, to: host)
      }
    } else if let socket = socket(from: source, to: destination) {
      if !socket.arrived(arrived) { network?.droppedDatagram(from: source, to: host) }
    } else {
      let report = ICMPReport(kind: .portUnreachable, flow: Flow(local: source, remote: destination))
      network?.send(
        Packet(source: destination.with(port: 0), destination: source.with(port: 0), content: .report(report)),
        from: host)
    }
  }

  /// Without IP_RECVERR, only a connected socket gets the error, and only if it is fatal: ip(7).
  func receive(_ report: ICMPReport, from reporter: SocketAddress) {
    guard let socket = socket(from: report.flow.remote, to: report.flow.local) else { return }
    let keepsReport = socket.isOn(.errors(isIPv4: report.flow.remote.isIPv4))
    if !keepsReport, socket.remote == nil || !report.isFatal { return }
    guard let reporter = IPAddress(reporter) else { return }
    let error = ReportedError(errno: report.errno, destination: report.flow.remote, reporter: reporter)
    socket.reported(error, keepsReport: keepsReport)
  }

  /// The connected socket, or the one with the most specific address. Of those with SO_REUSEADDR, the one that was bound last.
  private func socket(from source: SocketAddress, to destination: SocketAddress) -> UDPSocket? {
    guard let port = destination.port, let uses = ports[.udp(port)] else { return nil }
    var best: (score: Int, sockets: [UDPSocket]) = (0, [])
    for use in uses.bound.reversed() {
      guard let socket = use.socket as? UDPSocket, let score = use.score(source, destination, socket) else { continue }
      if score > best.score { best = (score, []) }
      // Several sockets with SO_REUSEPORT divide the datagrams by the ports of the senders.
      if score == best.score, best.sockets.isEmpty || use.reusesPort { best.sockets.append(socket) }
    }
    return best.sockets.isEmpty ? nil : best.sockets[Int(source.port ?? 0) % best.sockets.count]
  }
}

extension PortUse {
  /// How specific the use is; `nil` if the socket does not receive the datagram.
  fileprivate func score(_ source: SocketAddress, _ destination: SocketAddress, _ socket: UDPSocket) -> Int? {
    if let remote = socket.remote?.unmapped, remote != source { return nil }
    let isConnected = socket.remote != nil ? 4 : 0
    if address == destination { return 16 + isConnected }
    guard address.isUnspecified else { return nil }
    if address.isIPv4 == destination.isIPv4 { return 2 + isConnected }
    return address.isIPv6 && !isIPv6Only ? 1 + isConnected : nil
  }
}
