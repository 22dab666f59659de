internal import EpollReactor
internal import SocketSystem

/// A socket in the kernel of its host: an open file description of POSIX. A subclass for each protocol answers the calls. The defaults here
/// answer the calls that a protocol does not have.
class SimulatedSocket {
  /// AF_INET, AF_INET6 or AF_UNIX.
  let family: Int32
  /// By descriptors and by messages in flight.
  var references = 0
  /// If not, the socket waits to be accepted, or is closed and ends its connection.
  var isOpen: Bool { references > 0 }
  /// Set by bind(2), or when the socket connects or listens. Of the socket's family.
  var local: SocketAddress?
  /// Of the socket's family.
  var remote: SocketAddress?
  /// By bind(2) with another port than 0.
  var hasChosenPort = false
  /// By bind(2) with another address than the unspecified one.
  var hasChosenAddress = false
  /// Whether the socket occupies its local port. `local` still shows the port afterwards.
  var holdsPort = false
  var options = SocketOptions()
  var watches: [SimulatedWatch] = []

  init(family: Int32) { self.family = family }

  /// The address in the form that programs of this socket's family see.
  func seen(_ address: SocketAddress) -> SocketAddress {
    family == SocketKind.ipv4 ? address : address.mapped
  }

  /// SOCK_STREAM or SOCK_DGRAM.
  var type: Int32 { SocketKind.stream }
  /// IPPROTO_TCP or IPPROTO_UDP; 0 for unix sockets.
  var protocolNumber: Int32 { 0 }
  var isListening: Bool { false }
  /// Whether the socket neither listens nor has a peer: TCP_CLOSE of Linux.
  var isIdle: Bool { true }
  /// getpeername(2); `nil` without a peer.
  var peer: SocketAddress? { nil }
  var readiness: Readiness { .none }
  /// FIONREAD.
  var receivableBytes: Int { 0 }
  /// SIOCOUTQ.
  var unacknowledgedBytes: Int { 0 }

  /// The sockets that a program can get from this one: those in its messages, and the connections that wait to be accepted.
  var offered: [SimulatedSocket] { [] }

  /// A program asked for room to send, and the buffer was full. It is told when there is room.
  func wantsRoom() {}
  /// SO_ERROR: also clears the error.
  func takeError() -> Int32 { 0 }
  func changed(_ option: RawOption, in kernel: SimulatedKernel) {}
  /// Forgets everything without waking any program.
  func dismantle() { watches = [] }

  func bind(to address: SocketAddress, in kernel: SimulatedKernel) -> Int32 { kernel.bind(self, to: address) }
  func listen(backlog: Int32, in kernel: SimulatedKernel) -> Int32 { -Errno.notSupported }
  func connect(to address: SocketAddress, in kernel: SimulatedKernel) -> Int32 { -Errno.notSupported }
  func disconnect(in kernel: SimulatedKernel) -> Int32 { -Errno.notSupported }
  func accept(in kernel: SimulatedKernel) -> (result: Int32, peer: SocketAddress?) { (-Errno.notSupported, nil) }
  func shutdown(isBoth: Bool, in kernel: SimulatedKernel) -> Int32 { -Errno.notConnected }
  func receive(
    into memory: inout OutputSpan<UInt8>, atMost limit: Int, peeking: Bool, in kernel: SimulatedKernel
  ) -> Int { -Int(Errno.notSupported) }
  func send(_ bytes: Span<UInt8>, in kernel: SimulatedKernel) -> Int { -Int(Errno.notSupported) }
  /// The last reference to the socket is gone.
  func closed(in kernel: SimulatedKernel) {}

  func wake(_ events: Readiness) {
    for watch in watches where watch.mask.contains(events) { watch.list() }
  }
}

/// A registration in an epoll instance: of a descriptor's number and of the socket that it had. According to question 6 of epoll(7), it
/// stays until the last reference to the socket is gone, even if the number is closed or belongs to another socket.
final class SimulatedWatch {
  let socket: SimulatedSocket
  let number: Int
  weak var epoll: SimulatedEpoll?
  var token: UInt64
  var interest: Readiness
  fileprivate(set) var isListed = false

  init(_ socket: SimulatedSocket, _ number: Int, _ epoll: SimulatedEpoll, token: UInt64, interest: Readiness) {
    self.socket = socket
    self.number = number
    self.epoll = epoll
    self.token = token
    self.interest = interest
  }

  /// Errors and hang-ups are always reported.
  fileprivate var mask: Readiness { interest.union(.error).union(.hangUp) }

  /// Asks a socket without room to report when there is room.
  func look() -> Readiness {
    let ready = socket.readiness
    if !ready.contains(.writable) { socket.wantsRoom() }
    return Readiness(rawValue: ready.rawValue & mask.rawValue)
  }

  func list() {
    guard !isListed, let epoll else { return }
    isListed = true
    epoll.ready.append(self)
    if epoll.ready.count == 1 { epoll.whenReady() }
  }
}

/// All registrations are edge-triggered: a socket is listed when an event happens that it waits for, and `take` reports what is ready by
/// then. So several events become one, as on Linux.
final class SimulatedEpoll {
  fileprivate var ready: [SimulatedWatch] = []
  let whenReady: () -> Void

  init(whenReady: @escaping () -> Void) { self.whenReady = whenReady }

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
