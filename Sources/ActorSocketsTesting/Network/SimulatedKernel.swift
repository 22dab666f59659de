// The kernel of a simulated host: its descriptors, and the calls on its sockets. It answers as Linux does, which
// `KernelComparisonTests` checks call by call.
//
// Invariants:
// - A new descriptor gets the lowest free number.
// - A socket is in `flows` exactly while packets of its connection reach it, and in `ports` while it occupies its local port.
// - A socket is open while descriptors or messages in flight refer to it (`SimulatedKernel+Passing.swift`).
// - After every event of a machine, `carryOut` takes its effects: nothing that a machine decided is left undone.

internal import EpollReactor
internal import SocketSystem

final class SimulatedKernel {
  enum File {
    case socket(SimulatedSocket)
    case epoll(SimulatedEpoll)
  }

  let host: Int
  /// By `KernelSlots`.
  var slot = 0
  let addresses: HostAddresses
  weak var network: SimulatedNetwork?
  var limits: HostLimits
  var faults = FaultPlan()

  private(set) var files: [File?] = []
  var passing = PassingState()
  /// No number below it is free.
  private var lowestFree = 0
  var flows: [Flow: TCPSocket] = [:]
  /// The connections in TIME_WAIT, whose packets are still answered.
  var ended: [Flow: EndedConnection] = [:]
  var ports: [PortKey: PortUses] = [:]
  var abstractNames: [AbstractName: UnixSocket] = [:]
  /// They outlive the kernel.
  let socketFiles: SocketFiles

  struct EndedConnection {
    let sent: Int
    let expected: Int
    let use: PortUse?
  }

  init(
    host: Int, addresses: HostAddresses, network: SimulatedNetwork, socketFiles: SocketFiles, limits: HostLimits
  ) {
    self.host = host
    self.addresses = addresses
    self.network = network
    self.socketFiles = socketFiles
    self.limits = limits
  }

  var now: Int64 { network?.now ?? 0 }
  var timeOfDay: Int64 { network?.timeOfDay(host) ?? 0 }

  /// Forgets everything without a packet to any peer.
  func dismantle() {
    for socket in flows.values { if let timer = socket.timer.take() { network?.cancel(timer.key) } }
    // A socket and its watches refer to each other, and so do unix sockets and their peers.
    for case .socket(let socket)? in files { socket.dismantle() }
    for socket in passing.inFlight { socket.dismantle() }
    passing = PassingState()
    files = []
    lowestFree = 0
    flows = [:]
    ended = [:]
    ports = [:]
    abstractNames = [:]
  }

  // MARK: Descriptors

  var nextNumber: Int? {
    let number = files[lowestFree...].firstIndex { $0 == nil } ?? files.count
    return number < limits.descriptors ? number : nil
  }

  private func add(_ file: File) -> Int32 {
    guard let number = nextNumber else { return -Errno.processDescriptors }
    open(file, as: number)
    return Int32(number)
  }

  func open(_ file: File, as number: Int) {
    if number == files.count { files.append(file) } else { files[number] = file }
    lowestFree = number + 1
    if case .socket(let socket) = file { socket.references += 1 }
  }

  /// The number that programs see: it contains the kernel's slot. A negative error stays as it is.
  func globalNumber(of local: Int32) -> Int32 {
    local < 0 ? local : KernelSlots.number(of: local, in: slot)
  }

  func socket(at number: Int) -> SimulatedSocket? {
    if files.indices.contains(number), case .socket(let socket)? = files[number] { socket } else { nil }
  }

  func epoll(at number: Int) -> SimulatedEpoll? {
    if files.indices.contains(number), case .epoll(let epoll)? = files[number] { epoll } else { nil }
  }

  func createEpoll(whenReady: @escaping () -> Void) -> Int32 { add(.epoll(SimulatedEpoll(whenReady: whenReady))) }

  func makeSocket(family: Int32, type: Int32) -> Int32 {
    let isDatagram = type == SocketKind.datagram
    let socket: SimulatedSocket
    switch family {
    case SocketKind.ipv4, SocketKind.ipv6: socket = isDatagram ? UDPSocket(family: family) : TCPSocket(family: family)
    case SocketKind.unix: socket = isDatagram ? UnixDatagramSocket() : UnixStreamSocket()
    default: return -Errno.familyNotSupported
    }
    return add(.socket(socket))
  }

  func duplicate(_ number: Int) -> Int32 {
    guard files.indices.contains(number), let file = files[number] else { return -Errno.badDescriptor }
    return add(file)
  }

  func close(_ number: Int) {
    guard files.indices.contains(number), let file = files[number] else { return }
    files[number] = nil
    lowestFree = min(lowestFree, number)
    if case .socket(let socket) = file { release(socket) }
  }

  func receive(_ packet: Packet) {
    switch packet.content {
    case .segment(let segment): receive(segment, on: Flow(local: packet.destination, remote: packet.source))
    case .datagram(let datagram): receive(datagram, from: packet.source, to: packet.destination)
    case .report(let report):
      if let sequence = report.sequence {
        receive(report, about: sequence)
      } else {
        receive(report, from: packet.source)
      }
    }
  }

  // MARK: epoll

  func watch(_ number: Int, with epollNumber: Int, token: UInt64, interest: Readiness, isNew: Bool) -> Int32 {
    guard let epoll = epoll(at: epollNumber), let socket = socket(at: number) else { return -Errno.badDescriptor }
    let known = socket.watches.first { $0.epoll === epoll && $0.number == number }
    if isNew, known != nil { return -Errno.exists }
    let watch: SimulatedWatch
    if let known {
      watch = known
      watch.token = token
      watch.interest = interest
    } else {
      if !isNew { return -Errno.noSuchFile }
      watch = SimulatedWatch(socket, number, epoll, token: token, interest: interest)
      socket.watches.append(watch)
    }
    if watch.look().rawValue != 0 { watch.list() }
    return 0
  }

  func stopWatching(_ number: Int, with epollNumber: Int) {
    guard let epoll = epoll(at: epollNumber), let socket = socket(at: number) else { return }
    socket.watches.removeAll { $0.epoll === epoll && $0.number == number }
  }

  /// A registration for which the instance reports an event that has not happened; mostly `nil`.
  func spuriousEvent(of epoll: SimulatedEpoll) -> SimulatedWatch? {
    if faults.isEmpty { return nil }
    var watches: [SimulatedWatch] = []
    for case (let number, .socket(let socket)?) in files.enumerated() {
      watches += socket.watches.filter { $0.epoll === epoll && $0.number == number }
    }
    return faults.spurious(of: watches.count).map { watches[$0] }
  }
}
