// What a program may set and ask about a socket: setsockopt(2), getsockopt(2), ioctl(2).

internal import SocketSystem

extension SimulatedKernel {
  func setOption(_ option: RawOption, of socket: SimulatedSocket, to value: [UInt8]) -> Int32 {
    if socket.family == SocketKind.unix, !option.isForEverySocket { return -Errno.notSupported }
    if option.isForIPv6, socket.family == SocketKind.ipv4 { return -Errno.noProtocolOption }
    if option == .ipv6Only {
      if socket.holdsPort { return -Errno.invalidArgument }
    }
    let result = socket.options.set(option, to: value)
    if result == 0 { socket.changed(option, in: self) }
    return result
  }

  func option(_ option: RawOption, of socket: SimulatedSocket) -> (result: Int32, value: [UInt8]) {
    let number: Int32
    if socket.family == SocketKind.unix, !option.isForEverySocket { return (-Errno.notSupported, []) }
    switch option {
    case .peerCredentials: return (0, peerCredentials(of: socket))
    case .pendingError: number = socket.takeError()
    case .type: number = socket.type
    case .protocol: number = socket.protocolNumber
    case .domain: number = socket.family
    case .memoryInfo: return (0, (socket as? UDPSocket)?.memoryInfo ?? [])
    case .isListening: number = socket.isListening ? 1 : 0
    case _ where option.isForIPv6 && socket.family == SocketKind.ipv4: return (-Errno.noProtocolOption, [])
    default: return (0, socket.options.value(option))
    }
    return (0, number.kernelBytes)
  }

  func address(of socket: SimulatedSocket, isPeer: Bool) -> (result: Int32, address: SocketAddress?) {
    if !isPeer { return (0, socket.local ?? socket.unspecified) }
    guard let peer = socket.peer else { return (-Errno.notConnected, nil) }
    return (0, peer)
  }

  func tcpInfo(of socket: TCPSocket) -> TCPInfo {
    let machine = socket.machine
    let (sending, roundTrip) = (machine.sending, machine.repair.roundTrip)
    let recovery = machine.repair.recovery
    let congestion = recovery.congestion
    let waiting = socket.isListening ? socket.backlog.waiting.count : recovery.board.count
    return TCPInfo(
      state: TCPInfo.State(rawValue: socket.isListening ? TCPInfo.State.listening : machine.state.rawValue),
      roundTripTime: .nanoseconds(roundTrip.smoothed ?? 0),
      roundTripTimeVariation: .nanoseconds(roundTrip.variation),
      minimumRoundTripTime: roundTrip.minimum.map { .nanoseconds($0) }, congestionWindow: congestion.window,
      slowStartThreshold: congestion.threshold, segmentSize: sending.segmentSize,
      unacknowledgedSegments: waiting, lostSegments: recovery.board.lost,
      retransmittedSegments: recovery.board.repeated, totalRetransmissions: machine.repair.repetitions,
      bytesAcknowledged: max(0, sending.unacknowledged - 1), bytesReceived: max(0, machine.receiving.expected - 1),
      bytesUnsent: max(0, sending.end - max(sending.next, 1)))
  }
}
