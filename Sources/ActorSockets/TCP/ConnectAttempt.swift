internal import EpollReactor
internal import SocketSystem

/// The tags of the deadlines that exist while connecting.
package enum ConnectDeadline: UInt64, Sendable {
  /// The whole of connecting has timed out.
  case connect
  /// The plan's next step is due.
  case nextAttempt
  /// One try has timed out.
  case tryLimit
  /// The next try is due.
  case nextTry
  /// The header of an accepted connection has not arrived in time.
  case header

  var tag: UInt64 { ConnectionDeadline.own(self).rawValue }
}

/// The state that a connection has only while it is connecting.
final class ConnectAttempt {
  let endpoint: Endpoint
  let configuration: TCPConnection.Configuration
  let timeout: Timeout
  let started: Int64
  /// The tries, if there may be several.
  var retries: RetrySchedule?
  /// Decides which addresses to try, and when.
  var plan = HappyEyeballs(trying: [], attemptDelay: 0)
  /// The addresses to connect from, if the configuration sets a source.
  var sources: SourceAddresses?
  /// The sockets that are connecting, by the number of their attempt.
  var sockets: [Int: ConnectingSocket] = [:]
  /// What is said to a proxy, and ahead of the stream; `nil` if there is nothing.
  var negotiation: Negotiation?
  /// A try has failed, and the next one is not due yet.
  private(set) var isBetweenTries = false
  /// The socket that is connected, while the negotiation goes on.
  private(set) var negotiating: ConnectingSocket?
  /// The deadline for connecting as a whole.
  var deadline: DeadlineKey?
  /// The deadline for one try.
  var tryDeadline: DeadlineKey?
  /// The timer for the next step of the plan, or for the next try.
  var timer: DeadlineKey?
  /// The name that is being looked up.
  private(set) var name: String?
  private var lookUps: [Task<Void, Never>] = []
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
    retries = configuration.retry.map(RetrySchedule.init)
  }

  /// The connection may be dropped on any thread, so the deadlines are disarmed on the reactor's.
  deinit {
    for lookUp in lookUps { lookUp.cancel() }
    let deadlines = [deadline, tryDeadline, timer].compactMap { $0 }
    if deadlines.isEmpty { return }
    registration.reactor.submit { [registration] in for deadline in deadlines { registration.disarm(deadline) } }
  }

  /// Starts looking a name up in each address family that may be tried.
  ///
  /// - Parameters:
  ///   - name: The name.
  ///   - done: Called on any thread with the outcome of each family.
  func lookUp(_ name: String, _ done: @escaping @Sendable (AddressFamily, HostLookups.Outcome) -> Void) {
    self.name = name
    let resolver = configuration.resolver
    lookUps = configuration.addressPreference.families.map { family in
      Task.detached { done(family, await resolver.outcome(of: name, family: family)) }
    }
  }

  /// Whether addresses are still being tried. It is not so between two tries, and once a socket is connected.
  var isSearching: Bool { negotiating == nil && !isBetweenTries }

  /// A try begins.
  func beginTry() { isBetweenTries = false }

  /// A socket is connected, and the negotiation begins on it. Everything else that is in progress stops.
  func negotiate(on socket: ConnectingSocket) {
    sockets[socket.attempt.id] = nil
    endSearch()
    negotiating = socket
  }

  /// Stops everything that is in progress in this try.
  func endTry() {
    isBetweenTries = true
    endSearch()
    if let tryDeadline = tryDeadline.take() { registration.disarm(tryDeadline) }
    negotiating.take()?.registration.leave()
  }

  /// Stops everything that is in progress.
  func end() {
    endTry()
    if let deadline = deadline.take() { registration.disarm(deadline) }
  }

  private func endSearch() {
    if let timer = timer.take() { registration.disarm(timer) }
    for lookUp in lookUps { lookUp.cancel() }
    lookUps = []
    for socket in sockets.values { socket.registration.leave() }
    sockets = [:]
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
    of connection: TCPConnection
  ) {
    executor = connection.executor
    self.attempt = attempt
    self.destination = destination
    self.connection = connection
    registration = Registration(on: executor.reactor, holding: descriptor)
  }

  deinit {
    if registration.needsToLeave { registration.reactor.submit { [registration] in registration.leave() } }
  }

  func handle(_ readiness: Readiness) {
    connection?.assumeIsolated { $0.handle(readiness, of: self) }
  }

  func deadlineReached(_ deadline: NoDeadline) {}
  func reactorShutDown() { registration.leave() }
}
