internal import EpollReactor
internal import SocketSystem

/// A stream socket as a stream's transport.
///
/// Invariants, which are those of edge-triggered epoll:
/// - `isReadable` and `isWritable` are true unless the kernel said otherwise and no edge came since. They start as true
///   for writing, because a new connection has room, and false for reading, because registering reports what is there.
/// - A receive that brought less than was asked for has drained a TCP socket, and the next arrival makes an edge. That
///   holds only while nothing but bytes was announced: with the peer's end, an error or an urgent byte in the stream, and
///   on other sockets always, receiving goes on until EAGAIN or 0.
final class SocketTransport: StreamTransport {
  private let registration: Registration
  private let executor: ReactorExecutor
  /// Asked of the kernel when it is needed first, which is rare. Beside the other bytes, for the size of each transport.
  private lazy var isUnix = (try? registration.socket?.localAddress())?.isUnix ?? false
  private(set) var isReadable = false
  private var isWritable = true
  /// A short transfer says nothing about what is left.
  private var goesOnToTheEnd = false
  /// A receive returned 0.
  private var hasEnded = false
  /// The peer has said that it sends no more, if not by its end.
  private var expectsNoMore = false
  /// What the last receive brought: the next one may well bring as much.
  private var lastCount = 0
  private var lingering: LingeringClose?
  /// Where descriptors wait that a unix socket brought, if they are wanted.
  var inbox: DescriptorInbox?
  /// What there is only while connecting.
  var attempt: ConnectAttempt?

  init(_ registration: Registration, _ executor: ReactorExecutor) {
    self.registration = registration
    self.executor = executor
  }

  /// Only a TCP socket tells by a short transfer that it is drained.
  func isNotTCP() { goesOnToTheEnd = true }

  /// Takes an event in.
  func note(_ readiness: Readiness) {
    if readiness.contains(.writable) { isWritable = true }
    if readiness.contains(.readable) { isReadable = true }
    if readiness.contains(.exceptional) {
      isReadable = true
      isWritable = true
      goesOnToTheEnd = true
    }
  }

  func tryAnyway() {
    isReadable = true
    isWritable = true
  }

  func receive(into buffer: inout ByteQueue, wanted: Int) -> Transfer {
    if !isReadable { return .wouldBlock }
    let capacity = Reactor.scratchCapacity
    let isLarge = wanted >= capacity || lastCount >= capacity / 2 && buffer.isEmpty
    guard isLarge, inbox == nil else {
      // Read once: each access retains.
      let reactor = registration.reactor
      let result = noteReceived(receiveIntoScratch(of: reactor), asked: capacity)
      if case .bytes(let count) = result { reactor.withScratch(count) { buffer.append($0) } }
      return result
    }
    // Much is received in place. The room grows with what has come, not with what is wanted.
    let asked = min(max(wanted, capacity), max(capacity, buffer.count))
    let result = buffer.append { storage in
      registration.socket?.receive(appendingTo: &storage, atMost: asked) ?? .bytes(0)
    }
    if wanted < capacity { buffer.fit() }
    return noteReceived(result, asked: asked)
  }

  func receive(atMost limit: Int, restInto buffer: inout ByteQueue, showing body: (Span<UInt8>) -> Int) -> Transfer {
    if !isReadable { return .wouldBlock }
    let reactor = registration.reactor
    let asked = min(limit, Reactor.scratchCapacity)
    let result = noteReceived(receiveIntoScratch(of: reactor, atMost: asked), asked: asked)
    if case .bytes(let count) = result, count > 0 {
      reactor.withScratch(count) { bytes in
        let used = body(bytes)
        if used < count { buffer.append(bytes.extracting(used..<count)) }
      }
    }
    return result
  }

  private func receiveIntoScratch(of reactor: Reactor, atMost limit: Int = .max) -> Transfer {
    guard let socket = registration.socket else {
      return .failed(SystemError(call: inbox == nil ? "recv" : "recvmsg", errno: Errno.badDescriptor))
    }
    if let inbox { return reactor.receiveIntoScratch(from: socket, inbox) }
    return reactor.receiveIntoScratch(from: socket, atMost: limit)
  }

  private func noteReceived(_ result: Transfer, asked: Int) -> Transfer {
    switch result {
    case .bytes(0): hasEnded = true
    case .bytes(let count):
      lastCount = count
      if count < asked, !goesOnToTheEnd { isReadable = false }
    case .wouldBlock: isReadable = false
    case .failed: break
    }
    return result
  }

  func send(_ bytes: Span<UInt8>) -> Transfer {
    if !isWritable { return .wouldBlock }
    let result = registration.socket?.send(bytes)
    return noteSent(result, asked: bytes.count)
  }

  func send(gathering pieces: ArraySlice<[UInt8]>, skipping offset: Int) -> Transfer {
    if !isWritable { return .wouldBlock }
    let result = registration.socket?.send(gathering: pieces, skipping: offset)
    return noteSent(result, asked: 0)
  }

  func send(_ bytes: Span<UInt8>, passing passed: PassedDescriptor) -> Transfer {
    // Other sockets would send the bytes and say nothing.
    if !isUnix { return .failed(SystemError(call: "sendmsg", errno: Errno.notSupported)) }
    if !isWritable { return .wouldBlock }
    return noteSent(registration.socket?.send(bytes, passing: passed.descriptor), asked: 0)
  }

  func send(file: FileSource, from offset: Int, count: Int) -> FileTransfer {
    if !isWritable { return .transfer(.wouldBlock) }
    guard let socket = registration.socket else { return .transfer(noteSent(nil, asked: 0)) }
    let result = socket.send(file: file.descriptor, from: offset, count: count)
    // A short one may be the file's doing: it goes on until EAGAIN.
    if case .transfer(let transfer) = result { return .transfer(noteSent(transfer, asked: 0)) }
    return result
  }

  private func noteSent(_ result: Transfer?, asked: Int) -> Transfer {
    switch result {
    case nil: return .failed(SystemError(call: "send", errno: Errno.notConnected))
    case .wouldBlock: isWritable = false
    // The kernel marked the socket as waiting for room when it took only a part.
    case .bytes(let count): if count < asked, !goesOnToTheEnd { isWritable = false }
    case .failed: break
    }
    return result ?? .wouldBlock
  }

  func finishWriting() -> SystemError? {
    do throws(SystemError) {
      try registration.socket?.shutdownWriting()
      return nil
    } catch {
      return error
    }
  }

  /// Connecting is over, one way or the other.
  func endAttempt() { attempt.take()?.end() }

  /// Reads and clears the socket's pending error.
  func pendingError() -> SystemError? {
    let number = (try? registration.socket?.get(.pendingError)) ?? 0
    return number == 0 ? nil : SystemError(call: "recv", errno: number)
  }

  var tcpInfo: TCPInfo? { try? registration.socket?.tcpInfo() }

  /// A unix socket puts what it takes into the peer's buffer: there is nothing on the way, and the kernel counts what is
  /// not read.
  var unacknowledgedBytes: Int { isUnix ? 0 : registration.socket?.unacknowledgedBytes() ?? 0 }

  var isAtEnd: Bool { hasEnded || registration.socket?.receivableBytes() == 0 }

  func expectNoMore() { expectsNoMore = true }

  func close(_ done: @escaping @Sendable () -> Void) -> Bool {
    // There is no input that closing could leave unread; of what came just now, no event has told yet.
    let isDone = hasEnded || expectsNoMore && !isReadable && registration.socket?.receivableBytes() == 0
    if isDone || registration.socket == nil {
      registration.leave()
      return true
    }
    let lingering = LingeringClose(registration, executor, done)
    self.lingering = lingering
    // A TCP socket is no unix socket, and asking costs a system call: so ask only if the socket is not TCP.
    let isUnix = goesOnToTheEnd && self.isUnix
    lingering.assumeIsolated { $0.begin(isUnix: isUnix) }
    return false
  }

  func discard() { inbox = nil }

  func abort() {
    endAttempt()
    if let lingering = lingering.take() { lingering.assumeIsolated { $0.cancel() } }
    try? registration.socket?.resetOnClose()
    registration.leave()
  }
}

/// The tag of a lingering close's deadline.
enum LingerDeadline: UInt64, Sendable {
  /// The peer has not finished in time.
  case limit
}

/// Closes a socket without destroying what was sent on it.
///
/// close(2) of a TCP socket with unread input makes the kernel send RST, and a peer that gets it may lose bytes that it has
/// received but not read. So the sending side is shut down, and input is discarded until the peer finishes, or for 2 seconds.
///
/// On a unix socket close(2) destroys no byte that was sent, but with unread input it gives the peer ECONNRESET instead of the
/// end of the stream. So both sides are shut down, after which the peer can send nothing more. Then the bytes that it had sent
/// are discarded, which are at most as many as its send buffer holds. This does not wait for the peer.
actor LingeringClose: EventHandler {
  nonisolated let executor: ReactorExecutor
  private let registration: Registration
  private var done: (@Sendable () -> Void)?
  private var deadline: DeadlineKey?
  /// The reactor refers to handlers weakly, and nobody else refers to this one.
  private var keepAlive: LingeringClose?

  private static let limit = 2_000_000_000 as Int64

  init(_ registration: Registration, _ executor: ReactorExecutor, _ done: (@Sendable () -> Void)?) {
    self.registration = registration
    self.executor = executor
    self.done = done
  }

  func begin(isUnix: Bool) {
    keepAlive = self
    registration.hand(to: self)
    if isUnix {
      try? registration.socket?.shutdownBoth()
    } else {
      try? registration.socket?.shutdownWriting()
    }
    deadline = registration.arm(at: registration.reactor.now + Self.limit, tag: LingerDeadline.limit.rawValue)
    discard()
  }

  func handle(_ readiness: Readiness) {
    // The peer's acknowledgement of the end makes room, which is nobody's concern any more.
    if readiness.rawValue != Readiness.writable.rawValue { discard() }
  }
  func deadlineReached(_ deadline: LingerDeadline) { finish() }
  func reactorShutDown() { finish() }

  private func discard() {
    for _ in 0..<16 {
      guard let socket = registration.socket else { return finish() }
      switch registration.reactor.receiveIntoScratch(from: socket) {
      case .bytes(0), .failed: return finish()
      case .wouldBlock: return
      case .bytes: continue
      }
    }
    registration.reschedule()
  }

  private func finish() {
    let done = self.done
    cancel()
    registration.leave()
    done?()
  }

  /// Stops; the registration is the caller's again.
  func cancel() {
    if let deadline = deadline.take() { registration.disarm(deadline) }
    done = nil
    keepAlive = nil
  }
}
