internal import EpollReactor
internal import SocketSystem

/// As on Linux, a receiver that is not connected takes a message from any sender, and a connected one only from its peer. Its queue has a
/// limit, except for the messages of a peer that it is connected to.
final class UnixDatagramSocket: UnixSocket {
  private var waitingSenders: [UnixDatagramSocket] = []

  /// net.unix.max_dgram_qlen.
  private static var longestQueue: Int { 10 }
  private var isFull: Bool { queue.count > Self.longestQueue }

  // MARK: What every socket has

  override var type: Int32 { SocketKind.datagram }
  override var isIdle: Bool { connected == nil }
  override var receivableBytes: Int { queue.first?.bytes.count ?? 0 }

  override var readiness: Readiness {
    var ready = Readiness.none
    if error != 0 { ready = ready.union(.error) }
    if shutdown == .both { ready = ready.union(.hangUp) }
    if shutdown.contains(.receiving) { ready = ready.union(.peerFinished).union(.readable) }
    if !queue.isEmpty { ready = ready.union(.readable) }
    if hasRoom, fullPeer == nil { ready = ready.union(.writable) }
    return ready
  }

  /// The peer, if its queue has no room for a message of this socket.
  private var fullPeer: UnixDatagramSocket? {
    guard let peer = connected as? UnixDatagramSocket else { return nil }
    return peer.connected !== self && peer.isFull && !peer.isClosed ? peer : nil
  }

  override func wantsRoom() { if hasRoom, let fullPeer { fullPeer.tell(self) } }

  // MARK: Senders that wait

  private func tell(_ sender: UnixDatagramSocket) {
    if !waitingSenders.contains(where: { $0 === sender }) { waitingSenders.append(sender) }
  }

  private func tellNoMore(_ sender: UnixDatagramSocket) { waitingSenders.removeAll { $0 === sender } }

  private func wakeSenders(_ events: Readiness = .writable) {
    let senders = waitingSenders
    waitingSenders = []
    for sender in senders { sender.wake(events) }
  }

  // MARK: Connections

  override func connect(to address: SocketAddress, in kernel: SimulatedKernel) -> Int32 {
    guard case .unix(let name) = address, !name.isUnnamed else { return -Errno.invalidArgument }
    kernel.nameIfCredentialsAreWanted(self)
    switch kernel.socket(named: name, type: type) {
    case .failure(let error): return -error.errno
    case .success(let found):
      if !found.takesMessages(of: self) { return -Errno.notPermitted }
      setPeer(found, in: kernel)
      return 0
    }
  }

  override func disconnect(in kernel: SimulatedKernel) -> Int32 {
    setPeer(nil, in: kernel)
    return 0
  }

  private func setPeer(_ peer: UnixSocket?, in kernel: SimulatedKernel) {
    let earlier = connected as? UnixDatagramSocket
    connected = peer
    guard let earlier else { return }
    earlier.tellNoMore(self)
    wake(.writable)
    if earlier !== peer { lose(earlier, in: kernel) }
  }

  /// The connection with a peer has ended. The messages in the queue may be the peer's, and are lost.
  private func lose(_ peer: UnixDatagramSocket, in kernel: SimulatedKernel) {
    if queue.isEmpty { return }
    let lost = queue
    queue = []
    for message in lost { message.discard(in: kernel) }
    wakeSenders(TCPMachine.everyEvent)
    if !peer.isClosed, peer.connected === self {
      peer.error = Errno.connectionReset
      peer.wake(.error)
    }
  }

  override func shutdown(isBoth: Bool, in kernel: SimulatedKernel) -> Int32 {
    shutdown.formUnion(isBoth ? .both : .sending)
    wake(TCPMachine.everyEvent)
    return 0
  }

  override func closed(in kernel: SimulatedKernel) {
    let peer = connected.take() as? UnixDatagramSocket
    super.closed(in: kernel)
    wakeSenders(TCPMachine.everyEvent)
    peer?.tellNoMore(self)
  }

  override func dismantle() {
    super.dismantle()
    waitingSenders = []
  }

  // MARK: Messages

  override func send(_ bytes: Span<UInt8>, in kernel: SimulatedKernel) -> Int {
    send(bytes, to: nil, passing: [], in: kernel)
  }

  /// Returns the number of bytes, or a negative error.
  func send(
    _ bytes: Span<UInt8>, to address: SocketAddress?, passing passed: [SimulatedSocket], in kernel: SimulatedKernel
  ) -> Int {
    var name: UnixPath?
    if let address {
      guard case .unix(let path) = address, !path.isUnnamed else { return -Int(Errno.invalidArgument) }
      name = path
    }
    kernel.nameIfCredentialsAreWanted(self)
    if bytes.count > sendBuffer - 32 { return -Int(Errno.messageTooLong) }
    let error = errorOfSending()
    if error != 0 { return -Int(error) }
    if !kernel.isWithinPassingLimit(passed) {
      wakeIfWritable()
      return -Int(Errno.tooManyReferences)
    }
    switch receiver(named: name, in: kernel) {
    case .failure(let error):
      // The kernel has memory for the message by now, and gives it back.
      wakeIfWritable()
      return -Int(error.errno)
    case .success(let receiver):
      let pages = min(bytes.count, (min(max(0, bytes.count - 16_064), 17 * 4_096) + 4_095) / 4_096 * 4_096)
      let message = UnixMessage(
        [UInt8](copying: bytes), passing: passed, from: self,
        memory: memory(head: bytes.count - pages, pages: pages), time: kernel.timeOfDay)
      if receivesCredentials || receiver.receivesCredentials { message.credentials = kernel.credentials }
      kernel.network?.observeUnix?(message.bytes, receiver.local, passed.count)
      deliver(message, to: receiver, in: kernel)
      return bytes.count
    }
  }

  private func receiver(named name: UnixPath?, in kernel: SimulatedKernel) -> Result<UnixDatagramSocket, SystemError> {
    func failure(_ errno: Int32) -> Result<UnixDatagramSocket, SystemError> {
      .failure(SystemError(call: "send", errno: errno))
    }
    let receiver: UnixDatagramSocket
    if let name {
      switch kernel.socket(named: name, type: type) {
      case .failure(let error): return .failure(error)
      case .success(let found):
        guard let found = found as? UnixDatagramSocket else { return failure(Errno.wrongType) }
        receiver = found
      }
    } else {
      guard let peer = connected as? UnixDatagramSocket else { return failure(Errno.notConnected) }
      receiver = peer
    }
    if !receiver.takesMessages(of: self) { return failure(Errno.notPermitted) }
    if receiver.isClosed {
      setPeer(nil, in: kernel)
      return failure(Errno.connectionRefused)
    }
    if receiver.shutdown.contains(.receiving) { return failure(Errno.brokenPipe) }
    if receiver !== self, receiver.connected !== self, receiver.isFull {
      if connected === receiver { receiver.tell(self) }
      return failure(Errno.wouldBlock)
    }
    return .success(receiver)
  }

  override func receive(
    into memory: inout OutputSpan<UInt8>, atMost limit: Int, peeking: Bool, in kernel: SimulatedKernel
  ) -> Int {
    if error != 0 { return -Int(takeError()) }
    guard let message = peeking ? queue.first : takeFirst() else { return -Int(Errno.wouldBlock) }
    // recv(2) has no room for passed descriptors.
    if peeking { wakeSenders() } else { kernel.drop(message.takePassed()) }
    return memory.append(message.bytes, in: 0..<min(limit, message.bytes.count))
  }

  /// recvmsg(2), with up to `most` descriptors.
  func receive(descriptors most: Int, in kernel: SimulatedKernel) -> (result: Int32, datagram: ReceivedDatagram?) {
    if error != 0 { return (-takeError(), nil) }
    guard let message = takeFirst() else { return (-Errno.wouldBlock, nil) }
    var metadata = DatagramMetadata()
    if Int32(kernelBytes: options.value(.timestamp)) != 0 {
      metadata.timestamp = UnixTime(durationSince1970: .nanoseconds(message.time))
    }
    if receivesCredentials { metadata.peerCredentials = message.credentials ?? .unknown }
    let rights = kernel.receive(message.takePassed(), atMost: most)
    return (
      0, ReceivedDatagram(bytes: message.bytes, address: message.sender.local, metadata: metadata, rights: rights)
    )
  }

  /// The caller takes the sockets out of the message.
  private func takeFirst() -> UnixMessage? {
    if queue.isEmpty { return nil }
    let message = queue.removeFirst()
    wakeSenders()
    message.leaveQueue()
    return message
  }
}

extension UnixSocket {
  fileprivate func takesMessages(of sender: UnixSocket) -> Bool { connected == nil || connected === sender }
}

extension PeerCredentials {
  /// The credentials that the kernel reports for a message that was sent before the receiver asked for credentials.
  fileprivate static var unknown: PeerCredentials { PeerCredentials(processID: 0, userID: 65_534, groupID: 65_534) }
}
