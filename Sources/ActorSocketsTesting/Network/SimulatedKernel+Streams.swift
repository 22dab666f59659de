// The calls on stream sockets, and the packets that reach them. Results below zero are negative errors.

internal import SocketSystem

extension SimulatedKernel {
  // MARK: Calls

  func connect(_ socket: TCPSocket, to address: SocketAddress) -> Int32 {
    switch socket.role {
    case .listening: return -Errno.isConnected
    case .stream: return connectAgain(socket)
    case .fresh: break
    }
    if socket.family != address.family { return -socket.errorOfOtherFamily }
    // The unspecified address stands for the socket's own, or for the own host.
    var target = address
    if address.isUnspecified {
      let own = socket.local.flatMap { $0.isUnspecified ? nil : $0.with(port: address.port ?? 0) }
      target = own ?? address.loopback
    }
    guard let source = network?.source(for: target, from: self) else { return -Errno.networkUnreachable }
    let remote = target.unmapped
    var local = socket.holdsPort ? socket.local?.unmapped : socket.local?.unmapped.with(port: 0)
    if let bound = local, bound.isUnspecified { local = source.with(port: bound.port ?? 0) }
    if let bound = local, bound.isIPv4 != remote.isIPv4 { return -Errno.networkUnreachable }
    let isOutgoing = local == nil || local?.port == 0
    if isOutgoing {
      guard let port = freePort(for: socket, local ?? source, to: remote) else { return -Errno.addressNotAvailable }
      local = (local ?? source).with(port: port)
    }
    guard let local else { return -Errno.addressNotAvailable }
    let flow = Flow(local: local, remote: remote)
    if flows[flow] != nil || ended[flow] != nil { return -Errno.addressNotAvailable }
    freePort(of: socket)
    socket.connecting = .underWay
    join(socket, flow, isOutgoing: isOutgoing)
    socket.machine.connect(at: now)
    carryOut(socket)
    return -Errno.inProgress
  }

  /// Packets of the connection reach the socket from now on.
  private func join(_ socket: TCPSocket, _ flow: Flow, isOutgoing: Bool = false) {
    socket.role = .stream
    socket.local = socket.seen(flow.local)
    socket.remote = socket.seen(flow.remote)
    socket.flow = flow
    flows[flow] = socket
    takePort(of: socket, isConnected: true, isOutgoing: isOutgoing)
    socket.options.apply(to: &socket.machine)
    if let network { socket.machine.setSegmentSize(network.segmentSize(of: flow, on: host)) }
  }

  private func connectAgain(_ socket: TCPSocket) -> Int32 {
    switch socket.connecting {
    case .done: return -Errno.isConnected
    case .shutDown: return -Errno.invalidArgument
    case .new, .underWay: break
    }
    switch socket.machine.state {
    case .synSent, .synReceived: return -Errno.alreadyInProgress
    case .closed:
      let error = socket.machine.takeError()
      disconnect(socket)
      carryOut(socket)
      return -(error != 0 ? error : Errno.connectionAborted)
    default:
      socket.connecting = .done
      return 0
    }
  }

  /// After a failed attempt, the socket can connect again.
  private func disconnect(_ socket: TCPSocket) {
    socket.role = .fresh
    socket.connecting = .new
    socket.machine = TCPMachine()
    socket.machine.effects.wakes.append(.error)
    socket.remote = nil
    if !socket.hasChosenAddress { socket.forgetAddress() }
  }

  func accept(_ listener: TCPSocket) -> (result: Int32, peer: SocketAddress?) {
    // As Linux does: without a free descriptor it does not look at the socket.
    guard let number = nextNumber else { return (-Errno.processDescriptors, nil) }
    guard case .listening(var backlog) = listener.role else { return (-Errno.invalidArgument, nil) }
    if backlog.waiting.isEmpty { return (-Errno.wouldBlock, nil) }
    let socket = backlog.waiting.removeFirst()
    listener.role = .listening(backlog)
    open(.socket(socket), as: number)
    return (Int32(number), socket.remote)
  }

  func shutdown(_ socket: TCPSocket, isBoth: Bool) -> Int32 {
    var result: Int32 = 0
    if socket.connecting == .underWay { socket.connecting = socket.machine.state == .closed ? .shutDown : .done }
    switch socket.role {
    case .listening:
      if isBoth { stopListening(socket) }
    case .stream where socket.machine.state == .synSent:
      socket.machine.vanish()
      carryOut(socket)
      disconnect(socket)
      socket.machine.error = Errno.connectionReset
    case .stream where socket.machine.state != .closed:
      socket.machine.finish(at: now)
      if isBoth { socket.machine.shutdown = .both }
    default:
      socket.machine.shutdown.formUnion(isBoth ? .both : .sending)
      result = -Errno.notConnected
    }
    socket.machine.effects.wakes.append(TCPMachine.everyEvent)
    carryOut(socket)
    return result
  }

  func receive(
    _ socket: TCPSocket, into memory: inout OutputSpan<UInt8>, atMost limit: Int, peeking: Bool
  ) -> Int {
    if socket.isListening { return -Int(Errno.notConnected) }
    if socket.machine.receiving.bytes.isEmpty { return socket.machine.emptyReceive() }
    let possible = min(limit, memory.freeCapacity, socket.machine.receiving.bytes.count)
    let count = faults.shortened(possible, isRead: true)
    socket.machine.receiving.bytes.copy(atMost: count, to: &memory)
    if !peeking {
      if count < possible { socket.wake(.readable) }
      socket.machine.programReceived(count, at: now)
      carryOut(socket)
    }
    return count
  }

  func send(_ socket: TCPSocket, _ bytes: Span<UInt8>) -> Int {
    if socket.isListening { return -Int(Errno.brokenPipe) }
    let asked = faults.shortened(bytes.count, isRead: false)
    let result = socket.machine.send(bytes.extracting(first: asked), at: now)
    if asked < bytes.count, result == asked { socket.wake(.writable) }
    carryOut(socket)
    return result
  }

  func closed(_ socket: TCPSocket) {
    if socket.isListening {
      stopListening(socket)
      freePort(of: socket)
    } else {
      socket.machine.close(discards: socket.options.discardsOnClose, at: now)
      carryOut(socket)
      if socket.flow == nil { freePort(of: socket) }
    }
  }

  private func stopListening(_ socket: TCPSocket) {
    let waiting = socket.backlog.waiting
    socket.role = .fresh
    socket.machine = TCPMachine()
    if !socket.hasChosenPort { freePort(of: socket) }
    for waiting in waiting {
      waiting.machine.close(discards: true, at: now)
      carryOut(waiting)
    }
    // Their order does not matter: their end is visible to no peer and no program.
    for half in flows.values where half.listener === socket && half.machine.state == .synReceived {
      half.machine.vanish()
      carryOut(half)
    }
  }

  // MARK: Packets

  func receive(_ segment: Segment, on flow: Flow) {
    if let socket = flows[flow] {
      if socket.machine.state == .synReceived, let listener = socket.listener, listener.backlog.isFull, !segment.isReset
      {
        // No room: the peer tries again.
        return
      }
      socket.machine.receive(segment, at: now)
      return carryOut(socket)
    }
    if let connection = ended[flow] {
      if segment.isReset {
        if segment.sequence == connection.expected { forget(flow) }
      } else if segment.isSyn, segment.acknowledged == nil, listener(for: flow) != nil {
        forget(flow)
      } else {
        if segment.length > 0 {
          let answer = Segment(sequence: connection.sent, acknowledged: connection.expected, window: 0)
          send(answer, on: flow)
        }
        return
      }
    }
    if segment.isReset { return }
    if segment.isSyn, segment.acknowledged == nil, let listener = listener(for: flow) {
      return open(flow, segment, listener)
    }
    let answer =
      segment.acknowledged.map { Segment(isReset: true, sequence: $0) }
      ?? Segment(isReset: true, sequence: 0, acknowledged: segment.end)
    send(answer, on: flow)
  }

  /// A router does not forward a segment of this host: tcp_v4_err() and tcp_v6_err() of Linux.
  func receive(_ report: ICMPReport, about sequence: Int) {
    guard let socket = flows[report.flow] else { return }
    if socket.machine.state == .synReceived, socket.listener != nil {
      if sequence != 0 || !report.endsHandshake { return }
      socket.machine.vanish()
    } else {
      socket.machine.rejected(report.errno, sequence: sequence)
    }
    carryOut(socket)
  }

  private func open(_ flow: Flow, _ segment: Segment, _ listener: TCPSocket) {
    if listener.backlog.isFull { return }
    let socket = TCPSocket(family: listener.family)
    socket.options = listener.options
    socket.listener = listener
    socket.connecting = .done
    join(socket, flow)
    socket.machine.accept(segment, at: now)
    carryOut(socket)
  }
}

extension SocketAddress {
  fileprivate var loopback: SocketAddress {
    if case .ipv4(_, let port) = self { .ipv4(.loopback, port: port) } else { .ipv6(.loopback, port: port ?? 0) }
  }
}
