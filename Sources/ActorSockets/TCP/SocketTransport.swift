internal import EpollReactor
internal import SocketSystem

/// The transport of a stream over a socket.
///
/// Invariants, which follow from edge-triggered epoll:
/// - A call that finds the socket drained or full clears `isReadable` or `isWritable`, and an event sets it. `isWritable` starts as
///   true, because a new connection has room. `isReadable` starts as false, because registering reports what has already arrived.
/// - A receive that returned less than was asked for has drained a TCP socket, and the next arrival raises an event. This holds
///   only while nothing but bytes was announced. After the peer's end, an error or urgent data, and always on other sockets,
///   receiving continues until EAGAIN or 0.
final class SocketTransport: StreamTransport {
  private let registration: Registration
  /// Looked up at first use, which is rare. Declared next to the other one-byte properties to keep the transport small.
  private lazy var isUnix = (try? registration.socket?.localAddress())?.isUnix ?? false
  private(set) var isReadable = false
  private var isWritable = true
  /// A short transfer does not prove that the socket is drained or full: continue until EAGAIN or 0.
  private var goesOnToTheEnd = false
  /// A deadline is armed that tries a full unix socket once more.
  private var isProbing = false
  /// A receive returned 0.
  private var hasEnded = false
  /// The layer above knows that the peer sends no more, although no receive has returned 0.
  private var expectsNoMore = false
  /// The size of the last receive, from which the size of the next one is estimated.
  private var lastCount = 0
  var isAccepted = false
  /// For descriptors received from a unix socket; `nil` if the configuration does not ask for them.
  var inbox: DescriptorInbox?
  /// Set only until the connection is up.
  var opening: Opening?
  private var lingering: LingeringClose?

  enum Opening {
    case connecting(ConnectAttempt)
    case awaitingHeader(HeaderWait)
  }

  var attempt: ConnectAttempt? { if case .connecting(let attempt)? = opening { attempt } else { nil } }
  var headerWait: HeaderWait? { if case .awaitingHeader(let wait)? = opening { wait } else { nil } }

  init(_ registration: Registration) { self.registration = registration }

  var openingOperation: String { isAccepted ? "accept" : "connect" }

  /// Only a TCP socket shows by a short transfer that it is drained.
  func isNotTCP() { goesOnToTheEnd = true }

  func note(_ readiness: Readiness) {
    if readiness.contains(.writable) { isWritable = true }
    if readiness.contains(.readable) { isReadable = true }
    if readiness.contains(.exceptional) {
      isReadable = true
      isWritable = true
      goesOnToTheEnd = true
    }
  }

  func forceAttempt() {
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
      if inbox == nil, let socket = registration.socket {
        let result = buffer.append { storage in reactor.receive(from: socket, appendingTo: &storage) }
        return noteReceived(result, asked: capacity)
      }
      let result = noteReceived(receiveIntoScratch(of: reactor), asked: capacity)
      if case .bytes(let count) = result { reactor.withScratch(count) { buffer.append($0) } }
      return result
    }
    // A large amount is received directly into the queue. Its room grows with the bytes that have arrived, not with those
    // wanted.
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
    // Other sockets would send the bytes and silently ignore the descriptor.
    if !isUnix { return .failed(SystemError(call: "sendmsg", errno: Errno.notSupported)) }
    if !isWritable { return .wouldBlock }
    return noteSent(registration.socket?.send(bytes, passing: passed.descriptor), asked: 0)
  }

  func send(file: FileSource, from offset: Int, count: Int) -> FileTransfer {
    if !isWritable { return .transfer(.wouldBlock) }
    guard let socket = registration.socket else { return .transfer(noteSent(nil, asked: 0)) }
    let result = socket.send(file: file.descriptor, from: offset, count: count)
    // A short count may be caused by the file, so it does not show that the socket is full.
    if case .transfer(let transfer) = result { return .transfer(noteSent(transfer, asked: 0)) }
    return result
  }

  private func noteSent(_ result: Transfer?, asked: Int) -> Transfer {
    switch result {
    case nil: return .failed(SystemError(call: "send", errno: Errno.notConnected))
    case .wouldBlock:
      isWritable = false
      if goesOnToTheEnd { probeLater() }
    // After a partial send, the kernel has marked the socket as waiting for room and will raise an event.
    case .bytes(let count): if count < asked, !goesOnToTheEnd { isWritable = false }
    case .failed: break
    }
    return result ?? .wouldBlock
  }

  /// Tries a full unix socket once more in a second. If its peer stops reading by shutdown(2), no event says so: only the next send
  /// fails.
  private func probeLater() {
    if isProbing || !isUnix { return }
    let end = instant(registration.reactor.now, plus: 1_000_000_000)
    isProbing = registration.arm(at: end, tag: DeadlineTag(.probe)) != nil
  }

  func probeIsDue() {
    isProbing = false
    isWritable = true
  }

  func finishWriting() -> SystemError? {
    do throws(SystemError) {
      try registration.socket?.shutdownWriting()
      return nil
    } catch {
      return error
    }
  }

  /// The connection is up, or will not come up.
  func endOpening() {
    switch opening.take() {
    case .connecting(let attempt): attempt.end()
    case .awaitingHeader(let wait): wait.end()
    case nil: break
    }
  }

  /// Reading the error clears it.
  func pendingError() -> SystemError? {
    let number = (try? registration.socket?.get(.pendingError)) ?? 0
    return number == 0 ? nil : SystemError(call: "recv", errno: number)
  }

  var tcpInfo: TCPInfo? { try? registration.socket?.tcpInfo() }

  /// A unix socket puts bytes directly into the peer's buffer, so no bytes are in transit. The kernel's count would be of bytes
  /// that the peer has not read.
  var unacknowledgedBytes: Int { isUnix ? 0 : registration.socket?.unacknowledgedBytes() ?? 0 }

  var isAtEnd: Bool { hasEnded || registration.socket?.hasReceivableBytes() == false }

  func expectNoMore() { expectsNoMore = true }

  func close(_ done: @escaping @Sendable () -> Void) -> Bool {
    // Nothing is left that closing could discard unread. Bytes may have arrived that no event has announced yet, so ask the
    // kernel.
    let isDone = hasEnded || expectsNoMore && !isReadable && registration.socket?.hasReceivableBytes() == false
    if isDone || registration.socket == nil {
      // With a duplicate of the descriptor somewhere, closing this one would not tell the peer.
      if registration.mayBeShared { _ = finishWriting() }
      registration.leave()
      return true
    }
    let lingering = LingeringClose(registration, done)
    self.lingering = lingering
    // A TCP socket is not a unix socket, and asking costs a system call. So ask only if the socket is not TCP.
    let isUnix = goesOnToTheEnd && self.isUnix
    lingering.assumeIsolated { $0.begin(isUnix: isUnix) }
    return false
  }

  func endLinger(by end: Int64) { lingering?.assumeIsolated { $0.shorten(to: end) } }

  func discard() { inbox = nil }

  func abort() {
    endOpening()
    if let lingering = lingering.take() { lingering.assumeIsolated { $0.cancel() } }
    registration.leaveWithReset()
  }
}

extension Registration {
  /// A unix socket has no reset, so its peer sees the end of the stream.
  func leaveWithReset() {
    if let socket, (try? socket.reset()) == nil, mayBeShared { try? socket.shutdownBoth() }
    leave()
  }
}

/// Closes a socket without destroying the bytes that were sent on it.
///
/// close(2) of a TCP socket with unread input makes the kernel send RST, and a peer that receives RST may lose bytes that it
/// has received but not read. So the sending side is shut down, and input is discarded until the peer finishes, for at most 2
/// seconds.
///
/// On a unix socket close(2) destroys no sent bytes, but with unread input it gives the peer ECONNRESET instead of the end of
/// the stream. So both sides are shut down, after which the peer can send nothing more. Then the bytes that the peer had sent
/// are discarded; its send buffer limits their number. This does not wait for the peer.
actor LingeringClose: EventHandler {
  nonisolated var executor: ReactorExecutor { registration }
  private nonisolated let registration: Registration
  private var done: (@Sendable () -> Void)?
  private var deadline: DeadlineKey?
  private var end = Int64.max
  /// Keeps this actor alive: the reactor refers to handlers weakly, and nothing else refers to this one.
  private var keepAlive: LingeringClose?

  static let limit = 2_000_000_000 as Int64

  init(_ registration: Registration, _ done: (@Sendable () -> Void)?) {
    self.registration = registration
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
    arm(until: instant(registration.reactor.now, plus: Self.limit))
    discard()
  }

  private func arm(until end: Int64) {
    self.end = end
    deadline = registration.arm(at: end, tag: DeadlineTag(.linger))
  }

  /// Ends the wait at this instant, unless it ends earlier: at once if the instant has passed.
  func shorten(to end: Int64) {
    guard end < self.end, let key = deadline.take() else { return }
    registration.disarm(key)
    if end <= registration.reactor.now { finish() } else { arm(until: end) }
  }

  func handle(_ readiness: Readiness) {
    // The peer's acknowledgement makes the socket writable, which does not matter here.
    if readiness.rawValue != Readiness.writable.rawValue { discard() }
  }
  func deadlineReached(_ tag: DeadlineTag) {
    if tag.kind != .linger { tag.isUnexpected(by: Self.self) }
    finish()
  }
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
    // With a duplicate of the descriptor somewhere, closing this one would leave the connection to a peer that has not finished.
    if registration.mayBeShared { try? registration.socket?.shutdownBoth() }
    registration.leave()
    done?()
  }

  /// The caller owns the registration again.
  func cancel() {
    if let deadline = deadline.take() { registration.disarm(deadline) }
    done = nil
    keepAlive = nil
  }
}
