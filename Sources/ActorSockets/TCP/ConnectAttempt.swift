internal import EpollReactor
internal import SocketSystem

/// The tags of the deadlines of connecting.
package enum ConnectDeadline: UInt64, Sendable {
  /// Connecting as a whole has timed out.
  case connect
  /// The plan's next step is due.
  case nextAttempt

  var tag: UInt64 { ConnectionDeadline.own(self).rawValue }
}

/// What a connection has only while it is connecting.
final class ConnectAttempt {
  let configuration: TCPConnection.Configuration
  let timeout: Timeout
  let started: Int64
  /// Decides what to try, and when.
  var plan = HappyEyeballs(trying: [], attemptDelay: 0)
  /// Where to connect from, if that was said.
  var sources: SourceAddresses?
  /// The sockets that are under way, by their attempt's number.
  var sockets: [Int: ConnectingSocket] = [:]
  /// For all of it together.
  var deadline: DeadlineKey?
  /// For the next step of the plan.
  var timer: DeadlineKey?
  /// The name that is being looked up.
  private(set) var name: String?
  private var lookUps: [Task<Void, Never>] = []
  private let registration: Registration

  init(
    _ registration: Registration, _ configuration: TCPConnection.Configuration, timeout: Timeout, started: Int64
  ) {
    self.registration = registration
    self.configuration = configuration
    self.timeout = timeout
    self.started = started
  }

  /// The connection was dropped, anywhere.
  deinit {
    for lookUp in lookUps { lookUp.cancel() }
    let deadlines = [deadline, timer].compactMap { $0 }
    if deadlines.isEmpty { return }
    registration.reactor.submit { [registration] in for deadline in deadlines { registration.disarm(deadline) } }
  }

  /// Has a name looked up in each family that may be tried.
  ///
  /// - Parameters:
  ///   - name: The name.
  ///   - done: Called with each family's outcome, anywhere.
  func lookUp(_ name: String, _ done: @escaping @Sendable (AddressFamily, HostLookups.Outcome) -> Void) {
    self.name = name
    let resolver = configuration.resolver
    lookUps = configuration.addressPreference.families.map { family in
      Task.detached { done(family, await resolver.outcome(of: name, family: family)) }
    }
  }

  /// Gives up all that is under way.
  func end() {
    for deadline in [deadline.take(), timer.take()] { if let deadline { registration.disarm(deadline) } }
    for lookUp in lookUps { lookUp.cancel() }
    lookUps = []
    for socket in sockets.values { socket.registration.leave() }
    sockets = [:]
  }
}

/// One socket that is being connected, in the isolation of its connection. Several may be under way.
actor ConnectingSocket: EventHandler {
  nonisolated let executor: ReactorExecutor
  nonisolated let attempt: HappyEyeballs.Attempt
  /// Where it goes to: the attempt's address, on its interface.
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
    if readiness.contains(.connectFinished) { connection?.assumeIsolated { $0.settled(self) } }
  }

  func deadlineReached(_ deadline: NoDeadline) {}
  func reactorShutDown() { registration.leave() }
}
