// The system calls of simulated programs: which kernel and which socket they concern, and whether a fault hits them.

internal import EpollReactor
internal import SocketSystem

extension SimulatedNetwork: SimulatedSystem {
  // MARK: Descriptors

  /// The other descriptors, of files for example, are those of Linux in a simulation, too.
  func owns(_ number: Int32) -> Bool { number >= KernelSlots.firstDescriptor }

  private func withSocket<Result>(
    _ number: Int32, else failure: Result, _ body: (SimulatedKernel, SimulatedSocket) -> Result
  ) -> Result {
    find(number).map { body($0.kernel, $0.socket) } ?? failure
  }

  private func find(_ number: Int32) -> (kernel: SimulatedKernel, socket: SimulatedSocket)? {
    locate(number).flatMap { found in found.kernel.socket(at: found.local).map { (found.kernel, $0) } }
  }

  private func call(
    _ name: CallFault.Call, _ number: Int32, _ body: (SimulatedKernel, SimulatedSocket) -> Int32
  ) -> Int32 {
    withSocket(number, else: -Errno.badDescriptor) { kernel, socket in
      kernel.faults.error(of: name) ?? body(kernel, socket)
    }
  }

  private var current: SimulatedKernel? { kernel(of: currentHost()) }

  func socket(family: Int32, type: Int32) -> Int32 {
    guard let kernel = current else { return -Errno.networkDown }
    return kernel.faults.makeDescriptor(.socket) {
      kernel.globalNumber(of: kernel.makeSocket(family: family, type: type))
    }
  }

  /// The interfaces of a host never change. So this is a socket to which nothing can be sent.
  func interfaceSocket() -> Int32 { socket(family: SocketKind.ipv4, type: SocketKind.datagram) }

  func close(_ number: Int32) {
    if let (kernel, local) = locate(number) { kernel.close(local) }
  }

  func duplicate(_ number: Int32) -> Int32 {
    guard let (kernel, local) = locate(number) else { return -Errno.badDescriptor }
    return kernel.globalNumber(of: kernel.duplicate(local))
  }

  func readDescriptorLimit() -> Int { current?.limits.descriptors ?? 0 }
  func localNumber(of number: Int32) -> Int32 { Int32(locate(number)?.local ?? 0) }
  var nextLocalNumber: Int32? { current?.nextNumber.map { Int32($0) } }

  func bind(_ number: Int32, to address: SocketAddress) -> Int32 {
    call(.bind, number) { $1.bind(to: address, in: $0) }
  }

  func listen(_ number: Int32, backlog: Int32) -> Int32 {
    call(.listen, number) { $1.listen(backlog: backlog, in: $0) }
  }

  func connect(_ number: Int32, to address: SocketAddress) -> Int32 {
    call(.connect, number) { $1.connect(to: address, in: $0) }
  }

  func accept(_ number: Int32) -> (result: Int32, peer: SocketAddress?) {
    withSocket(number, else: (-Errno.badDescriptor, nil)) { kernel, socket in
      var peer: SocketAddress?
      let result = kernel.faults.makeDescriptor(.accept) {
        let accepted = socket.accept(in: kernel)
        peer = accepted.peer
        return kernel.globalNumber(of: accepted.result)
      }
      return (result, peer)
    }
  }

  func shutdown(_ number: Int32, how: Int32) -> Int32 {
    call(.shutdown, number) { $1.shutdown(isBoth: how != SocketKind.sendingSide, in: $0) }
  }

  func receive(_ number: Int32, into memory: inout OutputSpan<UInt8>, atMost limit: Int, peeking: Bool) -> Int {
    guard let (kernel, socket) = find(number) else { return -Int(Errno.badDescriptor) }
    if let error = kernel.faults.error(of: .receive) { return Int(error) }
    return socket.receive(into: &memory, atMost: limit, peeking: peeking, in: kernel)
  }

  func send(_ number: Int32, _ bytes: Span<UInt8>) -> Int {
    guard let (kernel, socket) = find(number) else { return -Int(Errno.badDescriptor) }
    if let error = kernel.faults.error(of: .send) { return Int(error) }
    return socket.send(bytes, in: kernel)
  }

  // MARK: Passing descriptors

  /// Returns a negative error if a descriptor cannot be passed. Only sockets of the same host can: the network is the only way between
  /// hosts, and the files of Linux belong to no host.
  private func sockets(_ numbers: [Int32], on kernel: SimulatedKernel) -> (sockets: [SimulatedSocket], error: Int) {
    var sockets: [SimulatedSocket] = []
    for number in numbers {
      if !owns(number) { return ([], -Int(Errno.notImplemented)) }
      guard let found = locate(number), found.kernel === kernel else { return ([], -Int(Errno.badDescriptor)) }
      if kernel.epoll(at: found.local) != nil { return ([], -Int(Errno.notImplemented)) }
      guard let socket = kernel.socket(at: found.local) else { return ([], -Int(Errno.badDescriptor)) }
      sockets.append(socket)
    }
    return (sockets, 0)
  }

  func send(_ number: Int32, _ bytes: Span<UInt8>, passing descriptor: Int32) -> Int {
    guard let (kernel, socket) = find(number) else { return -Int(Errno.badDescriptor) }
    if let error = kernel.faults.error(of: .send) { return Int(error) }
    // Other sockets ignore what they cannot pass, as those of Linux do.
    guard let socket = socket as? UnixStreamSocket else { return socket.send(bytes, in: kernel) }
    let (passed, error) = sockets([descriptor], on: kernel)
    return error < 0 ? error : socket.send(bytes, passing: passed, in: kernel)
  }

  func receive(_ number: Int32, into memory: inout OutputSpan<UInt8>) -> (count: Int, rights: ReceivedRights) {
    guard let (kernel, socket) = find(number) else { return (-Int(Errno.badDescriptor), ReceivedRights()) }
    if let error = kernel.faults.error(of: .receive) { return (Int(error), ReceivedRights()) }
    let limit = memory.freeCapacity
    guard let socket = socket as? UnixStreamSocket else {
      return (socket.receive(into: &memory, atMost: limit, peeking: false, in: kernel), ReceivedRights())
    }
    let (count, passed) = socket.receivePassed(into: &memory, atMost: limit, in: kernel)
    return (count, kernel.receive(passed, atMost: DatagramBatch.maximumDescriptors))
  }

  // MARK: Datagrams

  func send(
    _ number: Int32, _ bytes: Span<UInt8>, to address: SocketAddress?, _ metadata: DatagramMetadata?,
    passing descriptors: [Int32]
  ) -> Int {
    guard let (kernel, socket) = find(number) else { return -Int(Errno.badDescriptor) }
    if let error = kernel.faults.error(of: .send) { return Int(error) }
    if let socket = socket as? UnixDatagramSocket {
      let (passed, error) = sockets(descriptors, on: kernel)
      return error < 0 ? error : socket.send(bytes, to: address, passing: passed, in: kernel)
    }
    guard let socket = socket as? UDPSocket else { return socket.send(bytes, in: kernel) }
    return kernel.send(socket, bytes, to: address, metadata ?? DatagramMetadata())
  }

  func receiveDatagram(_ number: Int32, descriptors most: Int) -> (result: Int32, datagram: ReceivedDatagram?) {
    guard let (kernel, socket) = find(number) else { return (-Errno.badDescriptor, nil) }
    if let error = kernel.faults.error(of: .receive) { return (error, nil) }
    if let socket = socket as? UnixDatagramSocket { return socket.receive(descriptors: most, in: kernel) }
    guard let socket = socket as? UDPSocket else { return (-Errno.notSupported, nil) }
    return kernel.receive(socket)
  }

  func disconnect(_ number: Int32) -> Int32 { call(.connect, number) { $1.disconnect(in: $0) } }

  func changeMembership(
    _ number: Int32, joins: Bool, group: IPAddress, source: IPAddress?, interface: UInt32
  ) -> Int32 {
    withSocket(number, else: -Errno.badDescriptor) { kernel, socket in
      guard let socket = socket as? UDPSocket else { return -Errno.noProtocolOption }
      return kernel.changeMembership(socket, joins: joins, group, source: source, interface)
    }
  }

  func isMember(_ number: Int32, of group: IPAddress, source: IPAddress?, interface: UInt32) -> Bool {
    withSocket(number, else: false) { ($1 as? UDPSocket)?.isMember(of: group, source: source, interface) == true }
  }

  func takeReportedError(_ number: Int32) -> ReportedError? {
    withSocket(number, else: nil) { ($1 as? UDPSocket)?.takeReportedError() }
  }

  func interfaces() -> [NetworkInterface] { current?.interfaces ?? [] }

  // MARK: Files

  func inode(of path: UnixPath) -> UInt64? {
    // No two hosts have a file with the same number.
    current.flatMap { kernel in kernel.socketFiles[path].map { UInt64(kernel.host) << 32 | $0.inode } }
  }

  func probe(_ path: UnixPath) -> Int32 {
    guard let kernel = current else { return -Errno.networkDown }
    return switch kernel.socket(named: path, type: SocketKind.datagram) {
    case .failure(let error): -error.errno
    case .success: 0
    }
  }

  func unlink(_ path: UnixPath) -> Int32 {
    guard let kernel = current else { return -Errno.networkDown }
    return kernel.socketFiles.remove(path) ? 0 : -Errno.noSuchFile
  }

  // MARK: Names, options and numbers

  func address(of number: Int32, isPeer: Bool) -> (result: Int32, address: SocketAddress?) {
    withSocket(number, else: (-Errno.badDescriptor, nil)) { $0.address(of: $1, isPeer: isPeer) }
  }

  func setOption(_ option: RawOption, of number: Int32, to value: [UInt8]) -> Int32 {
    withSocket(number, else: -Errno.badDescriptor) { $0.setOption(option, of: $1, to: value) }
  }

  func option(_ option: RawOption, of number: Int32, atMost count: Int) -> (result: Int32, value: [UInt8]) {
    withSocket(number, else: (-Errno.badDescriptor, [])) { kernel, socket in
      let (result, value) = kernel.option(option, of: socket)
      return (result, Array(value.prefix(count)))
    }
  }

  func tcpInfo(of number: Int32) -> (result: Int32, info: TCPInfo?) {
    withSocket(number, else: (-Errno.badDescriptor, nil)) { kernel, socket in
      guard let socket = socket as? TCPSocket else { return (-Errno.noProtocolOption, nil) }
      return (0, kernel.tcpInfo(of: socket))
    }
  }

  func isReadable(_ number: Int32) -> Bool { withSocket(number, else: false) { $1.readiness.contains(.readable) } }
  func receivableBytes(_ number: Int32) -> Int { withSocket(number, else: 0) { $1.receivableBytes } }
  func unacknowledgedBytes(_ number: Int32) -> Int { withSocket(number, else: 0) { $1.unacknowledgedBytes } }

  func makePoller(_ wake: @escaping @Sendable () -> Void) throws(SystemError) -> any Poller {
    guard let kernel = current else { throw SystemError(call: "epoll_create1", errno: Errno.networkDown) }
    let number = kernel.globalNumber(of: kernel.createEpoll(whenReady: wake))
    if number < 0 { throw SystemError(call: "epoll_create1", errno: -number) }
    return SimulatedPoller(OwnedDescriptor(owning: number), self, wake)
  }

  fileprivate func watch(_ number: Int32, with epoll: Int32, token: UInt64, interest: Readiness, isNew: Bool) -> Int32 {
    // Nothing would wait for the events of a real descriptor.
    if !owns(number) { return -Errno.notPermitted }
    guard let (kernel, local) = locate(number), let found = locate(epoll), found.kernel === kernel else {
      return -Errno.badDescriptor
    }
    return kernel.watch(local, with: found.local, token: token, interest: interest, isNew: isNew)
  }

  fileprivate func stopWatching(_ number: Int32, with epoll: Int32) {
    if let (kernel, local) = locate(number), let found = locate(epoll) {
      kernel.stopWatching(local, with: found.local)
    }
  }

  fileprivate func takeEvents(of epoll: Int32, into events: inout EventBuffer, atMost limit: Int) -> Int {
    guard let (kernel, local) = locate(epoll), let epoll = kernel.epoll(at: local) else { return 0 }
    let count = epoll.take(into: &events, atMost: limit)
    guard count < limit, let watch = kernel.spuriousEvent(of: epoll) else { return count }
    events[count] = (watch.token, FaultPlan.spuriousReadiness(watch.interest))
    return count + 1
  }

  func addresses(of name: String, isIPv4: Bool) throws(NameLookupError) -> [SocketAddress] {
    let key = name.hostNameBytes
    if key.elementsEqual("localhost".utf8) { return [isIPv4 ? .ipv4(.loopback, port: 0) : .ipv6(.loopback, port: 0)] }
    guard let host = names[key] else { throw .unknownName }
    let addresses = nodes[host].addresses
    return [isIPv4 ? .ipv4(addresses.ipv4, port: 0) : .ipv6(addresses.ipv6, port: 0)]
  }
}

/// The poller of a simulated reactor, which waits for nothing: its driver is woken when there are events.
private final class SimulatedPoller: Poller {
  private let epoll: OwnedDescriptor
  /// Weak, because a reactor may outlive the simulation.
  private weak let network: SimulatedNetwork?
  private let wakeDriver: @Sendable () -> Void

  init(_ epoll: consuming OwnedDescriptor, _ network: SimulatedNetwork, _ wakeDriver: @escaping @Sendable () -> Void) {
    self.epoll = epoll
    self.network = network
    self.wakeDriver = wakeDriver
  }

  func add(_ number: Int32, token: UInt64, interest: Readiness) throws(SystemError) {
    try watch(number, token, interest, isNew: true)
  }

  func change(_ number: Int32, token: UInt64, interest: Readiness) throws(SystemError) {
    try watch(number, token, interest, isNew: false)
  }

  private func watch(_ number: Int32, _ token: UInt64, _ interest: Readiness, isNew: Bool) throws(SystemError) {
    let result =
      network?.watch(number, with: epoll.number, token: token, interest: interest, isNew: isNew) ?? -Errno.badDescriptor
    if result < 0 { throw SystemError(call: "epoll_ctl", errno: -result) }
  }

  func remove(_ number: Int32) { network?.stopWatching(number, with: epoll.number) }

  func wait(_ events: inout EventBuffer, atMost limit: Int, nanoseconds: Int64) -> Int {
    network?.takeEvents(of: epoll.number, into: &events, atMost: limit) ?? 0
  }

  func wake() { wakeDriver() }
}
