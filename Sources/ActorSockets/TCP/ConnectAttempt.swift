internal import EpollReactor
internal import SocketSystem

/// The state that a connection has only while it is connecting.
final class ConnectAttempt {
  let endpoint: Endpoint
  let configuration: TCPConnection.Configuration
  let timeout: Timeout
  let started: Int64
  /// When connecting is tried again, if it may be.
  var retries: RetrySchedule?
  /// The try that is under way; `nil` between two tries.
  private(set) var current: ConnectTry?
  /// The deadline for connecting as a whole.
  var deadline: DeadlineKey?
  /// When that deadline comes.
  private var expiry: Int64
  /// When the next try begins.
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

  /// Arms the deadline for connecting as a whole.
  func armDeadline() { deadline = registration.arm(at: expiry, tag: DeadlineTag(.connect)) }

  /// Connecting as a whole has no time left at `now`. Asks the timeout's closure for more.
  ///
  /// - Returns: Whether the closure gave more time. The deadline is armed for it.
  func extend(at now: Int64) -> Bool {
    if let deadline = deadline.take() { registration.disarm(deadline) }
    guard let more = timeout.extend?(.nanoseconds(now - started), 0), more > .zero else { return false }
    expiry = instant(now, plus: more.clampedNanoseconds)
    armDeadline()
    return true
  }

  /// Whether the time for connecting as a whole is over at `now`. With a timeout of zero, one attempt that need not wait may still succeed.
  func isOver(at now: Int64) -> Bool { expiry <= now && !timeout.isImmediate }

  /// The number of the try.
  var tries: Int { retries?.tries ?? 1 }

  func beginTry() -> ConnectTry {
    let current = ConnectTry(registration, lookUps)
    self.current = current
    return current
  }

  /// Stops everything that is in progress in this try.
  func endTry() { current.take()?.end() }

  /// Stops everything that is in progress.
  func end() {
    endTry()
    for deadline in [deadline.take(), nextTry.take()] { if let deadline { registration.disarm(deadline) } }
  }

  /// The error if the time for connecting as a whole is over.
  var outOfTime: SocketError {
    let error = current?.timedOut(timeout.limit)
    return retries?.timedOut(error, timeout.limit) ?? error
      ?? SocketError(.timedOut, operation: "connect", detail: "not connected \(timeout.limit)")
  }
}

/// One try to connect: the search for an address that answers, and then what is said ahead of the stream.
final class ConnectTry {
  /// Decides which addresses to try, and when.
  var plan = HappyEyeballs(trying: [], attemptDelay: 0)
  /// The addresses to connect from, if the configuration sets a source.
  var sources: SourceAddresses?
  /// The sockets that are connecting, by the number of their attempt.
  var sockets: [Int: ConnectingSocket] = [:]
  /// The timer for the next step of the plan.
  var timer: DeadlineKey?
  /// The deadline for this try.
  var deadline: DeadlineKey?
  /// The conversations that remain: with a proxy, and ahead of the stream.
  var preambles: [any Preamble] = []
  var negotiation = Negotiation()
  /// The socket that is connected, while the preambles are under way.
  private(set) var negotiating: ConnectingSocket?
  /// The addresses of that socket and of its peer.
  private(set) var local: SocketAddress?
  private(set) var remote: SocketAddress?
  /// The name that is being looked up.
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

  /// Starts looking a name up in each address family that may be tried.
  ///
  /// - Parameters:
  ///   - name: The name.
  ///   - configuration: Has the resolver and the families.
  ///   - done: Called on any thread with the outcome of each family.
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

  /// A socket is connected, and the preambles begin on it. The search ends.
  func negotiate(on socket: ConnectingSocket, local: SocketAddress?, remote: SocketAddress) {
    sockets[socket.attempt.id] = nil
    endSearch()
    negotiating = socket
    (self.local, self.remote) = (local, remote)
  }

  /// Stops everything that is in progress.
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

  /// Returns the error of a try that has timed out.
  func timedOut(_ limit: String) -> SocketError {
    guard let negotiating, let preamble = preambles.first else { return plan.timedOut(lookingUp: name, limit) }
    let detail = "\(preamble.awaited) was not complete \(limit)"
    return SocketError(.timedOut, operation: "connect", detail: detail, address: negotiating.destination)
  }
}

extension Registration {
  /// Disarms deadlines of a connection that is being dropped, perhaps on another thread than the reactor's.
  func disarmAnywhere(_ deadlines: DeadlineKey?...) {
    let deadlines = deadlines.compactMap { $0 }
    if deadlines.isEmpty { return }
    reactor.submit { for deadline in deadlines { self.disarm(deadline) } }
  }
}

/// One of the sockets that a connection tries to connect, in the isolation of its connection.
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
