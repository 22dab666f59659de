// What the kernel does after an event of a connection: it sends, wakes programs, remembers, and arms timers.

internal import SocketSystem

extension SimulatedKernel {
  func carryOut(_ socket: TCPSocket) {
    let effects = socket.machine.effects
    socket.machine.effects = TCPMachine.Effects()
    if let flow = socket.flow {
      for segment in effects.segments { send(segment, on: flow) }
    }
    if let listener = socket.listener, !socket.isOpen, !socket.machine.isOrphan {
      advance(socket, of: listener)
    }
    for events in effects.wakes { socket.wake(events) }
    switch socket.machine.state {
    case .timeWait: waits(socket)
    case .closed: leaveNetwork(socket)
    default: break
    }
    armTimer(of: socket)
  }

  func send(_ segment: Segment, on flow: Flow) {
    network?.send(Packet(source: flow.local, destination: flow.remote, content: .segment(segment)), from: host)
  }

  /// Notes whether a connection that waits to be accepted has been established, or has failed.
  private func advance(_ socket: TCPSocket, of listener: TCPSocket) {
    let machine = socket.machine
    if machine.state == .synReceived || !listener.isListening { return }
    if listener.backlog.waiting.contains(where: { $0 === socket }) { return }
    if machine.state == .closed, machine.sending.unacknowledged == 0 {
      // The handshake has failed.
      socket.listener = nil
    } else {
      listener.backlog.waiting.append(socket)
      listener.wake(.readable)
    }
  }

  /// The connection has ended on both sides. TIME_WAIT lasts a minute.
  private func waits(_ socket: TCPSocket) {
    guard let flow = socket.flow else { return }
    socket.machine.state = .closed
    socket.flow = nil
    flows[flow] = nil
    let port = PortKey.tcp(flow.local.port ?? 0)
    let use = ports[port]?.use(of: socket)?.withoutSocket
    // A socket whose program chose the port keeps it while its descriptor is open.
    if !socket.hasChosenPort || !socket.isOpen { freePort(of: socket) }
    if let use { ports[port, default: PortUses()].add(use, isConnected: true) }
    ended[flow] = EndedConnection(
      sent: socket.machine.sending.next, expected: socket.machine.receiving.expected, use: use)
    network?.schedule(.forget(flow, self), at: now + 60 * TCPMachine.second)
  }

  func forget(_ flow: Flow) {
    guard let connection = ended.removeValue(forKey: flow) else { return }
    guard let use = connection.use, let number = flow.local.port else { return }
    let port = PortKey.tcp(number)
    ports[port]?.remove(use)
    dropPort(port)
  }

  private func leaveNetwork(_ socket: TCPSocket) {
    guard let flow = socket.flow.take() else { return }
    flows[flow] = nil
    if !socket.hasChosenPort || !socket.isOpen { freePort(of: socket) }
  }

  private func armTimer(of socket: TCPSocket) {
    let next = socket.flow == nil ? nil : socket.machine.nextTimer
    if next == socket.timer?.time { return }
    if let timer = socket.timer.take() { network?.cancel(timer.key) }
    if let next, let key = network?.schedule(.timer(socket, self), at: next) { socket.timer = (key, next) }
  }

  func timerFired(of socket: TCPSocket) {
    socket.timer = nil
    socket.machine.timeHasCome(now)
    carryOut(socket)
  }
}
