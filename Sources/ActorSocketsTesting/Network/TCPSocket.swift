internal import EpollReactor
internal import SocketSystem

/// Its calls are in `SimulatedKernel+Streams.swift`.
final class TCPSocket: SimulatedSocket {
  enum Role {
    case fresh
    case listening(Backlog)
    /// Has begun to connect, or was accepted.
    case stream
  }

  struct Backlog {
    var limit: Int
    var waiting: [TCPSocket] = []
    var isFull: Bool { waiting.count > limit }
  }

  /// The progress of connect(2), as its caller knows it: the state of struct socket of Linux.
  enum Connecting {
    /// It was not called, or has failed.
    case new
    case underWay
    /// The caller knows that the connection is up, or got it from accept4(2).
    case done
    /// It failed, and shutdown(2) was called.
    case shutDown
  }

  var role = Role.fresh
  /// The ends of the connection, while its packets reach this socket.
  var flow: Flow?
  var machine = TCPMachine()
  /// The socket whose backlog has or had this connection.
  weak var listener: TCPSocket?
  var connecting = Connecting.new
  var timer: (key: TimerQueue<SimulatedNetwork.Event>.Key, time: Int64)?

  var isFresh: Bool { if case .fresh = role { true } else { false } }
  var isStream: Bool { if case .stream = role { true } else { false } }

  var backlog: Backlog {
    get { if case .listening(let backlog) = role { backlog } else { Backlog(limit: 0) } }
    set { role = .listening(newValue) }
  }

  // MARK: What every socket has

  override var protocolNumber: Int32 { SocketKind.tcp }
  override var isListening: Bool { if case .listening = role { true } else { false } }
  override var isIdle: Bool { !isListening && machine.state == .closed }
  override var peer: SocketAddress? {
    isStream && machine.state != .closed && machine.state != .synSent ? remote : nil
  }
  override var readiness: Readiness {
    if case .listening(let backlog) = role { return backlog.waiting.isEmpty ? .none : .readable }
    return machine.readiness
  }
  override var receivableBytes: Int { machine.receiving.bytes.count }
  override var unacknowledgedBytes: Int {
    if machine.state == .closed || machine.state == .synSent { return 0 }
    // The end of the stream counts as a byte until it is acknowledged.
    return machine.sending.bytes.count + (machine.sending.hasFinished && machine.maySend ? 1 : 0)
  }

  override func wantsRoom() { machine.sending.wantsRoom = true }
  /// As on Linux, SO_ERROR also reads and clears what a router has reported.
  override func takeError() -> Int32 {
    let error = machine.takeError()
    if error != 0 { return error }
    defer { machine.softError = 0 }
    return machine.softError
  }
  override func changed(_ option: RawOption, in kernel: SimulatedKernel) {
    options.apply(to: &machine)
    if flow == nil { return }
    // What waited to be joined with more need not wait any longer.
    if option == .noDelay { machine.transmit(at: kernel.now) }
    kernel.carryOut(self)
  }

  override func listen(backlog: Int32, in kernel: SimulatedKernel) -> Int32 { kernel.listen(self, backlog: backlog) }
  override func connect(to address: SocketAddress, in kernel: SimulatedKernel) -> Int32 {
    kernel.connect(self, to: address)
  }
  override func accept(in kernel: SimulatedKernel) -> (result: Int32, peer: SocketAddress?) { kernel.accept(self) }
  override func shutdown(isBoth: Bool, in kernel: SimulatedKernel) -> Int32 { kernel.shutdown(self, isBoth: isBoth) }
  override func receive(
    into memory: inout OutputSpan<UInt8>, atMost limit: Int, peeking: Bool, in kernel: SimulatedKernel
  ) -> Int { kernel.receive(self, into: &memory, atMost: limit, peeking: peeking) }
  override func send(_ bytes: Span<UInt8>, in kernel: SimulatedKernel) -> Int { kernel.send(self, bytes) }
  override func closed(in kernel: SimulatedKernel) { kernel.closed(self) }
}
