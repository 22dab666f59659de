// The kernel with faults: it passes the calls of a reactor's TCP sockets on to Linux, and a `FaultPlan` decides which of them fail.
//
// Invariants:
// - The number of a descriptor here is `SimulatedDescriptors.firstOfKernel` plus the kernel's. So no table connects the two, and closing
//   works on every thread.
// - Only TCP sockets have such numbers. Other descriptors that the thread makes or registers have those of the kernel, and no faults.
// - epoll is edge-triggered, and a program may conclude from a short transfer that there is no more. So after a transfer that was cut
//   short, the socket is reported once more (`again`), as if the rest had become possible right behind it.
// - Nothing here waits or is called while `state` is locked.

internal import EpollReactor
internal import SocketSystem

/// The kernel with faults, for the thread of one reactor and for threads that make sockets for it.
final class FaultySystem: SimulatedSystem, Sendable {
  private struct Watch {
    let number: Int32
    let token: UInt64
    let interest: Readiness
  }

  private struct State {
    var plan: FaultPlan
    /// The sockets in epoll, in the order in which they were added.
    var watches: [Watch] = []
    /// The events that the next look reports besides those of the kernel.
    var again: [(number: Int32, readiness: Readiness)] = []
    /// The most sockets that may be open.
    var limit = Int.max
    var openSockets = 0

    /// The error of a call that makes a socket; `nil` if it makes one.
    mutating func error(ofMaking call: CallFault.Call) -> Int32? {
      plan.error(of: call) ?? (openSockets >= limit ? -Errno.processDescriptors : nil)
    }
  }

  private let state: Locked<State>
  private let epoll: Epoll

  init(_ plan: FaultPlan) throws(SystemError) {
    state = Locked(State(plan: plan))
    epoll = try Epoll()
  }

  func setPlan(_ plan: FaultPlan) { state.withLock { $0.plan = plan } }
  func setLimit(_ limit: Int) { state.withLock { $0.limit = limit } }

  private func kernel(_ number: Int32) -> BorrowedDescriptor {
    BorrowedDescriptor(BorrowedDescriptor(number).kernelNumber)
  }

  /// Makes a call on a socket, unless a fault hits it.
  private func call(
    _ name: CallFault.Call, _ number: Int32, _ body: (BorrowedDescriptor) throws(SystemError) -> Int32
  ) -> Int32 {
    if let error = state.withLock({ $0.plan.error(of: name) }) { return error }
    return result { () throws(SystemError) in try body(kernel(number)) }
  }

  private func result(_ body: () throws(SystemError) -> Int32) -> Int32 {
    do throws(SystemError) { return try body() } catch { return -error.errno }
  }

  private static func count(_ transfer: Transfer) -> Int {
    switch transfer {
    case .bytes(let count): count
    case .wouldBlock: -Int(Errno.wouldBlock)
    case .failed(let error): -Int(error.errno)
    }
  }

  // MARK: Descriptors

  /// Takes a new TCP socket, and returns its number here.
  private func take(_ descriptor: consuming OwnedDescriptor) -> Int32 {
    state.withLock { $0.openSockets += 1 }
    return SimulatedDescriptors.firstOfKernel + descriptor.release()
  }

  func socket(family: Int32, type: Int32) -> Int32 {
    let isTCP = type == SocketKind.stream && (family == SocketKind.ipv4 || family == SocketKind.ipv6)
    if isTCP, let error = state.withLock({ $0.error(ofMaking: .socket) }) { return error }
    return SimulatedDescriptors.using(nil) {
      result { () throws(SystemError) in
        if isTCP { return take(try .streamSocket(family: family)) }
        return try type == SocketKind.stream
          ? OwnedDescriptor.streamSocket(family: family).release()
          : OwnedDescriptor.datagramSocket(family: family).release()
      }
    }
  }

  /// Forgets the descriptor. `OwnedDescriptor` closes it.
  func close(_ number: Int32) {
    if number < SimulatedDescriptors.firstOfKernel { return }
    state.withLock { state in
      state.openSockets -= 1
      state.watches.removeAll { $0.number == number }
      state.again.removeAll { $0.number == number }
    }
  }

  var descriptorLimit: Int { SimulatedDescriptors.using(nil) { DescriptorReserve.refresh().limit } }
  func localNumber(of number: Int32) -> Int32 { kernel(number).number }

  var nextLocalNumber: Int32? {
    let number = SimulatedDescriptors.using(nil) {
      result { () throws(SystemError) in try OwnedDescriptor.streamSocket(family: SocketKind.ipv4).number }
    }
    return number >= 0 ? number : nil
  }

  // MARK: Calls

  func bind(_ number: Int32, to address: SocketAddress) -> Int32 {
    call(.bind, number) { (socket) throws(SystemError) in
      try socket.bind(to: address)
      return 0
    }
  }

  func listen(_ number: Int32, backlog: Int32) -> Int32 {
    call(.listen, number) { (socket) throws(SystemError) in
      try socket.listen(backlog: backlog)
      return 0
    }
  }

  func connect(_ number: Int32, to address: SocketAddress) -> Int32 {
    call(.connect, number) { (socket) throws(SystemError) in
      try socket.connect(to: address) ? 0 : -Errno.inProgress
    }
  }

  func accept(_ number: Int32) -> (result: Int32, peer: SocketAddress?) {
    if let error = state.withLock({ $0.error(ofMaking: .accept) }) { return (error, nil) }
    do throws(SystemError) {
      guard let accepted = try kernel(number).accept() else { return (-Errno.wouldBlock, nil) }
      let peer = accepted.peer
      return (take(accepted.take()), peer)
    } catch {
      return (-error.errno, nil)
    }
  }

  func shutdown(_ number: Int32, how: Int32) -> Int32 {
    call(.shutdown, number) { (socket) throws(SystemError) in
      if how == SocketKind.sendingSide { try socket.shutdownWriting() } else { try socket.shutdownBoth() }
      return 0
    }
  }

  func receive(_ number: Int32, into memory: inout OutputSpan<UInt8>, atMost limit: Int, peeking: Bool) -> Int {
    let asked = min(limit, memory.freeCapacity)
    let waiting = kernel(number).receivableBytes()
    let (error, count) = state.withLock { state in
      (state.plan.error(of: .receive), state.plan.shortened(min(asked, waiting), isRead: true))
    }
    if let error { return Int(error) }
    let isShort = count < min(asked, waiting)
    var bytes: [UInt8] = []
    let most = isShort ? count : asked
    let received = Self.count(
      peeking
        ? kernel(number).peek(into: &bytes, atMost: most)
        : kernel(number).receive(appendingTo: &bytes, atMost: most))
    memory.append(bytes, in: bytes.indices)
    if isShort, !peeking { state.withLock { $0.again.append((number, .readable)) } }
    return received
  }

  func send(_ number: Int32, _ bytes: Span<UInt8>) -> Int {
    let (error, count) = state.withLock { state in
      (state.plan.error(of: .send), state.plan.shortened(bytes.count, isRead: false))
    }
    if let error { return Int(error) }
    let sent = Self.count(kernel(number).send(bytes.extracting(first: count)))
    if count < bytes.count { state.withLock { $0.again.append((number, .writable)) } }
    return sent
  }

  // MARK: Questions and options

  func address(of number: Int32, isPeer: Bool) -> (result: Int32, address: SocketAddress?) {
    do throws(SystemError) {
      return (0, isPeer ? try kernel(number).remoteAddress() : try kernel(number).localAddress())
    } catch {
      return (-error.errno, nil)
    }
  }

  func setOption(_ option: RawOption, of number: Int32, to value: [UInt8]) -> Int32 {
    result { () throws(SystemError) in
      try kernel(number).set(option, to: value)
      return 0
    }
  }

  func option(_ option: RawOption, of number: Int32) -> (result: Int32, value: [UInt8]) {
    do throws(SystemError) { return (0, try kernel(number).get(option, atMost: 256)) } catch {
      return (-error.errno, [])
    }
  }

  func tcpInfo(of number: Int32) -> (result: Int32, info: TCPInfo?) {
    do throws(SystemError) { return (0, try kernel(number).tcpInfo()) } catch { return (-error.errno, nil) }
  }

  func receivableBytes(_ number: Int32) -> Int { kernel(number).receivableBytes() }
  func unacknowledgedBytes(_ number: Int32) -> Int { kernel(number).unacknowledgedBytes() }

  // MARK: Events

  /// There is one epoll instance, which this object owns. Its number here stands for nothing that could be closed.
  func createEpoll(whenReady: @escaping () -> Void) -> Int32 { SimulatedDescriptors.first }

  func watch(_ number: Int32, with epoll: Int32, token: UInt64, interest: Readiness, isNew: Bool) -> Int32 {
    let real = kernel(number).number
    let result = result { () throws(SystemError) in
      if isNew {
        try self.epoll.add(real, token: token, readableOnly: !interest.contains(.writable))
      } else {
        try self.epoll.setToken(token, of: real)
      }
      return 0
    }
    if result < 0 || number < SimulatedDescriptors.firstOfKernel { return result }
    let watch = Watch(number: number, token: token, interest: interest)
    state.withLock { state in
      if let index = state.watches.firstIndex(where: { $0.number == number }) {
        state.watches[index] = watch
      } else {
        state.watches.append(watch)
      }
    }
    return result
  }

  func stopWatching(_ number: Int32, with epoll: Int32) {
    self.epoll.remove(kernel(number).number)
    state.withLock { $0.watches.removeAll { $0.number == number } }
  }

  func waitForEvents(
    of epoll: Int32, into events: inout EventBuffer, atMost limit: Int, nanoseconds: Int64
  ) -> Int {
    let mayWait = state.withLock { $0.again.isEmpty }
    let count = self.epoll.wait(&events, atMost: limit, nanoseconds: mayWait ? nanoseconds : 0)
    let more = state.withLock { Self.moreEvents(&$0, besides: count, atMost: limit) }
    for (index, event) in more.enumerated() { events[count + index] = event }
    return count + more.count
  }

  /// The events that are reported besides those of the kernel.
  private static func moreEvents(
    _ state: inout State, besides count: Int, atMost limit: Int
  ) -> [(token: UInt64, readiness: Readiness)] {
    var more: [(token: UInt64, readiness: Readiness)] = []
    let due = state.again.prefix(limit - count)
    state.again.removeFirst(due.count)
    for (number, readiness) in due {
      guard let watch = state.watches.first(where: { $0.number == number }) else { continue }
      more.append((watch.token, readiness))
    }
    guard count + more.count < limit, let index = state.plan.spurious(of: state.watches.count) else { return more }
    let watch = state.watches[index]
    more.append((watch.token, FaultPlan.spuriousReadiness(watch.interest)))
    return more
  }

  // MARK: Names

  func addresses(of name: String, isIPv4: Bool) -> [SocketAddress] {
    SimulatedDescriptors.using(nil) { (try? lookUpAddresses(of: name, isIPv4: isIPv4)) ?? [] }
  }

  var interfaces: [NetworkInterface] { SimulatedDescriptors.using(nil) { (try? NetworkInterface.all()) ?? [] } }
}

// MARK: - Datagrams and unix sockets

/// Datagram and unix sockets have the numbers of the kernel, so none of these is called.
extension FaultySystem {
  var hasSocketFiles: Bool { false }
  func inode(of path: UnixPath) -> UInt64? { nil }
  func unlink(_ path: UnixPath) -> Int32 { -Errno.notSupported }

  func send(_ number: Int32, _ bytes: Span<UInt8>, to address: SocketAddress?, _ metadata: DatagramMetadata?) -> Int {
    -Int(Errno.notSupported)
  }

  func receiveDatagram(_ number: Int32) -> (result: Int32, datagram: SimulatedDatagram?) { (-Errno.notSupported, nil) }
  func disconnect(_ number: Int32) -> Int32 { -Errno.notSupported }

  func changeMembership(
    _ number: Int32, joins: Bool, group: IPAddress, source: IPAddress?, interface: UInt32
  ) -> Int32 {
    -Errno.notSupported
  }

  func takeReportedError(_ number: Int32) -> ReportedError? { nil }
}
