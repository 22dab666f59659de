// The kernel of a simulated host: its descriptors, and the calls on its sockets. It answers as Linux does, which
// `KernelComparisonTests` checks call by call.
//
// Invariants:
// - A new descriptor gets the lowest free number.
// - A socket is in `flows` exactly while packets of its connection reach it, and in `ports` while it occupies its local port.
// - After every event of a machine, `carryOut` takes its effects: nothing that a machine decided is left undone.

internal import EpollReactor
internal import SocketSystem

/// The kernel of a simulated host.
final class SimulatedKernel {
  /// What a descriptor refers to.
  enum File {
    case socket(SimulatedSocket)
    case epoll(SimulatedEpoll)
  }

  /// The number of the host.
  let host: Int
  /// The place of the kernel in the network, which its descriptors name.
  var slot = 0
  let addresses: HostAddresses
  weak var network: SimulatedNetwork?
  /// RLIMIT_NOFILE.
  var descriptorLimit: Int
  /// net.ipv4.ip_local_port_range.
  var ephemeralPorts: ClosedRange<UInt16>
  /// What goes wrong with calls, apart from what programs and peers do.
  var faults = FaultPlan()
  /// net.core.somaxconn.
  let longestBacklog = 4_096

  private(set) var files: [File?] = []
  /// No number below is free.
  private var lowestFree = 0
  /// The connections to which packets belong.
  var flows: [Flow: SimulatedSocket] = [:]
  /// The connections that have ended, and until when their packets are still answered: TIME_WAIT.
  var ended: [Flow: EndedConnection] = [:]
  var ports: [UInt16: PortUses] = [:]

  /// A connection in TIME_WAIT.
  struct EndedConnection {
    let sent: Int
    let expected: Int
    let use: PortUse?
  }

  init(
    host: Int, addresses: HostAddresses, network: SimulatedNetwork, descriptorLimit: Int,
    ephemeralPorts: ClosedRange<UInt16>
  ) {
    self.host = host
    self.addresses = addresses
    self.network = network
    self.descriptorLimit = descriptorLimit
    self.ephemeralPorts = ephemeralPorts
  }

  var now: Int64 { network?.now ?? 0 }

  /// Forgets everything, without a word to any peer.
  func dismantle() {
    for socket in flows.values { if let timer = socket.timer.take() { network?.cancel(timer.key) } }
    // A socket and its places in epoll instances refer to each other.
    for case .socket(let socket)? in files { socket.watches = [] }
    files = []
    lowestFree = 0
    flows = [:]
    ended = [:]
    ports = [:]
  }

  // MARK: Descriptors

  /// The number that the next descriptor gets; `nil` if the limit is reached.
  var nextNumber: Int? {
    let number = files[lowestFree...].firstIndex { $0 == nil } ?? files.count
    return number < descriptorLimit ? number : nil
  }

  private func add(_ file: File) -> Int32 {
    guard let number = nextNumber else { return -Errno.processDescriptors }
    open(file, as: number)
    return Int32(number)
  }

  /// Gives a file the next number.
  func open(_ file: File, as number: Int) {
    if number == files.count { files.append(file) } else { files[number] = file }
    lowestFree = number + 1
  }

  func socket(at number: Int) -> SimulatedSocket? {
    if files.indices.contains(number), case .socket(let socket)? = files[number] { socket } else { nil }
  }

  func epoll(at number: Int) -> SimulatedEpoll? {
    if files.indices.contains(number), case .epoll(let epoll)? = files[number] { epoll } else { nil }
  }

  func createEpoll(whenReady: @escaping () -> Void) -> Int32 { add(.epoll(SimulatedEpoll(whenReady: whenReady))) }

  func makeSocket(family: Int32, type: Int32) -> Int32 {
    guard type == SocketKind.stream, family == SocketKind.ipv4 || family == SocketKind.ipv6 else {
      return -Errno.notSupported
    }
    let socket = SimulatedSocket(family: family)
    let number = add(.socket(socket))
    if number >= 0 { socket.number = Int(number) }
    return number
  }

  func close(_ number: Int) {
    guard files.indices.contains(number), let file = files[number] else { return }
    files[number] = nil
    lowestFree = min(lowestFree, number)
    guard case .socket(let socket) = file else { return }
    socket.number = nil
    socket.watches = []
    if socket.isListening {
      stopListening(socket)
      freePort(of: socket)
    } else {
      socket.machine.close(discards: socket.options.discardsOnClose, at: now)
      carryOut(socket)
      if socket.flow == nil { freePort(of: socket) }
    }
  }

  /// Ends the connections that wait in a listening socket, because nothing will take them.
  func stopListening(_ socket: SimulatedSocket) {
    let waiting = socket.backlog.waiting
    socket.role = .fresh
    socket.machine = TCPMachine()
    if !socket.hasChosenPort { freePort(of: socket) }
    for waiting in waiting {
      waiting.machine.close(discards: true, at: now)
      carryOut(waiting)
    }
    // Their order does not matter: no peer and no program hears of their end.
    for half in flows.values where half.listener === socket && half.machine.state == .synReceived {
      half.machine.vanish()
      carryOut(half)
    }
  }

  // MARK: epoll

  func watch(_ number: Int, with epollNumber: Int, token: UInt64, interest: Readiness, isNew: Bool) -> Int32 {
    guard let epoll = epoll(at: epollNumber), let socket = socket(at: number) else { return -Errno.badDescriptor }
    let known = socket.watches.first { $0.epoll === epoll }
    if isNew, known != nil { return -Errno.exists }
    let watch: SimulatedWatch
    if let known {
      watch = known
      watch.token = token
      watch.interest = interest
    } else {
      if !isNew { return -Errno.noSuchFile }
      watch = SimulatedWatch(socket, epoll, token: token, interest: interest)
      socket.watches.append(watch)
    }
    if watch.look().rawValue != 0 { watch.list() }
    return 0
  }

  func stopWatching(_ number: Int, with epollNumber: Int) {
    guard let epoll = epoll(at: epollNumber), let socket = socket(at: number) else { return }
    socket.watches.removeAll { $0.epoll === epoll }
  }

  /// A place of a socket in an epoll instance for an event that tells of nothing; `nil` mostly.
  func spuriousEvent(of epoll: SimulatedEpoll) -> SimulatedWatch? {
    if faults.isEmpty { return nil }
    var watches: [SimulatedWatch] = []
    for case .socket(let socket)? in files { watches += socket.watches.filter { $0.epoll === epoll } }
    return faults.spurious(of: watches.count).map { watches[$0] }
  }

  // MARK: The effects of events

  /// Does what a machine has decided.
  func carryOut(_ socket: SimulatedSocket) {
    let effects = socket.machine.effects
    socket.machine.effects = TCPMachine.Effects()
    if let flow = socket.flow {
      for segment in effects.segments { send(segment, on: flow) }
    }
    if let listener = socket.listener, socket.number == nil, !socket.machine.isOrphan {
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
    network?.send(Packet(source: flow.local, destination: flow.remote, segment: segment), from: host)
  }

  /// Notes how far a connection has come that waits to be accepted.
  private func advance(_ socket: SimulatedSocket, of listener: SimulatedSocket) {
    let machine = socket.machine
    if machine.state == .synReceived || !listener.isListening { return }
    if listener.backlog.waiting.contains(where: { $0 === socket }) { return }
    if machine.state == .closed, machine.unacknowledged == 0 {
      // The handshake has failed.
      socket.listener = nil
    } else {
      listener.backlog.waiting.append(socket)
      listener.wake(.readable)
    }
  }

  /// The connection has ended on both sides. Its ends are remembered for a minute.
  private func waits(_ socket: SimulatedSocket) {
    guard let flow = socket.flow else { return }
    socket.machine.state = .closed
    socket.flow = nil
    flows[flow] = nil
    let port = flow.local.port ?? 0
    let use = ports[port]?.use(of: socket)?.withoutSocket
    // A socket whose program chose the port keeps it while its descriptor is open.
    if !socket.hasChosenPort || socket.number == nil { freePort(of: socket) }
    if let use { ports[port, default: PortUses()].add(use, isConnected: true) }
    ended[flow] = EndedConnection(sent: socket.machine.sent, expected: socket.machine.expected, use: use)
    network?.schedule(.forget(flow, self), at: now + 60 * TCPMachine.second)
  }

  /// Forgets a connection in TIME_WAIT.
  func forget(_ flow: Flow) {
    guard let connection = ended.removeValue(forKey: flow) else { return }
    guard let use = connection.use, let port = flow.local.port else { return }
    ports[port]?.remove(use)
    dropPort(port)
  }

  /// Packets of the connection no longer reach the socket.
  private func leaveNetwork(_ socket: SimulatedSocket) {
    guard let flow = socket.flow.take() else { return }
    flows[flow] = nil
    if !socket.hasChosenPort || socket.number == nil { freePort(of: socket) }
  }

  private func armTimer(of socket: SimulatedSocket) {
    let next = socket.flow == nil ? nil : socket.machine.nextTimer
    if next == socket.timer?.time { return }
    if let timer = socket.timer.take() { network?.cancel(timer.key) }
    if let next, let key = network?.schedule(.timer(socket, self), at: next) { socket.timer = (key, next) }
  }

  /// A timer of a connection has fired.
  func timerFired(of socket: SimulatedSocket) {
    socket.timer = nil
    socket.machine.timeHasCome(now)
    carryOut(socket)
  }
}

extension SimulatedSocket.Role {
  var isStream: Bool { if case .stream = self { true } else { false } }
}
