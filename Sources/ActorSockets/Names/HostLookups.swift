import EpollReactor
import SocketSystem

/// Looks names up with getaddrinfo(3), which blocks without a time limit, each on a thread of its own. `LookUpSchedule` says which look-up
/// begins when, and how many there may be.
///
/// Invariants:
/// - Callers that look up the same name and family share one look-up.
/// - A caller that cancels returns at once. A look-up that no caller waits for is not started.
///
/// No other code runs on these threads, so neither the reactor nor Swift's pool ever blocks on a name.
actor HostLookups: ReactorActor {
  typealias Outcome = Result<[SocketAddress], SocketError>

  static let shared = HostLookups(
    Reactor.ofProcess, maximumThreads: min(mostThreads, max(1, DescriptorReserve.refresh().limit / 4)),
    blockingLookUp: lookUp)

  /// The largest number of threads in the whole process. Each needs a descriptor, so there are fewer if the process may have few.
  static let mostThreads = 256

  /// Blocks the thread.
  @Sendable static func lookUp(_ query: HostQuery) -> Outcome {
    do throws(NameLookupError) {
      return .success(try lookUpAddresses(of: query.name, isIPv4: query.family == .ipv4))
    } catch {
      return .failure(SocketError(error, query))
    }
  }

  nonisolated let executor: ReactorExecutor
  /// For the deadline: it is in the reactor's table only while the deadline is armed.
  private nonisolated let registration: Registration
  private let blockingLookUp: @Sendable (HostQuery) -> Outcome
  private var schedule: LookUpSchedule
  private var waiters: [HostQuery: Waiters<[SocketAddress]>] = [:]
  private var isTimed = false

  init(
    _ reactor: Reactor, maximumThreads: Int = mostThreads, blockingLookUp: @escaping @Sendable (HostQuery) -> Outcome
  ) {
    registration = Registration(on: reactor)
    executor = registration
    schedule = LookUpSchedule(maximumThreads: maximumThreads)
    self.blockingLookUp = blockingLookUp
  }

  deinit {
    if registration.needsToLeave { registration.reactor.submit { [registration] in registration.leave() } }
  }

  func addresses(of query: HostQuery) async throws -> [SocketAddress] {
    let waiter = try ask(query, claimPlaceNow())
    let id = waiter.id
    await wait(for: waiter.suspension) { submit { $0.leave(query, id) } }
    return try waiter.result()
  }

  private func ask(_ query: HostQuery, _ place: Place) throws -> Waiters<[SocketAddress]>.Waiter {
    try Task.checkCancellation()
    let waiter = waiters[query, default: Waiters()].add(place)
    schedule.ask(query)
    proceed()
    return waiter
  }

  private func leave(_ query: HostQuery, _ id: UInt64) {
    waiters[query]?.remove(id)?.resume(.failure(CancellationError()))
    guard waiters[query]?.isEmpty == true else { return }
    waiters[query] = nil
    schedule.leave(query)
    proceed()
  }

  private func proceed() {
    while true {
      switch schedule.next(at: registration.reactor.now) {
      case .begin(let query): begin(query)
      case .wait(let time): return time.map { wake(at: $0) } ?? ()
      }
    }
  }

  private func begin(_ query: HostQuery) {
    do {
      try startThread(name: "lookup") { [blockingLookUp] in
        let outcome = blockingLookUp(query)
        self.submit { $0.finished(query, outcome) }
      }
    } catch {
      if schedule.foundNoThread(for: query) { return }
      answer(query, .failure(SocketError(error, operation: "look up")))
    }
  }

  private func finished(_ query: HostQuery, _ outcome: Outcome) {
    schedule.finished(query)
    answer(query, outcome)
    proceed()
  }

  private func answer(_ query: HostQuery, _ outcome: Outcome) {
    let outcome = outcome.mapError { $0 as any Error }
    var answered = waiters.removeValue(forKey: query) ?? Waiters()
    answered.resumeAll(outcome)
  }

  private func wake(at time: Int64) {
    if isTimed { return }
    // A reactor that is shut down has no deadlines. The look-ups that wait then begin when others end.
    guard (try? registration.enter(self)) != nil else { return }
    isTimed = true
    _ = registration.arm(at: time, tag: DeadlineTag(.lookUp))
  }
}

extension HostLookups: EventHandler {
  func handle(_ readiness: Readiness) {}

  func deadlineReached(_ tag: DeadlineTag) {
    if tag.kind != .lookUp { tag.isUnexpected(by: Self.self) }
    reactorShutDown()
    proceed()
  }

  func reactorShutDown() {
    isTimed = false
    registration.leave()
  }
}

extension SocketError {
  init(_ error: NameLookupError, _ query: HostQuery) {
    switch error.cause {
    case .noAddress:
      self = .notFound(query.name, error.message)
    case .noAnswer:
      self.init(
        .resolverFailed, operation: "look up",
        detail: "no name server answered for \(AddressError.quote(query.name)), try again later: \(error.message)")
    case .system(let errno):
      self.init(
        .resolverFailed, operation: "look up",
        detail: "\(AddressError.quote(query.name)) could not be looked up: \(error.message)", errno: errno)
    }
  }
}
