internal import EpollReactor
internal import SocketSystem

// What an endpoint knows about its sockets, and decides without the kernel: whether sending must wait, and what a refusal of the kernel
// means. `DatagramRoutes` decides which socket sends to an address. It makes no system call, reads no clock and never suspends; the time
// is an argument.
//
//                 connected
//   without peer ──────────▶ connected to a peer ──┐ connected (to another peer)
//                                     ▲────────────┘
//
//                  noRoom at the endpoint's own socket
//   sends go out ────────────────────────────────────▶ all sends wait
//        ▲──────── roomMayBe, or the pause is over ─────────┘
//
// Invariants:
// - A destination without room makes only its own datagrams wait: see SendQueue.swift. All sends wait only if the buffer of the one
//   socket that can send is full.
// - While any send waits for room, a time is known at which sending is tried again, in case that no event comes.

// It is not copyable, because the optimizer copied it for each answer: 4,360 instructions for a datagram and its answer, now 4,050.

struct DatagramCore: ~Copyable {
  private(set) var routes: DatagramRoutes
  /// The file of a unix socket. It is removed once, because afterwards another endpoint may use the path.
  var file: UnixSocketFile?
  var sizes: DatagramSizes
  var memberships = Memberships()
  /// At which of the sockets a datagram may wait: an event arrived, and receiving has not drained the socket since.
  var rotation: SocketRotation
  /// An error that was reported about the peer, for the next call.
  var reportedError: SocketError?
  /// The deadline at which sending is tried again, on the clock of the reactor.
  var armedRetry: (key: DeadlineKey, time: Int64)?
  /// UDP_GRO is on.
  var joinsReceived = false
  /// The buffer of the endpoint's own socket is full, so nothing can be sent until an event, or the end of the pause.
  private(set) var mustWaitToSend = false
  private var pause = RetryPause(isAnnounced: true)
  private var pauseEnd: Int64 = 0

  /// `sockets` must not be empty.
  init(_ sockets: [BoundSocket], isOnDevice: Bool, _ sizes: DatagramSizes, file: UnixSocketFile? = nil) {
    routes = DatagramRoutes(sockets: sockets, isOnDevice: isOnDevice)
    self.sizes = sizes
    self.file = file
    rotation = SocketRotation(count: sockets.count)
  }

  var isUnix: Bool { routes.isUnix }
  var main: BoundSocket { routes.sockets[routes.peer?.index ?? 0] }

  // MARK: Routes

  /// From here, because `core.routes.route` would copy the routes.
  func route(_ address: SocketAddress?, isReply: Bool = false) throws(SocketError) -> DatagramRoutes.Route {
    try routes.route(address, isReply: isReply)
  }

  mutating func connected(_ index: Int, to address: SocketAddress) {
    routes.peer = (address, index)
    reportedError = nil
  }

  // MARK: Room

  enum Wait {
    case allSends
    /// The sends to the datagram's destination. `isAnnounced`: an event may announce that there is room.
    case destination(isAnnounced: Bool)

    var isAnnounced: Bool { if case .destination(let isAnnounced) = self { isAnnounced } else { true } }
  }

  /// `isShortage`: the kernel lacks memory, or the interface's queue is full; otherwise a buffer is full.
  mutating func noRoom(_ index: Int, isShortage: Bool, at now: Int64) -> Wait {
    let isUnix = routes.sockets[index].kind == .unix
    if !isShortage, !isUnix, routes.sockets.count == 1 || routes.peer != nil {
      // The socket's own buffer is full, which concerns all destinations.
      mustWaitToSend = true
      pauseEnd = pause.begin(at: now)
      return .allSends
    }
    // An event announces room in the buffer of one of several sockets, and in the peer's if this socket is connected to it. No event
    // announces room at another unix socket, or in an interface's queue. The events that come belong to the failed calls themselves.
    return .destination(isAnnounced: !isShortage && (!isUnix || routes.peer != nil))
  }

  mutating func roomMayBe() { mustWaitToSend = false }

  mutating func sent() { pause.reset() }

  mutating func retry(at now: Int64) {
    if pauseEnd <= now { mustWaitToSend = false }
  }

  var nextRetry: Int64 { mustWaitToSend ? pauseEnd : .max }

  // MARK: Several datagrams in one message

  mutating func dividesMessages(_ index: Int) { routes.sockets[index].segmentLimit = SegmentRun.mostBytes }

  /// Sends long datagrams one by one from now on, because the kernel refused to divide a message. Returns whether to try again.
  ///
  /// The kernel refuses if the datagrams are longer than a packet of the path, because it divides messages, but not datagrams. It also
  /// refuses if the path cannot do it, for example because of IPsec. `size` is that of the datagrams in the message, in bytes; `nil` if it
  /// was one datagram.
  mutating func lowerSegmentLimit(_ index: Int, after error: SystemError, of size: Int?) -> Bool {
    guard error.refusesSegments, let size else { return false }
    let limit = routes.sockets[index].segmentLimit
    routes.sockets[index].segmentLimit = error.errno == Errno.inputOutput ? 0 : min(limit, size - 1)
    return true
  }
}

/// The attempts to give one message to the kernel. All but the last may fail because of an error about an earlier datagram, which the
/// kernel returns from one call only.
///
/// Usually the error is also in the error queue. If the socket's receive buffer is full, the kernel cannot queue it, and returns it only
/// from the next call.
struct SendAttempts {
  static var most: Int { 4 }

  private var left = Self.most
  /// The error of the previous attempt, if it had no entry in the error queue.
  private(set) var suspect: SystemError?

  enum Step {
    /// The error is that of the message.
    case fail
    case tryAgain
    /// Also report that error about an earlier datagram, of which nothing else is known.
    case reportAndTryAgain(SystemError)
  }

  /// `mayBeOfEarlier`: the error may be about an earlier datagram without an entry in the error queue, because the socket has no peer, or
  /// because the message is a reply, which does not fail because of earlier ones. `takeReported` empties the queue, and returns whether it
  /// had an entry.
  mutating func failed(_ error: SystemError, mayBeOfEarlier: Bool, _ takeReported: () -> Bool) -> Step {
    left -= 1
    if left <= 0 { return .fail }
    if takeReported() { return .tryAgain }
    guard mayBeOfEarlier, error.mayBeOfEarlierDatagram else { return .fail }
    let earlier = suspect
    suspect = error
    if let earlier, earlier.errno != error.errno { return .reportAndTryAgain(earlier) }
    return .tryAgain
  }

  mutating func restart() { left = Self.most }
}

extension SystemError {
  var mayBeOfEarlierDatagram: Bool { Errno.reportedByICMP.contains(errno) }

  /// Whether this may be the answer to a message of several datagrams only. The kernel's version decides which of the first two it is.
  fileprivate var refusesSegments: Bool {
    [Errno.messageTooLong, Errno.invalidArgument, Errno.inputOutput].contains(errno)
  }
}
