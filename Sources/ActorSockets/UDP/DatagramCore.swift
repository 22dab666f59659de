internal import EpollReactor
internal import SocketSystem

// What an endpoint knows about its sockets, and decides without the kernel: which socket sends to an address, whether sending must wait,
// and what a refusal of the kernel means. It makes no system call, reads no clock and never suspends; the time is an argument.
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
// - Without a peer, a datagram leaves through a socket that reaches its address. With a peer, only datagrams to the peer leave, and
//   through the peer's socket.
// - The endpoint has a peer if and only if it has a connected socket.
// - A destination without room makes only its own datagrams wait: see SendQueue.swift. All sends wait only if the buffer of the one
//   socket that can send is full.
// - While any send waits for room, a time is known at which sending is tried again, in case that no event comes.

// It is not copyable, because the optimizer copied it for each answer: 4,360 instructions for a datagram and its answer, now 4,050.

struct DatagramCore: ~Copyable {
  /// Usually one; several if the endpoint was bound to several addresses.
  private(set) var sockets: [BoundSocket]
  private let isOnDevice: Bool
  /// At which of the sockets a datagram may wait: an event arrived, and receiving has not drained the socket since.
  var rotation: SocketRotation
  /// The connected peer, and the index of the socket that is connected to it.
  private(set) var peer: (address: SocketAddress, index: Int)?
  /// An error that was reported about the peer, for the next call.
  var reportedError: SocketError?
  /// Whether the kernel may join received datagrams: UDP_GRO.
  var joinsReceived = false
  /// The buffer of the endpoint's own socket is full, so nothing can be sent. An event, or the end of the pause, says when that may have
  /// changed.
  private(set) var mustWaitToSend = false
  private var pause = RetryPause(isAnnounced: true)
  private var pauseEnd: Int64 = 0

  /// - Parameters:
  ///   - sockets: The sockets, at least one.
  ///   - isOnDevice: Whether they are bound to one interface.
  init(_ sockets: [BoundSocket], isOnDevice: Bool) {
    self.sockets = sockets
    self.isOnDevice = isOnDevice
    rotation = SocketRotation(count: sockets.count)
  }

  var isUnix: Bool { sockets[0].kind == .unix }
  /// The connected socket, or the first one.
  var main: BoundSocket { sockets[peer?.index ?? 0] }

  // MARK: Routes

  /// The way of a datagram.
  struct Route {
    /// The index of the socket that sends it.
    let index: Int
    /// The address in the form that the socket's family needs; `nil` for the connected peer.
    let destination: SocketAddress?
  }

  mutating func connected(_ index: Int, to address: SocketAddress) {
    peer = (address, index)
    reportedError = nil
  }

  /// Returns the way to an address, where `nil` means the peer. A reply without an address is to a sender without a name, which is not the
  /// peer.
  ///
  /// - Parameters:
  ///   - address: The address.
  ///   - isReply: Whether it is a reply.
  /// - Returns: The way.
  /// - Throws: Why no datagram can be sent to the address.
  func route(_ address: SocketAddress?, isReply: Bool = false) throws(SocketError) -> Route {
    guard let address else {
      guard let peer, !isReply else {
        throw SocketError(
          .notConnected, operation: "send", detail: "the endpoint has no peer; name the address to send to")
      }
      return Route(index: peer.index, destination: nil)
    }
    if let peer {
      if address.unmapped == peer.address { return Route(index: peer.index, destination: nil) }
      throw .invalid("send", "the endpoint is connected to \(peer.address), and sends nothing to \(address)")
    }
    return try routeWithoutPeer(address)
  }

  /// Returns the way to an address for an endpoint that is not connected, or that is to get another peer.
  ///
  /// - Parameter address: The address.
  /// - Returns: The way; its destination is not `nil`.
  /// - Throws: Why no datagram can be sent to the address.
  func routeWithoutPeer(_ address: SocketAddress) throws(SocketError) -> Route {
    let address = address.unmapped
    if let flaw = Self.flaw(of: address) { throw flaw }
    // The socket with the matching scope; otherwise any socket of the family.
    var found: Int?
    for index in sockets.indices where sockets[index].kind.reaches(address) {
      if sockets.count == 1 || sockets[index].address.isLoopback == address.isLoopback {
        found = index
        break
      }
      found = found ?? index
    }
    guard let found else {
      throw SocketError(
        .familyNotSupported, operation: "send", detail: "\(sockets[0].address) cannot send to this kind of address",
        address: address)
    }
    let local: SocketAddress? = sockets[found].address
    let scoped = try address.scoped(by: local, isOnDevice: isOnDevice || address.isMulticast, for: "send")
    guard sockets[found].kind == .dual, case .ipv4(let ipv4, let port) = scoped else {
      return Route(index: found, destination: scoped)
    }
    return Route(index: found, destination: .ipv6(IPv6Address(mapped: ipv4), port: port))
  }

  /// Returns why no datagram can be sent to an address, whatever the endpoint; `nil` if there is no such reason.
  @inline(__always)
  private static func flaw(of address: SocketAddress) -> SocketError? {
    if address.port == 0 { return .invalid("send", "port 0 cannot receive datagrams: \(address)") }
    guard case .unix(let path) = address, path.isUnnamed else { return nil }
    return .invalid("send", "a socket without a name cannot receive datagrams")
  }

  /// Returns why no reply can be sent to the sender of a datagram; `nil` if there is no such reason.
  static func flaw(ofSender address: SocketAddress?) -> SocketError? {
    guard let address else {
      return SocketError(.notConnected, operation: "send", detail: "the sender has no name to reply to")
    }
    return flaw(of: address)
  }

  // MARK: Room

  /// The sends that have to wait because the kernel had no room for a datagram.
  enum Wait {
    /// Everything.
    case allSends
    /// The sends to the datagram's destination; an event may announce that there is room.
    case destination(isAnnounced: Bool)
  }

  /// There is no room for a datagram.
  ///
  /// - Parameters:
  ///   - index: The index of the socket.
  ///   - isShortage: Whether the kernel lacks memory, or the interface's queue is full, and not a buffer.
  ///   - now: The time.
  /// - Returns: What has to wait.
  mutating func noRoom(_ index: Int, isShortage: Bool, at now: Int64) -> Wait {
    let isUnix = sockets[index].kind == .unix
    if !isShortage, !isUnix, sockets.count == 1 || peer != nil {
      // The socket's own buffer is full, which concerns all destinations.
      mustWaitToSend = true
      pauseEnd = pause.begin(at: now)
      return .allSends
    }
    // An event announces room in the buffer of one of several sockets, and in the peer's if this socket is connected to it. No event
    // announces room at another unix socket, or in an interface's queue. The events that come belong to the failed calls themselves.
    return .destination(isAnnounced: !isShortage && (!isUnix || peer != nil))
  }

  /// An event says that there may be room, or a send has no time to wait for one.
  mutating func roomMayBe() { mustWaitToSend = false }

  /// The kernel took something.
  mutating func sent() { pause.reset() }

  /// A deadline for the next attempt was reached.
  mutating func retry(at now: Int64) {
    if pauseEnd <= now { mustWaitToSend = false }
  }

  /// When all sends are tried again; `.max` if they do not wait.
  var nextRetry: Int64 { mustWaitToSend ? pauseEnd : .max }

  // MARK: Several datagrams in one message

  /// The kernel divides messages of this socket: UDP_SEGMENT.
  mutating func dividesMessages(_ index: Int) { sockets[index].segmentLimit = SegmentRun.mostBytes }

  /// Sends long datagrams one by one from now on, because the kernel refused to divide a message.
  ///
  /// The kernel refuses if the datagrams are longer than a packet of the path, because it divides a message, but no datagram. It also
  /// refuses if the path cannot do it, for example because of IPsec.
  ///
  /// - Parameters:
  ///   - index: The index of the socket.
  ///   - error: The refusal.
  ///   - size: The size of the datagrams in the message, in bytes; `nil` if it was one datagram.
  /// - Returns: Whether to try again.
  mutating func lowerSegmentLimit(_ index: Int, after error: SystemError, of size: Int?) -> Bool {
    guard error.refusesSegments, let size else { return false }
    let limit = sockets[index].segmentLimit
    sockets[index].segmentLimit = error.errno == Errno.inputOutput ? 0 : min(limit, size - 1)
    return true
  }
}

/// The attempts to give one message to the kernel, of which all but the last may fail because of an error about an earlier datagram. The
/// kernel returns such an error from one call only, so a second failure is that of the message itself.
///
/// Usually the error is also in the error queue. If the socket's receive buffer is full, the kernel cannot queue it, and returns it only
/// from the next call.
struct SendAttempts {
  /// The number of attempts.
  static var most: Int { 4 }

  private var left = Self.most
  /// The error of the previous attempt, if it had no entry in the error queue.
  private(set) var suspect: SystemError?

  /// What to do after a failed attempt.
  enum Step {
    /// The error is that of the message.
    case fail
    case tryAgain
    /// Try again, and report that error about an earlier datagram, of which nothing else is known.
    case reportAndTryAgain(SystemError)
  }

  /// Decides what a failed attempt means.
  ///
  /// - Parameters:
  ///   - error: The error of the attempt.
  ///   - mayBeOfEarlier: Whether an error without an entry in the error queue may be about an earlier datagram: the socket has no peer, or
  ///     the message is a reply, which does not fail because of earlier ones.
  ///   - takeReported: Empties the error queue, and returns whether anything was in it. It is not called after the last attempt.
  /// - Returns: What to do.
  mutating func failed(_ error: SystemError, mayBeOfEarlier: Bool, _ takeReported: () -> Bool) -> Step {
    left -= 1
    if left <= 0 { return .fail }
    if takeReported() { return .tryAgain }
    guard mayBeOfEarlier, Errno.reportedByICMP.contains(error.errno) else { return .fail }
    let earlier = suspect
    suspect = error
    if let earlier, earlier.errno != error.errno { return .reportAndTryAgain(earlier) }
    return .tryAgain
  }

  /// The message was changed, so that it is another one.
  mutating func restart() { left = Self.most }
}

extension SystemError {
  /// Whether this may be the answer to a message of several datagrams only. The kernel's version decides which of the first two it is.
  fileprivate var refusesSegments: Bool {
    [Errno.messageTooLong, Errno.invalidArgument, Errno.inputOutput].contains(errno)
  }
}
