internal import EpollReactor
internal import SocketSystem

/// The state that a connection has only while it is connecting.
final class ConnectAttempt {
  let endpoint: Endpoint
  let configuration: TCPConnection.Configuration
  let timeout: Timeout
  let started: Int64
  /// `nil` if connecting is tried only once.
  var retries: RetrySchedule?
  /// `nil` between two tries.
  private(set) var current: ConnectTry?
  /// For connecting as a whole, with all tries.
  var deadline: DeadlineKey?
  private var expiry: Int64
  var nextTry: DeadlineKey?
  /// Runs the program's own resolver, with the task-local values of the code that asked for the connection. The system's resolver does
  /// not need these values.
  private let lookUps: LookUpTask?
  private let registration: Registration

  init(
    _ registration: Registration, to endpoint: Endpoint, _ configuration: TCPConnection.Configuration, timeout: Timeout,
    started: Int64
  ) {
    self.registration = registration
    self.endpoint = endpoint
    self.configuration = configuration
    self.timeout = timeout
    self.started = started
    expiry = timeout.end(startingAt: started)
    retries = configuration.retry.map(RetrySchedule.init)
    let mayBeName = if case .host = configuration.proxy?.endpoint ?? endpoint { true } else { false }
    lookUps = mayBeName && !(configuration.resolver is SystemResolver) ? LookUpTask() : nil
  }

  deinit { registration.disarmAnywhere(deadline, nextTry) }

  /// `nil` without a limit.
  func timeLeft(at now: Int64) -> Duration? { expiry == .max ? nil : .nanoseconds(max(0, expiry - now)) }

  func armDeadline() { deadline = registration.arm(at: expiry, tag: DeadlineTag(.connect)) }

  /// Asks the timeout's closure for more time, and arms the deadline for it. Returns whether the closure gave more.
  func extend(at now: Int64) -> Bool {
    if let deadline = deadline.take() { registration.disarm(deadline) }
    guard let more = timeout.extend?(.nanoseconds(now - started), 0), more > .zero else { return false }
    expiry = instant(now, plus: more.clampedNanoseconds)
    armDeadline()
    return true
  }

  /// With a timeout of zero, one attempt that need not wait may still succeed.
  func isOver(at now: Int64) -> Bool { expiry <= now && !timeout.isImmediate }

  var tries: Int { retries?.tries ?? 1 }

  func beginTry() -> ConnectTry {
    let current = ConnectTry(registration, lookUps)
    self.current = current
    return current
  }

  func endTry() { current.take()?.end() }

  func end() {
    endTry()
    for deadline in [deadline.take(), nextTry.take()] { if let deadline { registration.disarm(deadline) } }
  }

  var outOfTime: SocketError {
    let error = current?.timedOut(timeout.limit)
    return retries?.timedOut(error, timeout.limit) ?? error
      ?? SocketError(.timedOut, operation: "connect", detail: "not connected \(timeout.limit)")
  }
}

/// The search for an address that answers, and then the preambles.
final class ConnectTry {
  var plan = HappyEyeballs(trying: [], attemptDelay: 0)
  var sources: SourceAddresses?
  /// By the number of their attempt.
  var sockets: [Int: ConnectingSocket] = [:]
  /// For the next step of the plan.
  var timer: DeadlineKey?
  /// For this try.
  var deadline: DeadlineKey?
  /// The preambles that remain.
  var preambles: [any Preamble] = []
  var negotiation = Negotiation()
  /// The socket that is connected, while the preambles are under way.
  private(set) var negotiating: ConnectingSocket?
  /// The addresses of that socket and of its peer.
  private(set) var local: SocketAddress?
  private(set) var remote: SocketAddress?
  /// The name that is looked up; `nil` without a look-up.
  private var name: String?
  private var lookUps: LookUpTask?
  private let registration: Registration

  init(_ registration: Registration, _ lookUps: LookUpTask?) {
    self.registration = registration
    self.lookUps = lookUps
  }

  deinit {
    lookUps?.stop()
    registration.disarmAnywhere(deadline, timer)
  }

  /// `done` is called on any thread with the outcome of each family.
  func lookUp(
    _ name: String, _ configuration: TCPConnection.Configuration,
    _ done: @escaping @Sendable (AddressFamily, HostLookups.Outcome) -> Void
  ) {
    self.name = name
    let resolver = configuration.resolver
    let families = configuration.addressPreference.families
    let lookUps = lookUps ?? LookUpTask()
    self.lookUps = lookUps
    lookUps.run { await resolver.lookUp(name, in: families, done) }
  }

  func negotiate(on socket: ConnectingSocket, local: SocketAddress?, remote: SocketAddress) {
    sockets[socket.attempt.id] = nil
    endSearch()
    negotiating = socket
    (self.local, self.remote) = (local, remote)
  }

  func end() {
    endSearch()
    if let deadline = deadline.take() { registration.disarm(deadline) }
    negotiating.take()?.registration.leave()
  }

  private func endSearch() {
    if let timer = timer.take() { registration.disarm(timer) }
    lookUps?.stop()
    lookUps = nil
    for socket in sockets.valuesInOrder { socket.registration.leave() }
    sockets = [:]
  }

  func timedOut(_ limit: String) -> SocketError {
    guard let negotiating, let preamble = preambles.first else { return plan.timedOut(lookingUp: name, limit) }
    let detail = "\(preamble.awaited) was not complete \(limit)"
    return SocketError(.timedOut, operation: "connect", detail: detail, address: negotiating.destination)
  }
}

extension Registration {
  /// For a connection that is being dropped, perhaps on another thread than the reactor's.
  func disarmAnywhere(_ deadlines: DeadlineKey?...) {
    let deadlines = deadlines.compactMap { $0 }
    if deadlines.isEmpty { return }
    reactor.submit { for deadline in deadlines { self.disarm(deadline) } }
  }
}

/// The socket of one attempt, in the isolation of its connection.
actor ConnectingSocket: EventHandler {
  nonisolated let executor: ReactorExecutor
  nonisolated let attempt: HappyEyeballs.Attempt
  /// The address to connect to: the attempt's address with its interface.
  nonisolated let destination: SocketAddress
  nonisolated let registration: Registration
  private weak let connection: TCPConnection?

  init(
    _ attempt: HappyEyeballs.Attempt, _ destination: SocketAddress, _ descriptor: consuming OwnedDescriptor,
    mayBeShared: Bool, of connection: TCPConnection
  ) {
    executor = connection.executor
    self.attempt = attempt
    self.destination = destination
    self.connection = connection
    registration = Registration(on: executor.reactor, holding: descriptor, mayBeShared: mayBeShared)
  }

  deinit {
    if registration.needsToLeave { registration.reactor.submit { [registration] in registration.leave() } }
  }

  func handle(_ readiness: Readiness) {
    connection?.assumeIsolated { $0.handle(readiness, of: self) }
  }

  func deadlineReached(_ tag: DeadlineTag) { tag.isUnexpected(by: Self.self) }
  func reactorShutDown() { registration.leave() }
}
