internal import EpollReactor
internal import SocketSystem

/// What a connection has only while it is connecting.
final class ConnectAttempt {
  let id: UInt64
  private let registration: Registration
  let timeout: Timeout
  let noDelay: Bool
  let started: Int64
  var plan = ConnectPlan([])
  /// The address under way.
  var address: SocketAddress?
  /// The name that is being looked up.
  private(set) var name: String?
  var deadline: DeadlineKey?

  init(id: UInt64, _ registration: Registration, timeout: Timeout, noDelay: Bool, started: Int64) {
    self.id = id
    self.registration = registration
    self.timeout = timeout
    self.noDelay = noDelay
    self.started = started
  }

  /// The connection was dropped, anywhere.
  deinit {
    leaveLookup()
    guard let deadline else { return }
    registration.reactor.submit { [registration] in registration.disarm(deadline) }
  }

  /// Has a name looked up; `done` is called at most once, on the look-ups' reactor.
  func lookUp(_ name: String, _ done: @escaping HostLookups.Waiter) {
    self.name = name
    HostLookups.shared.submit { [id] (lookups: isolated HostLookups) in lookups.ask(name, id, done) }
  }

  /// The look-up has come out.
  func lookedUp() { name = nil }

  /// Leaves the look-up, if there is one.
  func leaveLookup() {
    guard let name = name.take() else { return }
    HostLookups.shared.submit { [id] (lookups: isolated HostLookups) in lookups.leave(name, id) }
  }
}
