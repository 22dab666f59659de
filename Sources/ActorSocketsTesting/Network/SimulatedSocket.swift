internal import EpollReactor
internal import SocketSystem

/// A simulated socket, as the kernel of its host knows it.
final class SimulatedSocket {
  /// What a socket is for.
  enum Role {
    /// Nothing yet.
    case fresh
    case listening(Backlog)
    /// Has begun to connect, or was accepted.
    case stream
  }

  /// The connections that wait for accept4(2).
  struct Backlog {
    var limit: Int
    var waiting: [SimulatedSocket] = []
    var isFull: Bool { waiting.count > limit }
  }

  /// How far connect(2) has come, as its caller knows: the state of struct socket of Linux.
  enum Connecting {
    /// It was not called, or has failed.
    case new
    case underWay
    /// The caller knows that the connection is up, or got it from accept4(2).
    case done
    /// It failed, and shutdown(2) was called.
    case shutDown
  }

  /// AF_INET or AF_INET6.
  let family: Int32
  var role = Role.fresh
  /// Its descriptor on its host; `nil` if it has none: it waits to be accepted, or is closed and ends its connection.
  var number: Int?
  /// The address that it was bound to, or got when it connected or listened. Of the socket's family.
  var local: SocketAddress?
  /// The peer's address. Of the socket's family.
  var remote: SocketAddress?
  /// The ends of the connection while packets of it reach this socket.
  var flow: Flow?
  var machine = TCPMachine()
  /// The socket whose backlog this connection is or was in.
  weak var listener: SimulatedSocket?
  /// What connect(2) says next.
  var connecting = Connecting.new
  /// The program has chosen the port: bind(2) with another one than 0.
  var hasChosenPort = false
  /// The program has chosen the address: bind(2) with another one than the unspecified.
  var hasChosenAddress = false
  /// Whether the socket occupies its local port. `local` still shows the port afterwards.
  var holdsPort = false
  var options = SocketOptions()
  var watches: [SimulatedWatch] = []
  var timer: (key: TimerQueue<SimulatedNetwork.Event>.Key, time: Int64)?

  init(family: Int32) { self.family = family }

  /// The address, in the form that programs of this socket's family see.
  func seen(_ address: SocketAddress) -> SocketAddress {
    family == SocketKind.ipv4 ? address : address.mapped
  }

  var isListening: Bool { if case .listening = role { true } else { false } }

  var backlog: Backlog {
    get { if case .listening(let backlog) = role { backlog } else { Backlog(limit: 0) } }
    set { role = .listening(newValue) }
  }

  /// The events that are ready now.
  var readiness: Readiness {
    if case .listening(let backlog) = role { return backlog.waiting.isEmpty ? .none : .readable }
    return machine.readiness
  }

  /// Tells the programs that wait for one of these events.
  func wake(_ events: Readiness) {
    for watch in watches where watch.mask.contains(events) { watch.list() }
  }
}

/// A socket in an epoll instance.
final class SimulatedWatch {
  let socket: SimulatedSocket
  weak var epoll: SimulatedEpoll?
  var token: UInt64
  var interest: Readiness
  /// Whether the socket is in the list of those that may be ready.
  fileprivate(set) var isListed = false

  init(_ socket: SimulatedSocket, _ epoll: SimulatedEpoll, token: UInt64, interest: Readiness) {
    self.socket = socket
    self.epoll = epoll
    self.token = token
    self.interest = interest
  }

  /// What is reported: errors and hang-ups always are.
  fileprivate var mask: Readiness { interest.union(.error).union(.hangUp) }

  /// What is ready and is reported. A socket without room tells when there is some.
  func look() -> Readiness {
    let ready = socket.readiness
    if !ready.contains(.writable) { socket.machine.wantsRoom = true }
    return Readiness(rawValue: ready.rawValue & mask.rawValue)
  }

  /// Puts the socket into the list of its epoll instance.
  func list() {
    guard !isListed, let epoll else { return }
    isListed = true
    epoll.ready.append(self)
    if epoll.ready.count == 1 { epoll.whenReady() }
  }
}

/// A simulated epoll instance. All its registrations are edge-triggered: a socket is listed when one of the events happens that it waits
/// for, and `take` reports what is ready by then. So several events become one, as on Linux.
final class SimulatedEpoll {
  fileprivate var ready: [SimulatedWatch] = []
  let whenReady: () -> Void

  init(whenReady: @escaping () -> Void) { self.whenReady = whenReady }

  /// Takes the events that wait, the earliest first.
  func take(into events: inout EventBuffer, atMost limit: Int) -> Int {
    var count = 0
    var looked = 0
    for watch in ready {
      if count == limit { break }
      looked += 1
      watch.isListed = false
      // The socket may have been closed, or may be watched by another instance.
      if !watch.socket.watches.contains(where: { $0 === watch }) { continue }
      let reported = watch.look()
      if reported.rawValue == 0 { continue }
      events[count] = (watch.token, reported)
      count += 1
    }
    ready.removeFirst(looked)
    if !ready.isEmpty { whenReady() }
    return count
  }
}
