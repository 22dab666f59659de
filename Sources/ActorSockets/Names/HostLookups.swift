import EpollReactor
import SocketSystem

/// A name to look up.
struct HostQuery: Hashable, Sendable {
  let name: String
  let family: AddressFamily
}

/// Looks names up with getaddrinfo(3), which blocks without a time limit.
///
/// Invariants:
/// - At most `maximumThreads` look-ups run, each on its own thread. Others wait in the order in which they arrived.
/// - Callers that look up the same name and family share one look-up.
/// - A caller that cancels returns at once. A look-up that no caller waits for is not started.
///
/// No other code runs on these threads, so neither the reactor nor Swift's pool ever blocks on a name.
actor HostLookups: ReactorActor {
  typealias Outcome = Result<[SocketAddress], SocketError>

  /// The look-ups of the whole process.
  static let shared = HostLookups(Reactor.ofProcess, blockingLookUp: lookUp)

  /// Looks up a name. Blocks the thread.
  @Sendable static func lookUp(_ query: HostQuery) -> Outcome {
    do throws(NameLookupError) {
      return .success(try lookUpAddresses(of: query.name, isIPv4: query.family == .ipv4))
    } catch {
      return .failure(SocketError(error, query))
    }
  }

  nonisolated let executor: ReactorExecutor
  private let blockingLookUp: @Sendable (HostQuery) -> Outcome
  private var waiters: [HostQuery: Waiters<[SocketAddress]>] = [:]
  /// The look-ups that wait for a thread. Each has a ticket, by which one that is no longer wanted is found.
  private var queue = FIFO<Queued>()
  private var tickets: [HostQuery: UInt64] = [:]
  private var nextTicket: UInt64 = 0
  private var underWay: Set<HostQuery> = []
  private let maximumThreads: Int

  private struct Queued: Identified {
    let id: UInt64
    let query: HostQuery
  }

  init(_ reactor: Reactor, maximumThreads: Int = 8, blockingLookUp: @escaping @Sendable (HostQuery) -> Outcome) {
    executor = ReactorExecutor(ofSocketOn: reactor)
    self.maximumThreads = maximumThreads
    self.blockingLookUp = blockingLookUp
  }

  /// Waits for the addresses. Cancellation ends the wait.
  func addresses(of query: HostQuery) async throws -> [SocketAddress] {
    let waiter = try ask(query, claimPlaceNow())
    let id = waiter.id
    await wait(for: waiter.suspension) { submit { $0.leave(query, id) } }
    return try waiter.result()
  }

  private func ask(_ query: HostQuery, _ place: Place) throws -> Waiters<[SocketAddress]>.Waiter {
    try Task.checkCancellation()
    let waiter = waiters[query, default: Waiters()].add(place)
    if !underWay.contains(query), tickets[query] == nil {
      nextTicket += 1
      tickets[query] = nextTicket
      queue.append(Queued(id: nextTicket, query: query))
    }
    beginNext()
    return waiter
  }

  private func leave(_ query: HostQuery, _ id: UInt64) {
    waiters[query]?.remove(id)?.resume(.failure(CancellationError()))
    guard waiters[query]?.isEmpty == true else { return }
    waiters[query] = nil
    if let ticket = tickets.removeValue(forKey: query), let index = queue.index(of: ticket) { queue.remove(at: index) }
  }

  private func beginNext() {
    while underWay.count < maximumThreads, let query = queue.popFirst()?.query {
      tickets[query] = nil
      underWay.insert(query)
      do {
        try startThread(name: "lookup") { [blockingLookUp] in
          let outcome = blockingLookUp(query)
          self.submit { $0.finished(query, outcome) }
        }
      } catch {
        answer(query, .failure(SocketError(error, operation: "look up")))
      }
    }
  }

  private func finished(_ query: HostQuery, _ outcome: Outcome) {
    answer(query, outcome)
    beginNext()
  }

  private func answer(_ query: HostQuery, _ outcome: Outcome) {
    underWay.remove(query)
    let outcome = outcome.mapError { $0 as any Error }
    var answered = waiters.removeValue(forKey: query) ?? Waiters()
    answered.resumeAll(outcome)
  }
}

extension SocketError {
  /// Creates the error for a failed getaddrinfo(3).
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
