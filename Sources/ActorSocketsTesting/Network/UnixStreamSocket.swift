internal import EpollReactor
internal import SocketSystem

final class UnixStreamSocket: UnixSocket {
  enum Role {
    case fresh
    /// `waiting` are the connections to be accepted, the earliest first.
    case listening(limit: Int, waiting: [UnixStreamSocket])
    /// Has connected, waits to be accepted, or was accepted. This does not change when the peer closes.
    case stream
  }

  private var role = Role.fresh
  /// The process at the other end; of a listening socket its own. Set when that process called connect(2) or listen(2).
  private(set) var credentials: PeerCredentials?

  private static var longestMessage: Int { longestHead + 32_768 }
  /// The most bytes of a message that are not in pages of their own.
  private static var longestHead: Int { 3_776 }

  // MARK: What every socket has

  override var isListening: Bool { if case .listening = role { true } else { false } }
  private var isStream: Bool { if case .stream = role { true } else { false } }
  override var isIdle: Bool { if case .fresh = role { true } else { false } }
  override var receivableBytes: Int { queue.reduce(0) { $0 + $1.bytes.count - $1.received } }

  override var readiness: Readiness {
    var ready = Readiness.none
    if error != 0 { ready = ready.union(.error) }
    if shutdown == .both || isIdle { ready = ready.union(.hangUp) }
    if shutdown.contains(.receiving) { ready = ready.union(.peerFinished).union(.readable) }
    if !queue.isEmpty { ready = ready.union(.readable) }
    if case .listening(_, let waiting) = role, !waiting.isEmpty { ready = ready.union(.readable) }
    if hasRoom { ready = ready.union(.writable) }
    return ready
  }

  // MARK: Connections

  override func listen(backlog: Int32, in kernel: SimulatedKernel) -> Int32 {
    let limit = backlog < 0 ? kernel.limits.backlog : min(Int(backlog), kernel.limits.backlog)
    if local == nil || isStream { return -Errno.invalidArgument }
    credentials = kernel.credentials
    var waiting: [UnixStreamSocket] = []
    if case .listening(_, let earlier) = role { waiting = earlier }
    role = .listening(limit: limit, waiting: waiting)
    return 0
  }

  override func connect(to address: SocketAddress, in kernel: SimulatedKernel) -> Int32 {
    guard case .unix(let name) = address, !name.isUnnamed else { return -Errno.invalidArgument }
    kernel.nameIfCredentialsAreWanted(self)
    let listener: UnixStreamSocket
    switch kernel.socket(named: name, type: type) {
    case .failure(let error): return -error.errno
    case .success(let found):
      guard let found = found as? UnixStreamSocket else { return -Errno.connectionRefused }
      listener = found
    }
    guard case .listening(let limit, let waiting) = listener.role, !listener.shutdown.contains(.receiving) else {
      return -Errno.connectionRefused
    }
    // There is no event for room in a backlog: a program tries again.
    if waiting.count > limit { return -Errno.wouldBlock }
    switch role {
    case .fresh: break
    case .listening: return -Errno.invalidArgument
    case .stream: return -Errno.isConnected
    }
    let accepted = UnixStreamSocket()
    accepted.role = .stream
    accepted.local = listener.local
    accepted.connected = self
    accepted.credentials = kernel.credentials
    role = .stream
    connected = accepted
    credentials = listener.credentials
    listener.role = .listening(limit: limit, waiting: waiting + [accepted])
    listener.wake(.readable)
    return 0
  }

  override func accept(in kernel: SimulatedKernel) -> (result: Int32, peer: SocketAddress?) {
    guard let number = kernel.nextNumber else { return (-Errno.processDescriptors, nil) }
    guard case .listening(let limit, var waiting) = role else { return (-Errno.invalidArgument, nil) }
    if waiting.isEmpty { return (-Errno.wouldBlock, nil) }
    let socket = waiting.removeFirst()
    role = .listening(limit: limit, waiting: waiting)
    kernel.open(.socket(socket), as: number)
    return (Int32(number), socket.peer)
  }

  override func shutdown(isBoth: Bool, in kernel: SimulatedKernel) -> Int32 {
    shutdown.formUnion(isBoth ? .both : .sending)
    wake(TCPMachine.everyEvent)
    if let connected {
      connected.shutdown.formUnion(isBoth ? .both : .receiving)
      connected.wake(TCPMachine.everyEvent)
    }
    return 0
  }

  override func closed(in kernel: SimulatedKernel) {
    close(in: kernel, isRefused: false)
  }

  /// `isRefused`: the listening socket was closed before a program accepted this connection.
  private func close(in kernel: SimulatedKernel, isRefused: Bool) {
    if let peer = connected.take() {
      peer.shutdown = .both
      if !queue.isEmpty || isRefused { peer.error = Errno.connectionReset }
      peer.wake(TCPMachine.everyEvent)
    }
    super.closed(in: kernel)
    if case .listening(_, let waiting) = role {
      role = .fresh
      for connection in waiting { connection.close(in: kernel, isRefused: true) }
    }
  }

  override func dismantle() {
    super.dismantle()
    guard case .listening(_, let waiting) = role else { return }
    role = .fresh
    for connection in waiting { connection.dismantle() }
  }

  override var offered: [SimulatedSocket] {
    if case .listening(_, let waiting) = role { super.offered + waiting } else { super.offered }
  }

  override func takeMessages() -> [UnixMessage] {
    guard case .listening(_, let waiting) = role else { return super.takeMessages() }
    return super.takeMessages() + waiting.flatMap { $0.takeMessages() }
  }

  // MARK: Bytes

  override func send(_ bytes: Span<UInt8>, in kernel: SimulatedKernel) -> Int { send(bytes, passing: [], in: kernel) }

  /// `passed` goes with the first byte. Returns the number of bytes, or a negative error.
  func send(_ bytes: Span<UInt8>, passing passed: [SimulatedSocket], in kernel: SimulatedKernel) -> Int {
    guard let peer = connected else { return -Int(Errno.notConnected) }
    if shutdown.contains(.sending) { return -Int(Errno.brokenPipe) }
    let asked = kernel.faults.shortened(bytes.count, isRead: false)
    var sent = 0
    while sent < asked {
      var error = errorOfSending()
      if error == 0, sent == 0, !kernel.isWithinPassingLimit(passed) {
        error = Errno.tooManyReferences
        wakeIfWritable()
      }
      if error == 0, peer.isClosed || peer.shutdown.contains(.receiving) {
        error = Errno.brokenPipe
        wakeIfWritable()
      }
      if error != 0 { return sent > 0 ? sent : -Int(error) }
      let size = min(asked - sent, sendBuffer / 2 - 64, Self.longestMessage)
      let pages = (max(0, size - Self.longestHead) + 4_095) / 4_096 * 4_096
      let inPages = min(size, pages)
      let part = [UInt8](copying: bytes.extracting(sent..<(sent + size)))
      let memory = memory(head: size - inPages, pages: inPages)
      let message = UnixMessage(
        part, passing: sent == 0 ? passed : [], from: self, memory: memory, time: kernel.timeOfDay)
      kernel.network?.observeUnix?(part, peer.local, message.passed.count)
      deliver(message, to: peer, in: kernel)
      sent += size
    }
    if asked < bytes.count { wake(.writable) }
    return sent
  }

  override func receive(
    into memory: inout OutputSpan<UInt8>, atMost limit: Int, peeking: Bool, in kernel: SimulatedKernel
  ) -> Int {
    let (count, passed) = receivePassed(into: &memory, atMost: limit, peeking: peeking, in: kernel)
    // As recv(2) does, which has no room for them.
    kernel.drop(passed)
    return count
  }

  /// One call receives up to the end of the first message that passes sockets.
  private var bytesAtOnce: Int {
    var sum = 0
    for message in queue {
      sum += message.bytes.count - message.received
      if !message.passed.isEmpty { break }
    }
    return sum
  }

  /// Returns the number of bytes or a negative error, and the sockets, which are still in flight.
  func receivePassed(
    into memory: inout OutputSpan<UInt8>, atMost limit: Int, peeking: Bool = false, in kernel: SimulatedKernel
  ) -> (count: Int, passed: [SimulatedSocket]) {
    if !isStream { return (-Int(Errno.invalidArgument), []) }
    if queue.isEmpty {
      if error != 0 { return (-Int(takeError()), []) }
      return (shutdown.contains(.receiving) ? 0 : -Int(Errno.wouldBlock), [])
    }
    let possible = min(limit, memory.freeCapacity, bytesAtOnce)
    let count = kernel.faults.shortened(possible, isRead: true)
    var rest = count
    var passed: [SimulatedSocket] = []
    for message in queue where rest > 0 {
      let size = min(rest, message.bytes.count - message.received)
      memory.append(message.bytes, in: message.received..<(message.received + size))
      rest -= size
      if peeking { continue }
      message.received += size
      passed += message.takePassed()
    }
    if count < possible { wake(.readable) }
    let received = queue.prefix { $0.isReceived }
    queue.removeFirst(received.count)
    for message in received { message.leaveQueue() }
    return (count, passed)
  }
}
