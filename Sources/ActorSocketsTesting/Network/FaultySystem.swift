// The kernel with faults: it passes the calls of a reactor's sockets on to Linux, and a `FaultPlan` decides which of them fail.
//
// Invariants:
// - The number of a descriptor here is `SimulatedDescriptors.firstOfKernel` plus the kernel's. So no table connects the two, and closing
//   works on every thread.
// - Sockets that were made or accepted through this system have such numbers. Other descriptors that the thread makes or registers have
//   those of the kernel, and no faults.
// - The kernel makes the transfers of datagrams and of descriptors itself, for a whole batch, and with all that it can: UDP_SEGMENT,
//   UDP_GRO, SCM_RIGHTS. Each is preceded by a question whether a fault hits it (`allowance`). So a fault hits a batch as a whole, and a
//   descriptor is never lost: a call that fails passes none, and a short one passes it with the first byte.
// - epoll is edge-triggered, and a program may conclude from a short transfer that there is no more. So after a transfer that was cut
//   short, the socket is reported once more (`again`), as if the rest had become possible right behind it.
// - Nothing here waits while `state` is locked. Of the kernel's calls, socket(2) and accept4(2) are made while it is locked, so that each
//   descriptor counts once, whichever threads make them.

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

    /// Makes a call that makes a socket, unless a fault hits it or the limit is reached.
    mutating func makeSocket(_ call: CallFault.Call, _ body: () -> Int32) -> Int32 {
      let isFull = openSockets >= limit
      let result = plan.makeDescriptor(call) { isFull ? -Errno.processDescriptors : body() }
      if result >= 0 { openSockets += 1 }
      return result
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

  /// Takes a new socket, and returns its number here.
  private static func take(_ descriptor: consuming OwnedDescriptor) -> Int32 {
    SimulatedDescriptors.firstOfKernel + descriptor.release()
  }

  func socket(family: Int32, type: Int32) -> Int32 {
    state.withLock { state in
      state.makeSocket(.socket) {
        SimulatedDescriptors.using(nil) {
          result { () throws(SystemError) in
            Self.take(
              try type == SocketKind.stream ? .streamSocket(family: family) : .datagramSocket(family: family))
          }
        }
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
      if address == .unix(.unnamed) { try socket.bindToFreeName() } else { try socket.bind(to: address) }
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
    state.withLock { state in
      var peer: SocketAddress?
      let made = state.makeSocket(.accept) {
        result { () throws(SystemError) in
          guard let accepted = try kernel(number).accept() else { return -Errno.wouldBlock }
          peer = accepted.peer
          return Self.take(accepted.take())
        }
      }
      return (made, peer)
    }
  }

  func shutdown(_ number: Int32, how: Int32) -> Int32 {
    call(.shutdown, number) { (socket) throws(SystemError) in
      if how == SocketKind.sendingSide { try socket.shutdownWriting() } else { try socket.shutdownBoth() }
      return 0
    }
  }

  func receive(_ number: Int32, into memory: inout OutputSpan<UInt8>, atMost limit: Int, peeking: Bool) -> Int {
    let allowed = allowance(number, atMost: min(limit, memory.freeCapacity), isReceive: true, again: !peeking)
    if allowed < 0 { return allowed }
    var bytes: [UInt8] = []
    let received = Self.count(
      peeking
        ? kernel(number).peek(into: &bytes, atMost: allowed)
        : kernel(number).receive(appendingTo: &bytes, atMost: allowed))
    memory.append(bytes, in: bytes.indices)
    return received
  }

  func send(_ number: Int32, _ bytes: Span<UInt8>) -> Int {
    let allowed = allowance(number, atMost: bytes.count, isReceive: false, again: true)
    return allowed < 0 ? allowed : Self.count(kernel(number).send(bytes.extracting(first: allowed)))
  }

  func allowance(ofTransfer number: Int32, atMost count: Int, isReceive: Bool) -> Int {
    allowance(number, atMost: count, isReceive: isReceive, again: true)
  }

  /// The bytes that a transfer may move, or the negative error of a fault. If they are fewer than it could move, the socket is reported
  /// once more, if that is asked for.
  private func allowance(_ number: Int32, atMost asked: Int, isReceive: Bool, again: Bool) -> Int {
    let possible = isReceive && asked > 1 ? min(asked, kernel(number).receivableBytes()) : asked
    return state.withLock { state in
      if let error = state.plan.error(of: isReceive ? .receive : .send) { return Int(error) }
      let count = state.plan.shortened(possible, isRead: isReceive)
      if count == possible { return asked }
      if again { state.again.append((number, isReceive ? .readable : .writable)) }
      return count
    }
  }

  // MARK: Datagrams

  func send(
    _ number: Int32, _ bytes: Span<UInt8>, to address: SocketAddress?, _ metadata: DatagramMetadata?,
    passing descriptors: [Int32]
  ) -> Int {
    let allowed = allowance(ofTransfer: number, atMost: 1, isReceive: false)
    return allowed < 0 ? allowed : Self.count(kernel(number).send(bytes, to: address))
  }

  /// The kernel receives them by the batch.
  func receiveDatagram(_ number: Int32, descriptors most: Int) -> (result: Int32, datagram: SimulatedDatagram?) {
    (-Errno.notSupported, nil)
  }

  func disconnect(_ number: Int32) -> Int32 {
    call(.connect, number) { (socket) throws(SystemError) in
      try socket.disconnect()
      return 0
    }
  }

  func changeMembership(
    _ number: Int32, joins: Bool, group: IPAddress, source: IPAddress?, interface: UInt32
  ) -> Int32 {
    result { () throws(SystemError) in
      try kernel(number).changeMembership(joins: joins, group: group, source: source, interface: interface)
      return 0
    }
  }

  func isMember(_ number: Int32, of group: IPAddress, source: IPAddress?, interface: UInt32) -> Bool {
    kernel(number).isMember(of: group, source: source, interface: interface)
  }

  func takeReportedError(_ number: Int32) -> ReportedError? { kernel(number).takeReportedError() }

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

  // MARK: Files

  var hasSocketFiles: Bool { false }
  func inode(of path: UnixPath) -> UInt64? { nil }
  func unlink(_ path: UnixPath) -> Int32 { -Errno.notSupported }

  // MARK: Descriptors

  // The kernel duplicates its descriptors and passes them, after a question about the allowance. So these are not called.

  func duplicate(_ number: Int32) -> Int32 { -Errno.notSupported }
  func send(_ number: Int32, _ bytes: Span<UInt8>, passing descriptors: [Int32]) -> Int { -Int(Errno.notSupported) }
  func receive(
    _ number: Int32, into memory: inout OutputSpan<UInt8>, descriptors most: Int
  ) -> (count: Int, rights: SimulatedRights) { (-Int(Errno.notSupported), SimulatedRights()) }
}
