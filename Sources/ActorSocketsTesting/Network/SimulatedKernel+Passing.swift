// Descriptors that unix sockets pass, and when a socket closes: unix(7), SCM_RIGHTS, and net/unix/garbage.c of Linux.
//
// Invariants:
// - `references` of a socket is the number of descriptors that refer to it plus its entries in `inFlight`. The socket closes when that
//   becomes 0, and then leaves all epoll instances.
// - `inFlight` has a socket once for each message that passes it, in the order in which they were sent. It leaves when a receive has taken
//   it out of its message, or when the message is lost. A socket that is received gets its new descriptor before it leaves.
// - Closing one socket can lose messages, and so close others. They close one after the other, not within each other, so that a chain of
//   them may have any length.
// - A socket that only messages in its own queue refer to, directly or in a circle, can never be received. As Linux does, the kernel
//   discards these messages when a unix socket closes. A host that stops discards the rest. So what is left keeps no memory.

internal import ActorSockets
internal import SocketSystem

struct PassingState {
  fileprivate(set) var inFlight: [SimulatedSocket] = []
  /// Only unix sockets can make a circle.
  fileprivate var unixSocketsInFlight = 0
  fileprivate var unreferenced = FIFO<SimulatedSocket>()
  fileprivate var isClosing = false

  init() {}
}

extension SimulatedKernel {
  // MARK: Closing

  func release(_ socket: SimulatedSocket) {
    socket.references -= 1
    if socket.references > 0 { return }
    passing.unreferenced.append(socket)
    if !passing.isClosing { closeUnreferenced() }
  }

  /// As when a process ends.
  func closeAll() {
    passing.isClosing = true
    for number in files.indices { close(number) }
    closeUnreferenced()
    // Nothing can receive what is still in flight.
    discardUnreachable()
  }

  private func closeUnreferenced() {
    passing.isClosing = true
    var isUnixClosed = false
    while let socket = passing.unreferenced.popFirst() {
      socket.watches = []
      socket.closed(in: self)
      isUnixClosed = isUnixClosed || socket is UnixSocket
      // Once for all of them, because it looks at all sockets.
      if isUnixClosed, passing.unreferenced.isEmpty {
        discardUnreachable()
        isUnixClosed = false
      }
    }
    passing.isClosing = false
  }

  // MARK: Passing

  /// As in Linux, one message can exceed the limit.
  func isWithinPassingLimit(_ sockets: [SimulatedSocket]) -> Bool {
    sockets.isEmpty || passing.inFlight.count <= limits.descriptors
  }

  /// A message has been sent that passes these sockets.
  func takeOff(_ sockets: [SimulatedSocket]) {
    for socket in sockets { socket.references += 1 }
    passing.inFlight += sockets
    passing.unixSocketsInFlight += sockets.count { $0 is UnixSocket }
  }

  /// Gives descriptors to sockets that were taken out of a message, as many as `most` and the limit of the host allow. The others lose
  /// their reference.
  func receive(_ sockets: [SimulatedSocket], atMost most: Int) -> ReceivedRights {
    var rights = ReceivedRights()
    for socket in sockets.prefix(most) {
      guard let number = nextNumber else { break }
      open(.socket(socket), as: number)
      rights.numbers.append(globalNumber(of: Int32(number)))
    }
    rights.areTruncated = rights.numbers.count < sockets.count
    drop(sockets)
    return rights
  }

  /// The sockets were taken out of a message, and are no longer in flight.
  func drop(_ sockets: [SimulatedSocket]) {
    for socket in sockets {
      if let index = passing.inFlight.firstIndex(where: { $0 === socket }) {
        passing.inFlight.remove(at: index)
        if socket is UnixSocket { passing.unixSocketsInFlight -= 1 }
      }
      release(socket)
    }
  }

  // MARK: Sockets that cannot be received

  /// The sockets in flight that no program can receive, because no descriptor leads to the queues in which they are.
  var unreachable: [SimulatedSocket] {
    if passing.unixSocketsInFlight == 0 { return [] }
    var reached: Set<ObjectIdentifier> = []
    var next: [SimulatedSocket] = files.compactMap { if case .socket(let socket)? = $0 { socket } else { nil } }
    while let socket = next.popLast() {
      if reached.insert(ObjectIdentifier(socket)).inserted { next += socket.offered }
    }
    return passing.inFlight.filter { !reached.contains(ObjectIdentifier($0)) }
  }

  func discardUnreachable() {
    let messages = unreachable.flatMap { ($0 as? UnixSocket)?.takeMessages() ?? [] }
    for message in messages { message.discard(in: self) }
  }
}
