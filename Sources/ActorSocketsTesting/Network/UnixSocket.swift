// What both kinds of simulated unix sockets have: unix(7), and net/unix/af_unix.c of Linux.
//
// Invariants:
// - A message is in the queue of one receiver, and counts in the `sentMemory` of its sender until it is received or discarded.
// - The sockets that a message passes are in flight from the send until a receive takes the first byte, or the message is discarded.
// - A socket that is closed has no peer, and nothing in its queue. A peer that was connected to it still knows it.
// - Everything happens within the call that causes it: a message has arrived when send(2) returns.

internal import EpollReactor
internal import SocketSystem

/// The bytes that one call of send(2) has put into the queue of a unix socket, or a part of them.
final class UnixMessage {
  let bytes: [UInt8]
  let sender: UnixSocket
  /// The memory that the kernel needs for the message, in bytes.
  let memory: Int
  /// The time of day of the send, in nanoseconds since 1970.
  let time: Int64
  /// The sending process; `nil` if neither end had asked for it when the message was sent.
  var credentials: PeerCredentials?
  private(set) var passed: [SimulatedSocket]
  /// In bytes. Only a stream socket receives a part.
  var received = 0

  init(_ bytes: [UInt8], passing passed: [SimulatedSocket], from sender: UnixSocket, memory: Int, time: Int64) {
    self.bytes = bytes
    self.passed = passed
    self.sender = sender
    self.memory = memory
    self.time = time
    sender.sentMemory += memory
  }

  var isReceived: Bool { received == bytes.count }

  /// The sockets stay in flight until `SimulatedKernel.receive(_:atMost:)` or `drop(_:)` has them.
  func takePassed() -> [SimulatedSocket] {
    defer { passed = [] }
    return passed
  }

  func leaveQueue() {
    sender.sentMemory -= memory
    sender.wakeIfWritable()
  }

  /// The message is lost, and so are the sockets that it passes.
  func discard(in kernel: SimulatedKernel) {
    leaveQueue()
    kernel.drop(takePassed())
  }
}

class UnixSocket: SimulatedSocket {
  var queue: [UnixMessage] = []
  /// The peer, even if it is closed.
  var connected: UnixSocket?
  var shutdown: TCPMachine.Shutdown = []
  var error: Int32 = 0
  var sentMemory = 0
  private(set) var isClosed = false
  /// Made by bind(2).
  var file: SocketFile?

  init() {
    super.init(family: SocketKind.unix)
    // net.core.wmem_default and net.core.rmem_default.
    options.sendBuffer = 212_992
    options.receiveBuffer = 212_992
  }

  var sendBuffer: Int { options.sendBuffer ?? 0 }
  /// SO_PASSCRED.
  var receivesCredentials: Bool { Int32(kernelBytes: options.value(.receivesCredentials)) != 0 }

  /// Whether there is enough room for epoll(7) to report it.
  final var hasRoom: Bool { !isListening && 4 * (sentMemory + 1) <= sendBuffer }
  final func wakeIfWritable() { if hasRoom { wake(.writable) } }

  /// The error of a send before it looks at the peer; 0 if there is room.
  final func errorOfSending() -> Int32 {
    if error != 0 { return takeError() }
    if shutdown.contains(.sending) { return Errno.brokenPipe }
    return sentMemory >= sendBuffer ? Errno.wouldBlock : 0
  }

  final func deliver(_ message: UnixMessage, to receiver: UnixSocket, in kernel: SimulatedKernel) {
    kernel.takeOff(message.passed)
    receiver.queue.append(message)
    receiver.wake(.readable)
  }

  /// Takes all messages out that this socket, or a connection that waits in it, would receive.
  func takeMessages() -> [UnixMessage] {
    defer { queue = [] }
    return queue
  }

  /// The memory that the kernel needs for a message, in bytes. `head` bytes of it are next to each other, `pages` bytes are in pages of
  /// their own.
  final func memory(head: Int, pages: Int) -> Int {
    let size = (head + 63) / 64 * 64 + 320
    let power = 1 << (Int.bitWidth - (size - 1).leadingZeroBitCount)
    return 256 + power + (pages + 4_095) / 4_096 * 4_096
  }

  // MARK: What every socket has

  override var peer: SocketAddress? { connected.map { $0.local ?? $0.unspecified } }
  override var unacknowledgedBytes: Int { sentMemory }
  override var offered: [SimulatedSocket] { queue.flatMap(\.passed) }
  override func takeError() -> Int32 {
    defer { error = 0 }
    return error
  }
  override func bind(to address: SocketAddress, in kernel: SimulatedKernel) -> Int32 {
    kernel.bind(self, toName: address)
  }
  override func disconnect(in kernel: SimulatedKernel) -> Int32 { -Errno.invalidArgument }

  override func closed(in kernel: SimulatedKernel) {
    kernel.forgetName(of: self)
    isClosed = true
    shutdown = .both
    let queue = queue
    self.queue = []
    for message in queue { message.discard(in: kernel) }
  }

  override func dismantle() {
    super.dismantle()
    file?.socket = nil
    connected = nil
    queue = []
  }
}
