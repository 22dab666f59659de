package import SocketSystem
internal import Synchronization

/// The reactor's entry for a socket: its descriptor, the events of that descriptor, and its deadlines. It is also the isolation domain of
/// the socket's actor. An actor with several descriptors has a registration for each, and the domain of one of them or of its own.
///
/// The registration owns the descriptor, and the actor does not, because an actor's `deinit` runs on any thread. The descriptor must be
/// closed on the reactor's thread: otherwise an event that was fetched before could reach a new descriptor with the same number.
///
/// The reference to the actor is weak, so a dropped socket gets no more events and deadlines.
package final class Registration: ReactorExecutor, @unchecked Sendable {
  // SAFETY (@unchecked Sendable): everything mutable is touched on the reactor's thread only; `eventLoop.assertCurrent` checks that
  // in debug builds. `isInTable` is atomic.

  // No code of the program runs while it is accessed, which debug builds and ACTORSOCKETS_PLAIN check. In other builds the checks would
  // be 160 instructions of an echo.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  private var storedDescriptor: OwnedDescriptor?
  /// A clean close of a dropped actor's descriptor would make the peer believe that it has received everything. The actor's state has
  /// been destroyed by then, so the registration keeps this.
  package var resetsWhenDropped = false
  /// Another process, or another part of this one, may have a duplicate of the descriptor. Then close(2) does not remove it from epoll,
  /// and sends nothing to the peer.
  package private(set) var mayBeShared: Bool

  private weak var handler: (any EventHandler)?
  /// In the reactor's table; `nil` outside of the table.
  private var slot: Int?
  private let isInTable = Atomic<Bool>(false)
  package private(set) var isRescheduled = false
  private var awaitsClosedDescriptor = false
  /// The readiness that events report, besides that which they always do.
  private var interest = Readiness.none
  /// The events in a row about arrivals that no call received.
  private var arrivalsLeft = 0

  /// No other registration of the reactor has it. It is renewed when another actor takes over.
  var serial: UInt64 = 0
  private(set) var turns = 0
  /// When it entered the table, on the reactor's clock: the begin of that iteration.
  package private(set) var entered: Int64 = 0

  /// Changing the registration twice costs as much as two events.
  private static let mostArrivalsLeft = 4

  private var eventLoop: EventLoop { reactor.loop }

  // MARK: The table

  /// Creates a registration that is not yet in the reactor's table. It owns the descriptor, which `enter` closes on failure. Any thread.
  package init(on reactor: Reactor, holding descriptor: consuming OwnedDescriptor? = nil, mayBeShared: Bool = false) {
    self.mayBeShared = mayBeShared
    if let number = descriptor?.number { reactor.loop.host.take(number) }
    storedDescriptor = descriptor
    super.init(ofSocketOn: reactor)
  }

  /// From now on the handler gets events, deadlines and the reactor's shutdown; of events only those of `interest`. If this
  /// throws, the descriptor is closed. `.system` has the error of epoll_ctl(2).
  package func enter(
    _ handler: any EventHandler, interest: Readiness = .ofSocket
  ) throws(EnterError) {
    eventLoop.assertCurrent()
    if eventLoop.registrations.areClosed {
      storedDescriptor = nil
      throw .reactorIsShutDown
    }
    self.handler = handler
    slot = eventLoop.registrations.insert(self)
    entered = tickTime
    isInTable.store(true, ordering: .releasing)
    guard let descriptor = storedDescriptor.take() else { return }
    do {
      try attach(descriptor, interest: interest)
    } catch {
      throw .system(error)
    }
  }

  package enum EnterError: Error {
    case reactorIsShutDown
    case system(SystemError)
  }

  /// Whether it is in the table. Then the code that drops it must call `leave` on the reactor's thread. Any thread.
  package var needsToLeave: Bool { isInTable.load(ordering: .acquiring) }

  /// Deadlines that were armed before reach neither actor.
  package func hand(to handler: any EventHandler) {
    eventLoop.assertCurrent()
    self.handler = handler
    eventLoop.registrations.renewSerial(of: self)
  }

  /// Also closes the descriptor.
  package func leave() {
    eventLoop.assertCurrent()
    closeDescriptor()
    handler = nil
    isInTable.store(false, ordering: .releasing)
    if let slot = slot.take() { eventLoop.registrations.remove(slot) }
  }

  // MARK: The descriptor

  /// Takes a descriptor over and registers it, edge-triggered and once: epoll_ctl(2). If this throws, the descriptor is closed.
  package func attach(
    _ descriptor: consuming OwnedDescriptor, interest: Readiness = .ofSocket
  ) throws(SystemError) {
    eventLoop.assertCurrent()
    guard let slot else { throw SystemError(call: "epoll_ctl", errno: Errno.badDescriptor) }
    let token = eventLoop.registrations.renewToken(slot)
    try eventLoop.poller.add(descriptor.number, token: token, interest: interest)
    self.interest = interest
    arrivalsLeft = 0
    storedDescriptor = consume descriptor
  }

  /// Takes over the descriptor of another registration on the same reactor, which then leaves: epoll_ctl(2). Events that are ready now
  /// are reported again. If this throws, nothing has changed.
  package func takeDescriptor(of other: Registration) throws(SystemError) {
    eventLoop.assertCurrent()
    guard let slot, let number = other.socket?.number else {
      throw SystemError(call: "epoll_ctl", errno: Errno.badDescriptor)
    }
    let token = eventLoop.registrations.renewToken(slot)
    try eventLoop.poller.change(number, token: token, interest: .ofSocket)
    interest = .ofSocket
    storedDescriptor = other.storedDescriptor.take()
    mayBeShared = mayBeShared || other.mayBeShared
    other.leave()
  }

  /// Code of the program gets the descriptor, and may duplicate it.
  package func isLent() {
    eventLoop.assertCurrent()
    mayBeShared = true
  }

  /// Events of the descriptor that were fetched before are dropped.
  package func closeDescriptor() {
    eventLoop.assertCurrent()
    guard let number = socket?.number else { return }
    if mayBeShared { eventLoop.poller.remove(number) }
    storedDescriptor = nil
    if let slot { _ = eventLoop.registrations.renewToken(slot) }
    eventLoop.descriptorClosed()
  }

  package var socket: BorrowedDescriptor? {
    eventLoop.assertCurrent()
    return switch storedDescriptor {
    case .some(let descriptor): descriptor.socket
    case .none: nil
    }
  }

  // MARK: Events

  /// Asks for another turn, after the sockets that asked before: `handle(.none)`. An edge-triggered event would not come again. Returns
  /// `false` if no turn will come, because the registration is not in the table.
  @discardableResult
  package func reschedule() -> Bool {
    eventLoop.assertCurrent()
    if slot == nil { return false }
    if isRescheduled { return true }
    isRescheduled = true
    eventLoop.waitingSockets.rescheduled.add(self)
    return true
  }

  /// Before the loop sleeps, the sender sends, together with those of other sockets.
  package func sendTogether(_ sender: any GatheredSender, keeping owner: AnyObject) {
    eventLoop.assertCurrent()
    eventLoop.running.sends.add(GatheredSend(sender: sender, owner: owner))
  }

  /// Asks for `handle(.none)` when a descriptor of this reactor is closed, once: then there is room for another one.
  package func awaitClosedDescriptor() {
    eventLoop.assertCurrent()
    if awaitsClosedDescriptor { return }
    awaitsClosedDescriptor = true
    eventLoop.waitingSockets.awaitClosedDescriptor(self)
  }

  func descriptorWasClosed() {
    awaitsClosedDescriptor = false
    reschedule()
  }

  // MARK: Interest

  /// Whether events report this readiness from now on: epoll_ctl(2). If it is ready when that begins, an event comes.
  package func report(_ readiness: Readiness, _ isReported: Bool) {
    eventLoop.assertCurrent()
    let wanted = isReported ? interest.union(readiness) : interest.subtracting(readiness)
    if wanted.rawValue == interest.rawValue { return }
    guard let slot, let number = socket?.number else { return }
    // It cannot fail: the descriptor is registered, and the kernel needs no memory for a change.
    try? eventLoop.poller.change(number, token: eventLoop.registrations.token(slot), interest: wanted)
    interest = wanted
  }

  /// An event has said that something arrived, and no call receives it. After several of them in a row, arrivals are reported no more until
  /// `awaitArrivals`. Otherwise each one would wake the thread for nothing, for example while a handler on the pool is busy.
  package func arrivalWasLeft() {
    arrivalsLeft += 1
    if arrivalsLeft == Self.mostArrivalsLeft { report(.readable, false) }
  }

  /// The next arrival is reported, and what has arrived already. Called when nothing is left to receive.
  @inline(__always)
  package func awaitArrivals() {
    if arrivalsLeft == 0 { return }
    arrivalsLeft = 0
    report(.readable, true)
  }

  // MARK: Deadlines

  /// `time` is in nanoseconds on the reactor's clock; see `Reactor.now`. Returns `nil` if the registration is not in the table. Then the
  /// deadline does not come.
  package func arm(at time: Int64, tag: DeadlineTag) -> DeadlineKey? {
    eventLoop.assertCurrent()
    guard let slot else { return nil }
    return eventLoop.deadlines.insert(at: time, Deadline(slot: slot, serial: serial, tag: tag))
  }

  /// Does nothing if the deadline has come or was disarmed before.
  package func disarm(_ key: DeadlineKey) {
    eventLoop.assertCurrent()
    eventLoop.deadlines.remove(key)
  }

  // MARK: Called by the loop

  func dispatch(_ readiness: Readiness) {
    eventLoop.assertCurrent()
    if let handler { deliver(readiness, to: handler) }
  }

  /// Whether a deadline that is due must wait. It must while its socket waits for another turn, because the rest of its work arrived
  /// before the deadline, but for at most `Deadline.maxTurns`. `advance` gives turns itself, and does not ask.
  func putsOff(_ deadline: inout Deadline) -> Bool {
    if !isRescheduled { return false }
    let first = deadline.turnsBefore ?? turns
    deadline.turnsBefore = first
    return turns &- first < Deadline.maxTurns
  }

  func takeTurn() {
    isRescheduled = false
    turns &+= 1
    dispatch(.none)
  }

  func dispatch(deadline tag: DeadlineTag) {
    handler?.assumeIsolated { $0.deadlineReached(tag) }
  }

  var handlerID: ObjectIdentifier? { handler.map { ObjectIdentifier($0) } }
  var waiting: String? { handler?.assumeIsolated { $0.waitingOperations } }

  func shown<Shown>(by show: (Registration, any EventHandler) -> Shown?) -> Shown? {
    handler.flatMap { show(self, $0) }
  }

  func dispatchShutDown() {
    handler?.assumeIsolated { $0.reactorShutDown() }
  }
}
