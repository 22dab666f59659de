package import SocketSystem
internal import Synchronization

/// A socket's place in its reactor: its descriptor, the events of that descriptor, and its deadlines.
///
/// It is also the isolation domain of the socket's actor. An actor with several descriptors has a registration for each, and the
/// domain of one of them or of its own.
///
/// `Reactor+Services.swift` has the services that all sockets of a reactor share: the clock, and the memory to receive and send with.
///
/// The registration owns the descriptor, and the actor does not, because an actor's `deinit` runs on any thread. The descriptor
/// must be closed on the reactor's thread: otherwise an event that was fetched before could reach a new descriptor with the same
/// number.
///
/// Events and deadlines reach the actor through a weak reference, so a dropped socket hears no more of them.
package final class Registration: ReactorExecutor, @unchecked Sendable {
  // SAFETY (@unchecked Sendable): everything mutable is touched on the reactor's thread only; `eventLoop.assertCurrent` checks that
  // in debug builds. `isInTable` is atomic.

  // The descriptor. No code of the program runs while it is accessed, which debug builds and ACTORSOCKETS_PLAIN check.
  // In other builds the checks would be 160 instructions of an echo.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  private var storedDescriptor: OwnedDescriptor?
  /// The descriptor of a dropped actor is to be reset. A clean close would make the peer believe that it has received everything.
  /// The actor's state is gone by then, so the registration keeps this.
  package var resetsWhenDropped = false
  /// Whether another process, or another part of this one, may have a duplicate of the descriptor. Then close(2) does not remove it
  /// from epoll, and sends nothing to the peer.
  package private(set) var mayBeShared: Bool

  // Its events.
  private weak var handler: (any EventHandler)?
  /// The place in the reactor's table, `nil` outside of the table.
  private var slot: Int?
  private let isInTable = Atomic<Bool>(false)
  /// The socket has asked for another turn.
  package private(set) var isRescheduled = false
  /// The socket has asked to hear when a descriptor is closed.
  private var awaitsClosedDescriptor = false

  // Its deadlines.
  /// A number that no other registration of the reactor has. It is renewed when another actor takes over.
  var serial: UInt64 = 0
  /// The turns that the loop has given to the socket.
  private(set) var turns = 0

  private var eventLoop: EventLoop { reactor.loop }

  // MARK: The table

  /// Creates a registration that is not yet in the reactor's table. Any thread.
  ///
  /// - Parameters:
  ///   - reactor: Whose table it will be in.
  ///   - descriptor: The descriptor, if there is one already; `enter` closes it on failure.
  ///   - mayBeShared: Whether it was made elsewhere, where a duplicate of it may stay open.
  package init(on reactor: Reactor, holding descriptor: consuming OwnedDescriptor? = nil, mayBeShared: Bool = false) {
    self.mayBeShared = mayBeShared
    if let number = descriptor?.number { reactor.loop.host.take(number) }
    storedDescriptor = descriptor
    super.init(ofSocketOn: reactor)
  }

  /// Enters the table. From now on the handler hears of events, deadlines and the reactor's shutdown.
  ///
  /// - Parameters:
  ///   - handler: The actor that hears of them.
  ///   - readableOnly: Whether it hears nothing about writing, as a listener.
  /// - Throws: `.reactorIsShutDown`, or `.system` with the error of epoll_ctl(2). In both cases the descriptor is closed.
  package func enter(_ handler: any EventHandler, readableOnly: Bool = false) throws(EnterError) {
    eventLoop.assertCurrent()
    if eventLoop.registrations.areClosed {
      storedDescriptor = nil
      throw .reactorIsShutDown
    }
    self.handler = handler
    slot = eventLoop.registrations.insert(self)
    isInTable.store(true, ordering: .releasing)
    guard let descriptor = storedDescriptor.take() else { return }
    do {
      try attach(descriptor, readableOnly: readableOnly)
    } catch {
      throw .system(error)
    }
  }

  /// Why a registration has no descriptor after `enter`.
  package enum EnterError: Error {
    case reactorIsShutDown
    case system(SystemError)
  }

  /// Whether it is in the table. Then the code that drops it must call `leave` on the reactor's thread. Any thread.
  package var needsToLeave: Bool { isInTable.load(ordering: .acquiring) }

  /// Makes another actor the handler. Deadlines that were armed before reach neither actor.
  package func hand(to handler: any EventHandler) {
    eventLoop.assertCurrent()
    self.handler = handler
    eventLoop.registrations.renewSerial(of: self)
  }

  /// Leaves the table, and closes the descriptor if there is one.
  package func leave() {
    eventLoop.assertCurrent()
    closeDescriptor()
    handler = nil
    isInTable.store(false, ordering: .releasing)
    if let slot = slot.take() { eventLoop.registrations.remove(slot) }
  }

  // MARK: The descriptor

  /// Takes a descriptor over and registers it, edge-triggered and once: epoll_ctl(2).
  ///
  /// - Parameters:
  ///   - descriptor: The descriptor, which is closed when the registration leaves.
  ///   - readableOnly: Whether the handler hears nothing about writing, as a listener.
  /// - Throws: The error of epoll_ctl, after closing the descriptor.
  package func attach(_ descriptor: consuming OwnedDescriptor, readableOnly: Bool = false) throws(SystemError) {
    eventLoop.assertCurrent()
    guard let slot else { throw SystemError(call: "epoll_ctl", errno: Errno.badDescriptor) }
    let token = eventLoop.registrations.renewToken(slot)
    try eventLoop.poller.add(descriptor.number, token: token, readableOnly: readableOnly)
    storedDescriptor = consume descriptor
  }

  /// Takes over the descriptor of another registration, which then leaves: epoll_ctl(2). Events that are ready now are reported
  /// again.
  ///
  /// - Parameter other: A registration on the same reactor, with a descriptor.
  /// - Throws: The error of epoll_ctl. Then nothing has changed.
  package func takeDescriptor(of other: Registration) throws(SystemError) {
    eventLoop.assertCurrent()
    guard let slot, let number = other.socket?.number else {
      throw SystemError(call: "epoll_ctl", errno: Errno.badDescriptor)
    }
    let token = eventLoop.registrations.renewToken(slot)
    try eventLoop.poller.change(number, token: token)
    storedDescriptor = other.storedDescriptor.take()
    mayBeShared = mayBeShared || other.mayBeShared
    other.leave()
  }

  /// Notes that code of the program gets the descriptor, and may duplicate it.
  package func isLent() {
    eventLoop.assertCurrent()
    mayBeShared = true
  }

  /// Closes the descriptor. Events of it that were fetched before are dropped.
  package func closeDescriptor() {
    eventLoop.assertCurrent()
    guard let number = socket?.number else { return }
    if mayBeShared { eventLoop.poller.remove(number) }
    storedDescriptor = nil
    if let slot { _ = eventLoop.registrations.renewToken(slot) }
    eventLoop.descriptorClosed()
  }

  /// The descriptor, if there is one.
  package var socket: BorrowedDescriptor? {
    eventLoop.assertCurrent()
    return switch storedDescriptor {
    case .some(let descriptor): descriptor.socket
    case .none: nil
    }
  }

  // MARK: Events

  /// Asks for another turn, after the sockets that asked before: the handler hears `handle(.none)`. An edge-triggered event would
  /// not come again.
  ///
  /// - Returns: Whether the turn will come. It does not if the registration is not in the table.
  @discardableResult
  package func reschedule() -> Bool {
    eventLoop.assertCurrent()
    if slot == nil { return false }
    if isRescheduled { return true }
    isRescheduled = true
    eventLoop.waitingSockets.reschedule(self)
    return true
  }

  /// Asks for `handle(.none)` when a descriptor of this reactor is closed, once: then there is room for another one.
  package func awaitClosedDescriptor() {
    eventLoop.assertCurrent()
    if awaitsClosedDescriptor { return }
    awaitsClosedDescriptor = true
    eventLoop.waitingSockets.awaitClosedDescriptor(self)
  }

  /// Gives another turn, because a descriptor was closed.
  func descriptorWasClosed() {
    awaitsClosedDescriptor = false
    reschedule()
  }

  // MARK: Deadlines

  /// Arms a deadline.
  ///
  /// - Parameters:
  ///   - time: When it comes, in nanoseconds on the reactor's clock; see `Reactor.now`.
  ///   - tag: What the handler hears then.
  /// - Returns: The key to disarm it; `nil` if the registration is not in the table. Then the deadline does not come.
  package func arm(at time: Int64, tag: DeadlineTag) -> DeadlineKey? {
    eventLoop.assertCurrent()
    guard let slot else { return nil }
    return eventLoop.deadlines.insert(at: time, Deadline(slot: slot, serial: serial, tag: tag))
  }

  /// Disarms a deadline. It does nothing if the deadline has come or was disarmed before.
  package func disarm(_ key: DeadlineKey) {
    eventLoop.assertCurrent()
    eventLoop.deadlines.remove(key)
  }

  // MARK: Called by the loop

  /// Tells the handler of an event, or gives it a turn.
  func dispatch(_ readiness: Readiness) {
    eventLoop.assertCurrent()
    if let handler { deliver(readiness, to: handler) }
  }

  /// Finds out whether a deadline that is due must wait. It must while its socket waits for another turn, because the rest of its
  /// work arrived before the deadline. `advance` gives turns itself, and does not ask.
  ///
  /// - Parameter deadline: The deadline, which notes when it was put off for the first time.
  /// - Returns: Whether it must; not if the socket has had `Deadline.maxTurns` since then.
  func putsOff(_ deadline: inout Deadline) -> Bool {
    if !isRescheduled { return false }
    let first = deadline.turnsBefore ?? turns
    deadline.turnsBefore = first
    return turns &- first < Deadline.maxTurns
  }

  /// Gives the turn that the socket asked for.
  func takeTurn() {
    isRescheduled = false
    turns &+= 1
    dispatch(.none)
  }

  /// Tells the handler that a deadline has come.
  func dispatch(deadline tag: DeadlineTag) {
    handler?.assumeIsolated { $0.deadlineReached(tag) }
  }

  /// The identity of the handler; `nil` if it is gone.
  var handlerID: ObjectIdentifier? { handler.map { ObjectIdentifier($0) } }

  /// The operations that wait in the handler's queues, as text; `nil` if no operation waits.
  var waiting: String? { handler?.assumeIsolated { $0.waitingOperations } }

  /// Tells the handler that the reactor shuts down.
  func dispatchShutDown() {
    handler?.assumeIsolated { $0.reactorShutDown() }
  }
}
