// A simulated UDP socket: its queue, its pending error and its error queue, as udp(7) and ip(7) describe them.
//
// Invariants:
// - A datagram is received whole or not at all, and once for each time that it arrived.
// - `queuedBytes` is the memory of the datagrams that wait to be received. When it is at least the size of the receive buffer, datagrams
//   that arrive are dropped and counted.
// - `unsentBytes` is the memory of the datagrams that were sent and have not left the host. When it is at least the size of the send
//   buffer, there is no room.
// - The pending error is told once, by the next call.

internal import ActorSockets
internal import EpollReactor
internal import SocketSystem

/// Its calls are in `SimulatedKernel+Datagrams.swift`.
final class UDPSocket: SimulatedSocket {
  struct Arrived {
    let datagram: UDPDatagram
    let source: SocketAddress
    let destination: SocketAddress
    /// The time of day at the arrival, in nanoseconds since 1970.
    let time: Int64
    /// Whether IP_PKTINFO was on at the arrival. Linux notes the interface of an IPv4 datagram only then.
    var hasPacketInfo = false
  }

  struct Membership {
    let group: IPAddress
    let interface: UInt32
    /// `nil` for any source.
    var sources: [IPAddress]?
  }

  private var queue = FIFO<Arrived>()
  private var queuedBytes = 0
  private var dropped: UInt32 = 0
  private var unsentBytes = 0
  var error: Int32 = 0
  /// An entry about a call of this host itself is `nil`, because no program of the framework looks at it.
  private var errors = FIFO<ReportedError?>()
  var hasShutDownSending = false
  private var hasShutDownReceiving = false
  var memberships: [Membership] = []
  /// The source address since connect(2), if the socket is bound to a group or a broadcast address.
  var source: SocketAddress?

  /// The memory that the kernel needs for a datagram besides its bytes.
  private static var overhead: Int { 768 }
  private var receiveBuffer: Int { options.receiveBuffer ?? 0 }
  private var sendBuffer: Int { options.sendBuffer ?? 0 }

  override init(family: Int32) {
    super.init(family: family)
    // net.core.rmem_default and net.core.wmem_default.
    options.receiveBuffer = 212_992
    options.sendBuffer = 212_992
    // Linux sets it initially for the groups of the socket's own family only.
    if family == SocketKind.ipv6 { _ = options.set(.multicastAll(isIPv4: true), to: Int32(0).kernelBytes) }
  }

  // MARK: What every socket has

  override var type: Int32 { SocketKind.datagram }
  override var protocolNumber: Int32 { SocketKind.udp }
  override var isIdle: Bool { remote == nil }
  override var peer: SocketAddress? { remote }
  override var receivableBytes: Int { queue.first?.datagram.bytes.count ?? 0 }
  override var unacknowledgedBytes: Int { unsentBytes }
  override var readiness: Readiness {
    var ready = Readiness.none
    if !queue.isEmpty || hasShutDownReceiving { ready = ready.union(.readable) }
    if 2 * unsentBytes < sendBuffer { ready = ready.union(.writable) }
    if error != 0 || !errors.isEmpty { ready = ready.union(.error) }
    if hasShutDownReceiving { ready = ready.union(.peerFinished) }
    if hasShutDownReceiving, hasShutDownSending { ready = ready.union(.hangUp) }
    return ready
  }

  override func takeError() -> Int32 {
    defer { error = 0 }
    return error
  }

  override func changed(_ option: RawOption, in kernel: SimulatedKernel) {
    if option == .errors(isIPv4: true) || option == .errors(isIPv4: false), !isOn(option) { errors = FIFO() }
  }
  override func connect(to address: SocketAddress, in kernel: SimulatedKernel) -> Int32 {
    kernel.connect(self, to: address)
  }
  override func disconnect(in kernel: SimulatedKernel) -> Int32 { kernel.disconnect(self) }
  override func shutdown(isBoth: Bool, in kernel: SimulatedKernel) -> Int32 {
    hasShutDownSending = true
    if isBoth { hasShutDownReceiving = true }
    wake(TCPMachine.everyEvent)
    return remote == nil ? -Errno.notConnected : 0
  }
  override func receive(
    into memory: inout OutputSpan<UInt8>, atMost limit: Int, peeking: Bool, in kernel: SimulatedKernel
  ) -> Int {
    if error != 0 { return -Int(takeError()) }
    guard let arrived = queue.first else { return -Int(Errno.wouldBlock) }
    if !peeking { _ = takeFirst() }
    return memory.append(arrived.datagram.bytes, in: 0..<min(limit, arrived.datagram.bytes.count))
  }
  override func send(_ bytes: Span<UInt8>, in kernel: SimulatedKernel) -> Int {
    kernel.send(self, bytes, to: nil, DatagramMetadata())
  }
  override func closed(in kernel: SimulatedKernel) { kernel.freePort(of: self) }

  // MARK: Queues

  /// Returns `false` if there is no room: the datagram is dropped.
  func arrived(_ arrived: Arrived) -> Bool {
    if queuedBytes >= receiveBuffer {
      dropped &+= 1
      return false
    }
    var arrived = arrived
    arrived.hasPacketInfo =
      arrived.destination.isIPv6 || isOn(.localAddress(isIPv4: true))
      || isOn(.localAddress(isIPv4: false)) || isOn(.receivesHopLimit(isIPv4: false))
      || isOn(.receivesTrafficClass(isIPv4: false))
    queue.append(arrived)
    queuedBytes += arrived.datagram.bytes.count + Self.overhead
    wake(.readable)
    return true
  }

  func takeFirst() -> Arrived? {
    guard let arrived = queue.popFirst() else { return nil }
    queuedBytes -= arrived.datagram.bytes.count + Self.overhead
    return arrived
  }

  var isFull: Bool { unsentBytes >= sendBuffer }

  /// The datagram leaves the host later. Returns the memory that it occupies until then.
  func sent(_ count: Int) -> Int {
    unsentBytes += count + Self.overhead
    return count + Self.overhead
  }

  /// `count` is a result of `sent(_:)`.
  func departed(_ count: Int) {
    unsentBytes -= count
    if 2 * unsentBytes <= sendBuffer { wake(.writable) }
  }

  /// A host has reported an error about a datagram of this socket. With `keepsReport`, it goes into the error queue if there is room.
  func reported(_ report: ReportedError, keepsReport: Bool) {
    // The error queue uses the memory of the receive buffer. Without room, only the pending error is left.
    if keepsReport, queuedBytes + Self.overhead < receiveBuffer { errors.append(report) }
    error = report.errno
    wake(.error)
  }

  func refusedLength() {
    errors.append(nil)
    wake(.error)
  }

  /// Takes the first error. The pending error becomes that of the next entry, as in sock_dequeue_err_skb() of Linux.
  func takeReportedError() -> ReportedError? {
    while let entry = errors.popFirst() {
      if case let next?? = errors.first {
        error = next.errno
      } else if entry != nil {
        error = 0
      }
      if !errors.isEmpty { wake(.error) }
      if let entry { return entry }
    }
    return nil
  }

  /// SO_MEMINFO, of which only the number of dropped datagrams matters.
  var memoryInfo: [UInt8] { [UInt8](repeating: 0, count: 32) + Int32(bitPattern: dropped).kernelBytes }

  func number(_ option: RawOption) -> Int32 { Int32(kernelBytes: options.value(option)) }
  func isOn(_ option: RawOption) -> Bool { number(option) != 0 }
}
