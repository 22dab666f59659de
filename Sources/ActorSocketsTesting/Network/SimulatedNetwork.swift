// The network of a simulation: the kernels of its hosts, the links between them, and the packets on their way.
//
// Invariants:
// - Events happen in the order of their times; those of one time in the order in which they were scheduled.
// - What happens depends on the calls, their times and the seed only.
// - A packet reaches the host that has its destination when it arrives. If that host is down, the packet is lost.

internal import EpollReactor
internal import SocketSystem

final class SimulatedNetwork {
  enum Event {
    case arrival(Packet, host: Int)
    case timer(TCPSocket, SimulatedKernel)
    case forget(Flow, SimulatedKernel)
    /// Bytes of a datagram socket have left the host.
    case departure(UDPSocket, Int)
  }

  /// A host. Its kernel is replaced when it starts again.
  struct Node {
    let addresses: HostAddresses
    /// They stay when the host stops.
    let socketFiles = SocketFiles()
    /// `nil` while the host is down, so that no packet reaches it.
    var kernel: SimulatedKernel?
    var limits = HostLimits()
  }

  /// Between which hosts a packet travels, and what becomes of it.
  struct Journey {
    let from: Int
    let to: Int
    /// In the time of the network.
    let arrivals: [Int64]
    /// `nil` if it arrives.
    var loss: PacketView.Loss?
  }

  /// In nanoseconds. The owner sets it, and then calls `advance`.
  var now: Int64
  var currentHost: () -> Int = { 0 }
  /// In nanoseconds since 1970.
  var timeOfDay: (_ host: Int) -> Int64 = { _ in 0 }
  var observe: ((PacketEvent, Packet, Journey) -> Void)?
  /// Gets what programs send through unix sockets: the bytes, to which socket, and the number of descriptors that go with them.
  var observeUnix: (([UInt8], SocketAddress?, Int) -> Void)?

  private(set) var nodes: [Node] = []
  private var slots = KernelSlots()
  private(set) var names: [[UInt8]: Int] = [:]
  private var hosts: [SocketAddress: Int] = [:]
  private var events = TimerQueue<Event>()
  private(set) var packetsOnTheirWay = 0
  private var random: SplitMix
  var links = NetworkLinks()
  var recorders: [PacketRecorder] = []

  init(now: Int64, seed: UInt64) {
    self.now = now
    random = SplitMix(seed: seed ^ 0x6e65_7477_6f72_6b00)
  }

  // MARK: Hosts

  func addHost(_ name: String) -> Int {
    let number = nodes.count
    let addresses = HostAddresses(number: number)
    nodes.append(Node(addresses: addresses))
    addKernel(of: number)
    names[name.hostNameBytes] = number
    hosts[.ipv4(addresses.ipv4, port: 0)] = number
    hosts[.ipv6(addresses.ipv6, port: 0)] = number
    return number
  }

  /// In upper or lower case.
  func host(named name: String) -> Int? { names[name.hostNameBytes] }

  private func addKernel(of host: Int) {
    let kernel = SimulatedKernel(
      host: host, addresses: nodes[host].addresses, network: self, socketFiles: nodes[host].socketFiles,
      limits: nodes[host].limits)
    nodes[host].kernel = kernel
    slots.add(kernel)
  }

  /// `number` is that of a descriptor.
  func locate(_ number: Int32) -> (kernel: SimulatedKernel, local: Int)? { slots.locate(number) }

  func addresses(of host: Int) -> HostAddresses { nodes[host].addresses }
  func kernel(of host: Int) -> SimulatedKernel? { nodes[host].kernel }

  deinit { for node in nodes { node.kernel?.dismantle() } }

  /// The host's sockets are gone without a packet to any peer. Packets to the host are lost until it starts.
  func stop(_ host: Int) {
    guard let kernel = nodes[host].kernel.take() else { return }
    kernel.dismantle()
    slots.remove(kernel)
  }

  /// Starts a host that stopped. It knows nothing of its earlier connections.
  func start(_ host: Int) {
    if nodes[host].kernel == nil { addKernel(of: host) }
  }

  /// Closes all descriptors of a host, as when a process ends.
  func closeAll(of host: Int) {
    guard let kernel = kernel(of: host) else { return }
    kernel.closeAll()
    slots.remove(kernel)
    slots.add(kernel)
  }

  func limit(_ host: Int, to limits: HostLimits) {
    nodes[host].limits = limits
    nodes[host].limits.descriptors = min(limits.descriptors, KernelSlots.mostDescriptors)
    kernel(of: host)?.limits = nodes[host].limits
  }

  // MARK: Packets

  private func destination(_ address: SocketAddress, from host: Int) -> Int? {
    if address.isLoopback { return host }
    return hosts[address.with(port: 0)]
  }

  /// The local address for packets to `address`; `nil` if no host has that address.
  func source(for address: SocketAddress, from kernel: SimulatedKernel) -> SocketAddress? {
    let target = address.unmapped
    if !target.isOfSeveral, destination(target, from: kernel.host) == nil { return nil }
    if target.isLoopback { return target.isIPv4 ? .ipv4(.loopback, port: 0) : .ipv6(.loopback, port: 0) }
    return target.isIPv4 ? .ipv4(kernel.addresses.ipv4, port: 0) : .ipv6(kernel.addresses.ipv6, port: 0)
  }

  /// The most bytes of a stream in a packet: what the smaller MTU of the two directions leaves besides the headers.
  func segmentSize(of flow: Flow, on host: Int) -> Int {
    let headers = flow.remote.isIPv4 ? 52 : 72
    guard let peer = destination(flow.remote, from: host), peer != host else { return 65_535 - headers }
    return max(536, min(links.mtu(between: host, and: peer), 65_535) - headers)
  }

  /// A packet to a group or a broadcast address goes to all other hosts. Returns the time at which the packet has left the host.
  @discardableResult
  func send(_ packet: Packet, from host: Int) -> Int64 {
    if packet.destination.isOfSeveral {
      return nodes.indices.reduce(now) { $1 == host ? $0 : max($0, send(packet, from: host, to: $1)) }
    }
    guard let target = destination(packet.destination, from: host) else { return now }
    if target == host {
      deliver(packet, to: host)
      return now
    }
    return send(packet, from: host, to: target)
  }

  /// The middlebox between the hosts does not see the packets that it sends itself.
  private func send(_ packet: Packet, from host: Int, to target: Int, passesMiddlebox: Bool = true) -> Int64 {
    let passage = links.send(packet, from: host, to: target, passesMiddlebox: passesMiddlebox, at: now, &random)
    var journey = Journey(from: host, to: target, arrivals: passage.fate.arrivals)
    if journey.arrivals.isEmpty { journey.loss = loss(of: passage, from: host, to: target) }
    carry(packet, journey, mtu: passage.mtu)
    if let report = passage.fate.report, passesMiddlebox {
      tell(packet.source, of: report.content, from: host, to: target, at: report.arrival)
    }
    if passage.verdict == .reset, case .segment(let segment) = packet.content {
      _ = send(packet.reset(segment), from: target, to: host, passesMiddlebox: false)
    }
    return passage.fate.departure
  }

  private func loss(of passage: NetworkLinks.Passage, from host: Int, to target: Int) -> PacketView.Loss {
    if links.disturbedLink(from: host, to: target).isCut { return .cut }
    if passage.fate.report != nil { return .rejected }
    return passage.verdict == .pass ? .chance : .middlebox
  }

  private func carry(_ packet: Packet, _ journey: Journey, mtu: Int) {
    let arrivals = journey.arrivals
    observe?(PacketEvent(packet, copies: arrivals.count), packet, journey)
    for recorder in recorders {
      recorder.record(
        packet, from: journey.from, to: journey.to, mtu: mtu, at: now - VirtualThread.start, arrivals: arrivals.count)
    }
    for arrival in arrivals { schedule(.arrival(packet, host: journey.to), at: arrival) }
  }

  /// A router on the way to `target` reports to the sender that it does not forward its packet.
  private func tell(_ sender: SocketAddress, of report: ICMPReport, from host: Int, to target: Int, at arrival: Int64) {
    let router: SocketAddress =
      sender.isIPv4 ? .ipv4(HostAddresses.router.ipv4, port: 0) : .ipv6(HostAddresses.router.ipv6, port: 0)
    let packet = Packet(source: router, destination: sender.with(port: 0), content: .report(report))
    carry(packet, Journey(from: target, to: host, arrivals: [arrival]), mtu: 1_500)
  }

  /// As on Linux, a datagram of a host to itself arrives within the call that sends it.
  func deliver(_ packet: Packet, to host: Int) {
    observe?(PacketEvent(packet, copies: 1), packet, Journey(from: host, to: host, arrivals: [now]))
    if case .segment = packet.content {
      schedule(.arrival(packet, host: host), at: now)
    } else {
      kernel(of: host)?.receive(packet)
    }
  }

  func random(below limit: UInt64) -> UInt64 { random.next(upTo: limit) }

  func droppedDatagram(from source: SocketAddress, to host: Int) {
    guard let sender = destination(source, from: host), sender != host else { return }
    links.droppedDatagram(from: sender, to: host)
  }

  // MARK: Events

  var nextTime: Int64? { events.earliest }

  @discardableResult
  func schedule(_ event: Event, at time: Int64) -> TimerQueue<Event>.Key {
    if case .arrival = event { packetsOnTheirWay += 1 }
    return events.insert(at: max(time, now), event)
  }

  func cancel(_ key: TimerQueue<Event>.Key) { events.remove(key) }

  func advance() {
    while let event = events.popDue(at: now) {
      switch event {
      // A host that has started anew gets packets to its earlier connections, too: it resets them.
      case .arrival(let packet, let host):
        packetsOnTheirWay -= 1
        kernel(of: host)?.receive(packet)
      case .timer(let socket, let kernel): kernel.timerFired(of: socket)
      case .forget(let flow, let kernel): kernel.forget(flow)
      case .departure(let socket, let count): socket.departed(count)
      }
    }
  }
}
