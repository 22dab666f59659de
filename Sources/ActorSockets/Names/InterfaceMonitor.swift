internal import EpollReactor
internal import SocketSystem

// How the kernel's notices of changed interfaces reach loops: rtnetlink(7). `InterfaceChanges` decides which loop gets which list.
//
// - The first call opens the socket, and then reads the list. A change that comes after the reading is noticed.
// - The notices are dropped before the list is read. One that comes in between causes another reading.
// - If the socket has no room for a notice, the kernel reports an error once, ENOBUFS, and then nothing until the socket is drained. So the
//   error is a notice like any other, and the socket is drained to its end, if necessary over several turns.
// - While no call waits, the notices stay in the socket.

actor InterfaceMonitor: EventHandler {
  nonisolated let executor: ReactorExecutor
  private nonisolated let registration: Registration
  private var changes = InterfaceChanges()
  private var waiters = Waiters<[NetworkInterface]>()

  private static let mostNotices = 256

  init(on reactor: Reactor) {
    registration = Registration(on: reactor)
    executor = registration
  }

  deinit {
    if registration.needsToLeave { executor.reactor.submit { [registration] in registration.leave() } }
  }

  /// `last` is the list that the loop got before; `nil` if this is its first call.
  func next(after last: [NetworkInterface]?) async throws -> [NetworkInterface] {
    let place = if let place = claimPlace() { place } else { await requeue() }
    try Task.checkCancellation()
    try open()
    if changes.isStale { try read() }
    if let list = changes.next(after: last) { return list }
    let waiter = waiters.add(place)
    let id = waiter.id
    await wait(for: waiter.suspension) {
      submit { $0.waiters.remove(id)?.resume(.failure(CancellationError())) }
    }
    return try waiter.result()
  }

  private func open() throws(SocketError) {
    if registration.socket != nil { return }
    do throws(Registration.EnterError) {
      if !registration.needsToLeave { try registration.enter(self) }
    } catch {
      throw Self.shutDown
    }
    do throws(SystemError) {
      try registration.attach(OwnedDescriptor.interfaceSocket(), interest: .readable)
    } catch {
      throw SocketError(error, operation: Self.operation)
    }
  }

  private func read() throws(SocketError) {
    if registration.socket?.dropMessages(atMost: Self.mostNotices) == false { registration.reschedule() }
    registration.awaitArrivals()
    do throws(SystemError) {
      let list = try NetworkInterface.list()
      if changes.wasRead(list) { waiters.resumeAll(.success(list)) }
    } catch {
      throw SocketError(error, operation: Self.operation)
    }
  }

  private static var operation: String { "interfaces" }
  private static var shutDown: SocketError { SocketError(.reactorShutDown, operation: operation) }

  // MARK: Events

  func handle(_ readiness: Readiness) {
    changes.noticed()
    if waiters.isEmpty { return registration.arrivalWasLeft() }
    do { try read() } catch { waiters.resumeAll(.failure(error)) }
  }

  func deadlineReached(_ tag: DeadlineTag) { tag.isUnexpected(by: Self.self) }

  func reactorShutDown() {
    waiters.resumeAll(.failure(Self.shutDown))
    registration.leave()
  }

  var waitingOperations: String? { waiters.isEmpty ? nil : "a loop waits for a change of the network interfaces" }
}
