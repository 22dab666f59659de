// A system with faults: it passes calls on to another system, and a `FaultPlan` decides which of them fail.
//
// Invariants:
// - Faults hit the sockets that were made or accepted through this system, and are still in it: those in `sockets`. Other descriptors that
//   the thread uses are those of the other system, and have no faults.
// - Questions have no faults, and neither do names, files and options.
// - A call that sends or receives several datagrams is one call: a fault hits the batch as a whole. A descriptor is never lost: a call
//   that fails passes no descriptor, and a short one passes it with the first byte.
// - Pollers are edge-triggered, and a program may conclude from a short transfer that there is no more. So after a transfer that was cut
//   short, the socket is reported once more (`again`), as if the rest had become possible right after it.
// - Nothing here waits while `state` is locked. Of the other system's calls, socket(2) and accept4(2) are made while it is locked, so that
//   each descriptor counts once, whichever threads make them.

internal import EpollReactor
internal import SocketSystem

/// The faults of a `FaultySystem`. Any thread can change them.
final class Faults: Sendable {
  fileprivate struct Watch {
    let number: Int32
    let token: UInt64
    let interest: Readiness
  }

  fileprivate struct State {
    var plan: FaultPlan
    var sockets: Set<Int32> = []
    /// Those in the poller, in the order in which they were added.
    var watches: [Watch] = []
    /// Events that the next wait reports besides those of the other system.
    var again: [(number: Int32, readiness: Readiness)] = []
    var limit = Int.max

    mutating func makeSocket(_ call: CallFault.Call, _ body: () -> Int32) -> Int32 {
      let isFull = sockets.count >= limit
      let result = plan.makeDescriptor(call) { isFull ? -Errno.processDescriptors : body() }
      if result >= 0 { sockets.insert(result) }
      return result
    }

    mutating func forget(_ number: Int32) {
      sockets.remove(number)
      watches.removeAll { $0.number == number }
      again.removeAll { $0.number == number }
    }

    mutating func watch(_ number: Int32, _ token: UInt64, _ interest: Readiness) {
      if !sockets.contains(number) { return }
      let watch = Watch(number: number, token: token, interest: interest)
      if let index = watches.firstIndex(where: { $0.number == number }) {
        watches[index] = watch
      } else {
        watches.append(watch)
      }
    }

    mutating func moreEvents(atMost limit: Int) -> [(token: UInt64, readiness: Readiness)] {
      var more: [(token: UInt64, readiness: Readiness)] = []
      let due = again.prefix(limit)
      again.removeFirst(due.count)
      for (number, readiness) in due {
        guard let watch = watches.first(where: { $0.number == number }) else { continue }
        more.append((watch.token, readiness))
      }
      guard more.count < limit, let index = plan.spurious(of: watches.count) else { return more }
      let watch = watches[index]
      more.append((watch.token, FaultPlan.spuriousReadiness(watch.interest)))
      return more
    }
  }

  fileprivate let state: Locked<State>

  init(_ plan: FaultPlan) { state = Locked(State(plan: plan)) }

  func setPlan(_ plan: FaultPlan) { state.withLock { $0.plan = plan } }
  func setLimit(_ limit: Int) { state.withLock { $0.limit = limit } }
}

/// For the thread of one reactor, and for threads that make sockets for it.
struct FaultySystem<Base: SystemCalls>: SystemCalls {
  private let base: Base
  private let state: Locked<Faults.State>

  init(_ faults: Faults, over base: Base) {
    self.base = base
    state = faults.state
  }

  var mayWaitForThreads: Bool { base.mayWaitForThreads }
  func owns(_ number: Int32) -> Bool { base.owns(number) }

  private func call(_ name: CallFault.Call, _ number: Int32, _ body: () -> Int32) -> Int32 {
    state.withLock { $0.sockets.contains(number) ? $0.plan.error(of: name) : nil } ?? body()
  }

  // MARK: Descriptors

  func socket(family: Int32, type: Int32) -> Int32 {
    state.withLock { $0.makeSocket(.socket) { base.socket(family: family, type: type) } }
  }

  func interfaceSocket() -> Int32 { state.withLock { $0.makeSocket(.socket) { base.interfaceSocket() } } }

  func close(_ number: Int32) {
    forget(number)
    base.close(number)
  }

  func duplicate(_ number: Int32) -> Int32 { base.duplicate(number) }
  func prepare(_ number: Int32, nonblocking: Bool) -> Int32 { base.prepare(number, nonblocking: nonblocking) }
  func forget(_ number: Int32) { state.withLock { $0.forget(number) } }
  func readDescriptorLimit() -> Int { base.readDescriptorLimit() }
  func isReserved(_ number: Int32) -> Bool { base.isReserved(number) }
  func leavesReserve(_ number: Int32) -> Bool { base.leavesReserve(number) }

  // MARK: Sockets

  func bind(_ number: Int32, to address: SocketAddress) -> Int32 {
    call(.bind, number) { base.bind(number, to: address) }
  }

  func listen(_ number: Int32, backlog: Int32) -> Int32 {
    call(.listen, number) { base.listen(number, backlog: backlog) }
  }

  func connect(_ number: Int32, to address: SocketAddress) -> Int32 {
    call(.connect, number) { base.connect(number, to: address) }
  }

  func disconnect(_ number: Int32) -> Int32 { call(.connect, number) { base.disconnect(number) } }
  func reset(_ number: Int32) -> Int32 { base.reset(number) }

  func accept(_ number: Int32) -> (result: Int32, peer: SocketAddress?) {
    var peer: SocketAddress?
    let result = state.withLock { state in
      state.makeSocket(.accept) {
        let accepted = base.accept(number)
        peer = accepted.peer
        return accepted.result
      }
    }
    return (result, peer)
  }

  func shutdown(_ number: Int32, how: Int32) -> Int32 {
    call(.shutdown, number) { base.shutdown(number, how: how) }
  }

  func address(of number: Int32, isPeer: Bool) -> (result: Int32, address: SocketAddress?) {
    base.address(of: number, isPeer: isPeer)
  }

  func isReadable(_ number: Int32) -> Bool { base.isReadable(number) }

  // MARK: Transfers

  /// The bytes that a transfer may move, or the negative error of a fault. With `again`, the socket is reported once more if it could move
  /// more bytes.
  private func allowance(_ number: Int32, atMost asked: Int, isReceive: Bool, again: Bool = true) -> Int {
    let possible = isReceive && asked > 1 ? min(asked, base.receivableBytes(number)) : asked
    return state.withLock { state in
      if !state.sockets.contains(number) { return asked }
      if let error = state.plan.error(of: isReceive ? .receive : .send) { return Int(error) }
      let count = state.plan.shortened(possible, isRead: isReceive)
      if count == possible { return asked }
      if again { state.again.append((number, isReceive ? .readable : .writable)) }
      return count
    }
  }

  func receive(_ number: Int32, into memory: inout OutputSpan<UInt8>, atMost limit: Int, peeking: Bool) -> Int {
    let most = min(limit, memory.freeCapacity)
    let allowed = allowance(number, atMost: most, isReceive: true, again: !peeking)
    return allowed < 0 ? allowed : base.receive(number, into: &memory, atMost: allowed, peeking: peeking)
  }

  func send(_ number: Int32, _ bytes: Span<UInt8>) -> Int {
    let allowed = allowance(number, atMost: bytes.count, isReceive: false)
    return allowed < 0 ? allowed : base.send(number, bytes.extracting(first: allowed))
  }

  func send(_ number: Int32, gathering pieces: ArraySlice<[UInt8]>, skipping offset: Int) -> Int {
    let count = pieces.reduce(-offset) { $0 + $1.count }
    let allowed = allowance(number, atMost: count, isReceive: false)
    if allowed < 0 || allowed == count {
      return allowed < 0 ? allowed : base.send(number, gathering: pieces, skipping: offset)
    }
    var rest = allowed + offset
    var shortened: [[UInt8]] = []
    for piece in pieces where rest > 0 {
      shortened.append(Array(piece.prefix(rest)))
      rest -= piece.count
    }
    return base.send(number, gathering: shortened[...], skipping: offset)
  }

  func send(_ number: Int32, file: Int32, from offset: Int, count: Int) -> FileTransfer {
    let allowed = allowance(number, atMost: count, isReceive: false)
    if allowed >= 0 { return base.send(number, file: file, from: offset, count: allowed) }
    let error = SystemError(call: "sendfile", errno: Int32(-allowed))
    return .transfer(error.errno == Errno.wouldBlock ? .wouldBlock : .failed(error))
  }

  func send(_ number: Int32, _ bytes: Span<UInt8>, passing descriptor: Int32) -> Int {
    let allowed = allowance(number, atMost: bytes.count, isReceive: false)
    return allowed < 0 ? allowed : base.send(number, bytes.extracting(first: allowed), passing: descriptor)
  }

  func receive(_ number: Int32, into memory: inout OutputSpan<UInt8>) -> (count: Int, rights: ReceivedRights) {
    let allowed = allowance(number, atMost: memory.freeCapacity, isReceive: true)
    if allowed < 0 { return (allowed, ReceivedRights()) }
    if allowed == memory.freeCapacity { return base.receive(number, into: &memory) }
    var received = (count: 0, rights: ReceivedRights())
    var bytes: [UInt8] = []
    bytes.append(addingCapacity: allowed) { received = base.receive(number, into: &$0) }
    memory.append(bytes, in: bytes.indices)
    return received
  }

  func receivableBytes(_ number: Int32) -> Int { base.receivableBytes(number) }
  func hasReceivableBytes(_ number: Int32) -> Bool { base.hasReceivableBytes(number) }
  func unacknowledgedBytes(_ number: Int32) -> Int { base.unacknowledgedBytes(number) }

  // MARK: Datagrams

  func send(_ number: Int32, _ bytes: Span<UInt8>, to address: SocketAddress?) -> Int {
    let allowed = allowance(number, atMost: 1, isReceive: false)
    return allowed < 0 ? allowed : base.send(number, bytes, to: address)
  }

  func receive(_ number: Int32, into batch: DatagramBatch, _ request: DatagramBatch.Request) -> Int {
    let allowed = allowance(number, atMost: 1, isReceive: true)
    return allowed < 0 ? allowed : base.receive(number, into: batch, request)
  }

  func send(_ number: Int32, _ batch: DatagramBatch) -> Int {
    let allowed = allowance(number, atMost: 1, isReceive: false)
    return allowed < 0 ? allowed : base.send(number, batch)
  }

  func changeMembership(
    _ number: Int32, joins: Bool, group: IPAddress, source: IPAddress?, interface: UInt32
  ) -> Int32 { base.changeMembership(number, joins: joins, group: group, source: source, interface: interface) }

  func isMember(_ number: Int32, of group: IPAddress, source: IPAddress?, interface: UInt32) -> Bool {
    base.isMember(number, of: group, source: source, interface: interface)
  }

  func takeReportedError(_ number: Int32) -> ReportedError? { base.takeReportedError(number) }

  // MARK: Options

  func setOption(_ option: RawOption, of number: Int32, to value: Int32) -> Int32 {
    base.setOption(option, of: number, to: value)
  }

  func setOption(_ option: RawOption, of number: Int32, to value: [UInt8]) -> Int32 {
    base.setOption(option, of: number, to: value)
  }

  func option(_ option: RawOption, of number: Int32) -> (result: Int32, value: Int32) {
    base.option(option, of: number)
  }

  func option(_ option: RawOption, of number: Int32, atMost count: Int) -> (result: Int32, value: [UInt8]) {
    base.option(option, of: number, atMost: count)
  }

  func tcpInfo(of number: Int32) -> (result: Int32, info: TCPInfo?) { base.tcpInfo(of: number) }

  func makePoller(_ wake: @escaping @Sendable () -> Void) throws(SystemError) -> any Poller {
    FaultyPoller(try base.makePoller(wake), state)
  }

  // MARK: Files and names

  func status(of path: UnixPath, followingLinks: Bool) -> FileStatus? {
    base.status(of: path, followingLinks: followingLinks)
  }

  func hold(_ path: UnixPath) throws(SystemError) -> HeldFile? { try base.hold(path) }
  func openDirectory(_ path: UnixPath) -> Int32 { base.openDirectory(path) }

  func setPermissions(of number: Int32, to permissions: UInt16) -> Int32 {
    base.setPermissions(of: number, to: permissions)
  }

  func probe(_ path: UnixPath) throws(SystemError) -> Int32 { try base.probe(path) }
  func unlink(_ path: UnixPath) -> Int32 { base.unlink(path) }
  func absolute(_ path: UnixPath) -> UnixPath { base.absolute(path) }

  func addresses(of name: String, isIPv4: Bool) throws(NameLookupError) -> [SocketAddress] {
    try base.addresses(of: name, isIPv4: isIPv4)
  }

  func interfaces() throws(SystemError) -> [NetworkInterface] { try base.interfaces() }
}

extension FaultySystem: Sendable where Base: Sendable {}

/// Reports some sockets although they are not ready, and those whose transfers were cut short once more. So one wait may report a
/// registration twice.
private final class FaultyPoller: Poller {
  private let base: any Poller
  private let state: Locked<Faults.State>

  init(_ base: any Poller, _ state: Locked<Faults.State>) {
    self.base = base
    self.state = state
  }

  func add(_ number: Int32, token: UInt64, interest: Readiness) throws(SystemError) {
    try base.add(number, token: token, interest: interest)
    state.withLock { $0.watch(number, token, interest) }
  }

  func change(_ number: Int32, token: UInt64, interest: Readiness) throws(SystemError) {
    try base.change(number, token: token, interest: interest)
    state.withLock { $0.watch(number, token, interest) }
  }

  func remove(_ number: Int32) {
    base.remove(number)
    state.withLock { $0.watches.removeAll { $0.number == number } }
  }

  func wait(_ events: inout EventBuffer, atMost limit: Int, nanoseconds: Int64) -> Int {
    let mayWait = state.withLock { $0.again.isEmpty }
    let count = base.wait(&events, atMost: limit, nanoseconds: mayWait ? nanoseconds : 0)
    let more = state.withLock { $0.moreEvents(atMost: limit - count) }
    for (index, event) in more.enumerated() { events[count + index] = event }
    return count + more.count
  }

  func wake() { base.wake() }
}
