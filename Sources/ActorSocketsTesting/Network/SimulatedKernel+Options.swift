// What a program may set and ask about a socket: setsockopt(2), getsockopt(2), ioctl(2).

internal import SocketSystem

extension SimulatedKernel {
  func setOption(_ option: RawOption, of socket: SimulatedSocket, to value: [UInt8]) -> Int32 {
    if option == .ipv6Only {
      if socket.family == SocketKind.ipv4 { return -Errno.noProtocolOption }
      if socket.holdsPort { return -Errno.invalidArgument }
    }
    let result = socket.options.set(option, to: value)
    if result == 0 {
      socket.options.apply(to: &socket.machine)
      if socket.flow != nil { carryOut(socket) }
    }
    return result
  }

  func option(_ option: RawOption, of socket: SimulatedSocket) -> (result: Int32, value: [UInt8]) {
    let number: Int32
    switch option {
    case .pendingError: number = socket.machine.takeError()
    case .type: number = SocketKind.stream
    case .protocol: number = SocketKind.tcp
    case .domain: number = socket.family
    case .isListening: number = socket.isListening ? 1 : 0
    case .ipv6Only where socket.family == SocketKind.ipv4: return (-Errno.noProtocolOption, [])
    default: return (0, socket.options.value(option))
    }
    return (0, number.kernelBytes)
  }

  func tcpInfo(of socket: SimulatedSocket) -> TCPInfo {
    let machine = socket.machine
    let segment = max(1, machine.segmentSize)
    let inFlight = (machine.sent - machine.unacknowledged + segment - 1) / segment
    let waiting = socket.isListening ? socket.backlog.waiting.count : inFlight
    return TCPInfo(
      state: TCPInfo.State(rawValue: socket.isListening ? TCPInfo.State.listening : machine.state.rawValue),
      roundTripTime: .nanoseconds(machine.roundTrip.smoothed ?? 0),
      roundTripTimeVariation: .nanoseconds(machine.roundTrip.variation), segmentSize: machine.segmentSize,
      unacknowledgedSegments: waiting, retransmittedSegments: machine.retries,
      bytesAcknowledged: max(0, machine.unacknowledged - 1), bytesReceived: max(0, machine.expected - 1),
      bytesUnsent: max(0, machine.dataEnd - max(machine.sent, 1)))
  }

  func unacknowledgedBytes(_ socket: SimulatedSocket) -> Int {
    let machine = socket.machine
    if machine.state == .closed || machine.state == .synSent { return 0 }
    // The end of the stream counts as a byte until it is acknowledged.
    return machine.outgoing.count + (machine.hasFinished && machine.maySend ? 1 : 0)
  }
}
