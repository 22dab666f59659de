package import SocketSystem
internal import Synchronization

/// An actor that the reactor tells about its descriptor, its deadlines and the reactor's end.
///
/// Every method is called on the reactor's thread, isolated to the actor, outside of any task.
package protocol EventHandler: ReactorActor {
  /// The tags that say what a deadline of this handler is for. Each kind of handler has one type of tags, so that no two kinds
  /// of its deadlines have the same number.
  associatedtype DeadlineTag: RawRepresentable<UInt64>
  /// The descriptor's readiness changed. An empty set is the share that `Registration.reschedule()` asked for.
  func handle(_ readiness: Readiness)
  /// A deadline armed with this tag has come; it is disarmed.
  func deadlineReached(_ tag: DeadlineTag)
  /// The reactor shuts down: abort, and fail all operations with `.reactorShutDown`.
  func reactorShutDown()
}

extension EventHandler {
  /// A deadline that was armed with this number has come.
  fileprivate func deadlineReached(number: UInt64) {
    guard let tag = DeadlineTag(rawValue: number) else {
      // Not a failed precondition: that says nothing in optimised programs.
      fatalError("\(Self.self) armed a deadline with a number that is not one of its tags: \(number)")
    }
    deadlineReached(tag)
  }
}

/// The tags of a handler that arms no deadline.
package enum NoDeadline: RawRepresentable {
  package init?(rawValue: UInt64) { nil }
  package var rawValue: UInt64 { switch self {} }
}

/// What an actor has with its reactor: a place in the table, at most one descriptor, and the way events come back.
///
/// The descriptor is owned here and not by the actor, because an actor's `deinit` runs anywhere, while the descriptor
/// must be closed on the reactor's thread: only so can no event of the same batch reach a number used anew.
///
/// Events and deadlines reach the actor through a weak reference: a dropped socket simply hears no more.
package final class Registration: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): everything mutable is touched on the reactor's thread only; `loop.assertCurrent`
  // checks it in debug builds.

  package let reactor: Reactor
  private weak var handler: (any EventHandler)?
  private var storedDescriptor: OwnedDescriptor?
  private var slot: Int?
  /// A number that no other registration of the reactor has.
  fileprivate var serial: UInt64 = 0
  private var token: UInt64?
  private(set) var isRescheduled = false
  /// The shares that the loop has given to the socket.
  private(set) var shares = 0
  private var waitsForRoom = false
  private let isInTable = Atomic<Bool>(false)

  private var loop: EventLoop { reactor.loop }

  /// A registration that is not yet in the reactor's table. Any thread.
  ///
  /// - Parameters:
  ///   - reactor: Whose table it will be in.
  ///   - descriptor: The descriptor, if there is one already; `enter` closes it on failure.
  package init(on reactor: Reactor, holding descriptor: consuming OwnedDescriptor? = nil) {
    self.reactor = reactor
    storedDescriptor = descriptor
  }

  /// Enters the table: from now on the handler hears of events, deadlines and the reactor's shutdown.
  ///
  /// - Parameters:
  ///   - handler: Who hears of them.
  ///   - readableOnly: A listener has nothing to say about writing.
  /// - Throws: `nil` if the reactor is shut down, otherwise what epoll_ctl(2) reports.
  package func enter(_ handler: any EventHandler, readableOnly: Bool = false) throws(EnterError) {
    loop.assertCurrent()
    if loop.isShutDown {
      storedDescriptor = nil
      throw .reactorIsShutDown
    }
    self.handler = handler
    slot = loop.registrations.insert(self)
    isInTable.store(true, ordering: .releasing)
    guard let descriptor = storedDescriptor.take() else { return }
    do {
      try attach(descriptor, readableOnly: readableOnly)
    } catch {
      throw .system(error)
    }
  }

  /// Why a registration did not enter the table.
  package enum EnterError: Error {
    case reactorIsShutDown
    case system(SystemError)
  }

  /// The descriptor of a dropped actor is to be reset: a clean end would pass off a part of what was written as all of it.
  package var resetsWhenDropped = false

  /// Whether it is in the table: whoever drops it must have it leave. Any thread.
  package var needsToLeave: Bool { isInTable.load(ordering: .acquiring) }

  /// Makes another actor the one that hears of events. Deadlines that were armed before reach neither actor.
  package func hand(to handler: any EventHandler) {
    loop.assertCurrent()
    self.handler = handler
    loop.registrations.renewSerial(of: self)
  }

  /// Leaves the table, and closes the descriptor if there is one.
  package func leave() {
    loop.assertCurrent()
    closeDescriptor()
    handler = nil
    isInTable.store(false, ordering: .releasing)
    if let slot = slot.take() { loop.registrations.remove(slot) }
  }

  /// Takes a descriptor over and registers it, edge-triggered and once: epoll_ctl(2).
  ///
  /// - Parameters:
  ///   - descriptor: Closed with the registration.
  ///   - readableOnly: A listener has nothing to say about writing.
  /// - Throws: What epoll_ctl reports, after closing the descriptor.
  package func attach(_ descriptor: consuming OwnedDescriptor, readableOnly: Bool = false) throws(SystemError) {
    loop.assertCurrent()
    guard let slot else { throw SystemError(call: "epoll_ctl", errno: Errno.badDescriptor) }
    let token = loop.registrations.renewToken(slot)
    try loop.epoll.add(descriptor.number, token: token, readableOnly: readableOnly)
    self.token = token
    storedDescriptor = consume descriptor
  }

  /// Takes another registration's descriptor over, which then leaves: epoll_ctl(2). What is ready now is reported anew.
  ///
  /// - Parameter other: A registration on the same reactor, with a descriptor.
  /// - Throws: What epoll_ctl reports; then nothing has changed.
  package func takeDescriptor(of other: Registration) throws(SystemError) {
    loop.assertCurrent()
    guard let slot, let number = other.socket?.number else {
      throw SystemError(call: "epoll_ctl", errno: Errno.badDescriptor)
    }
    let token = loop.registrations.renewToken(slot)
    try loop.epoll.setToken(token, of: number)
    self.token = token
    storedDescriptor = other.storedDescriptor.take()
    other.leave()
  }

  /// Closes the descriptor; events of it that were already fetched are dropped.
  package func closeDescriptor() {
    loop.assertCurrent()
    guard storedDescriptor != nil else { return }
    storedDescriptor = nil
    if let slot { _ = loop.registrations.renewToken(slot) }
    loop.descriptorClosed()
  }

  /// The socket, if there is one.
  package var socket: BorrowedDescriptor? {
    loop.assertCurrent()
    return switch storedDescriptor {
    case .some(let descriptor): descriptor.socket
    case .none: nil
    }
  }

  /// recv(2) into the reactor's scratch memory; see `withScratch`.
  package func receiveIntoScratch(atMost limit: Int = .max) -> Transfer {
    loop.assertCurrent()
    guard let socket else { return .failed(SystemError(call: "recv", errno: Errno.badDescriptor)) }
    return loop.scratch.receive(from: socket, atMost: limit)
  }

  /// recvmsg(2) into the reactor's scratch memory; descriptors that come along go to the inbox.
  package func receiveIntoScratch(_ inbox: DescriptorInbox) -> Transfer {
    loop.assertCurrent()
    guard let socket else { return .failed(SystemError(call: "recvmsg", errno: Errno.badDescriptor)) }
    return loop.scratch.receive(from: socket, inbox)
  }

  /// Shows the first `count` bytes of the reactor's scratch memory.
  package func withScratch<Result>(_ count: Int, _ body: (Span<UInt8>) throws -> Result) rethrows -> Result {
    loop.assertCurrent()
    return try loop.withScratch(count, body)
  }

  /// Memory to receive or send several datagrams with one call; `nil` for want of memory.
  package var datagramBatch: DatagramBatch? {
    loop.assertCurrent()
    return loop.datagramBatch
  }

  /// Runs code of the user's that sees the batch: what is sent or received meanwhile goes elsewhere.
  package func whileBatchIsRead<Result>(_ body: () throws -> Result) rethrows -> Result {
    loop.lentBatches += 1
    defer { loop.lentBatches -= 1 }
    return try body()
  }

  /// The most bytes that one receive into the scratch memory brings.
  package var scratchCapacity: Int { EventLoop.scratchSize }

  /// The number of the loop's iteration.
  package var tick: Int { loop.tick }

  /// Asks for another share, behind all that is ready now: `handle(.none)`. An edge-triggered event would not come again.
  ///
  /// - Returns: Whether the share will come. It does not if the registration is not in the table.
  @discardableResult
  package func reschedule() -> Bool {
    loop.assertCurrent()
    if slot == nil { return false }
    if isRescheduled { return true }
    isRescheduled = true
    loop.rescheduled.append(self)
    return true
  }

  /// When the iteration began, on the reactor's clock. It does not read the clock.
  package var tickTime: Int64 { loop.tickTime }

  /// Whether that clock is moved by hand.
  package var hasManualTime: Bool { loop.hasManualTime }

  /// Nanoseconds on the reactor's clock, from which deadlines are counted.
  package var now: Int64 { loop.now }

  /// Arms a deadline at `time` on the reactor's clock; the handler hears the tag, a raw value of its `DeadlineTag`.
  package func arm(at time: Int64, tag: UInt64) -> DeadlineKey? {
    loop.assertCurrent()
    guard let slot else { return nil }
    return loop.deadlines.insert(at: time, Deadline(place: slot, serial: serial, tag: tag))
  }

  /// Disarms a deadline; one that is gone is no matter.
  package func disarm(_ key: DeadlineKey) {
    loop.assertCurrent()
    loop.deadlines.remove(key)
  }

  /// Asks to hear, by an empty `handle`, when a descriptor of this reactor is closed: there is room for one more.
  package func awaitClosedDescriptor() {
    loop.assertCurrent()
    if waitsForRoom { return }
    waitsForRoom = true
    loop.waitingForRoom.append(self)
  }

  /// A descriptor was closed.
  func takeRoom() {
    waitsForRoom = false
    reschedule()
  }

  // Called by the loop.

  func dispatch(_ readiness: Readiness) {
    loop.assertCurrent()
    if let handler { deliver(readiness, to: handler) }
  }

  func dispatch(_ readiness: Readiness, token: UInt64) {
    if token == self.token { dispatch(readiness) }
  }

  /// Whether a deadline that is due waits: the socket has used up its share, and what is left of it was there before the deadline.
  /// `advance` gives shares itself.
  func putsOff(_ deadline: inout Deadline) -> Bool {
    if !isRescheduled { return false }
    let first = deadline.sharesBefore ?? shares
    deadline.sharesBefore = first
    return shares &- first < Deadline.mostShares
  }

  func takeShare() {
    isRescheduled = false
    shares &+= 1
    dispatch(.none)
  }

  func dispatch(deadline tag: UInt64) {
    handler?.assumeIsolated { $0.deadlineReached(number: tag) }
  }

  func dispatchShutDown() {
    handler?.assumeIsolated { $0.reactorShutDown() }
  }
}

/// Names an armed deadline.
package typealias DeadlineKey = DeadlineHeap<Deadline>.Key

/// Whom a deadline is for: by its place in the table, so that one that nobody disarmed holds neither a dropped socket nor
/// its reactor.
package struct Deadline {
  let place: Int
  let serial: UInt64
  let tag: UInt64
  /// The shares that its socket had had when the deadline was put off for the first time: the socket had more to do.
  var sharesBefore: Int?

  /// The shares that a socket gets before its deadline: 16 MiB, more than the kernel keeps for it by default.
  static var mostShares: Int { 64 }
}

/// All registrations of a reactor. A token names a place and its generation, which every change of descriptor raises:
/// an event fetched before the change finds a token that no longer fits and is dropped.
struct RegistrationTable {
  private var places: [(registration: Registration?, generation: UInt32)] = []
  private var free: [Int] = []
  private var nextSerial: UInt64 = 0

  /// Gives a registration a new serial number: deadlines with the old one no longer reach it.
  mutating func renewSerial(of registration: Registration) {
    nextSerial += 1
    registration.serial = nextSerial
  }

  mutating func insert(_ registration: Registration) -> Int {
    renewSerial(of: registration)
    if let place = free.popLast() {
      places[place].registration = registration
      return place
    }
    places.append((registration, 0))
    return places.count - 1
  }

  mutating func remove(_ place: Int) {
    places[place].registration = nil
    places[place].generation &+= 1
    free.append(place)
  }

  mutating func renewToken(_ place: Int) -> UInt64 {
    places[place].generation &+= 1
    return UInt64(places[place].generation) << 32 | UInt64(place)
  }

  /// The registration that a token names, unless it is stale.
  subscript(token: UInt64) -> Registration? {
    let place = Int(token & 0xffff_ffff)
    guard place < places.count, places[place].generation == UInt32(token >> 32) else { return nil }
    return places[place].registration
  }

  /// Whom a deadline is for, unless it has left.
  subscript(deadline: Deadline) -> Registration? {
    guard let registration = places[deadline.place].registration, registration.serial == deadline.serial else {
      return nil
    }
    return registration
  }

  /// The number of registrations, each of which has at most one descriptor.
  var count: Int { places.count - free.count }

  /// All registrations there are.
  var all: [Registration] { places.compactMap(\.registration) }
}
