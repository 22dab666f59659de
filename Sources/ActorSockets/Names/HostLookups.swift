import EpollReactor
import SocketSystem

/// Looks names up with getaddrinfo(3), which blocks for as long as it likes.
///
/// Invariants:
/// - At most `maximumThreads` look-ups are under way, each on a thread of its own; others wait in the order they came.
/// - Look-ups of one name are shared.
/// - Who leaves is not called any more, and a name that nobody waits for is not begun.
///
/// The threads belong to nobody else: neither the reactor nor Swift's pool ever waits for a name.
actor HostLookups: ReactorActor {
  typealias Outcome = Result<[SocketAddress], SocketError>
  typealias Waiter = @Sendable (Outcome) -> Void

  /// The look-ups of the whole process.
  static let shared = HostLookups(Reactor.shared) { name in
    do throws(NameLookupError) {
      return .success(try lookUpAddresses(of: name))
    } catch {
      let hint = error.isTemporary ? "; the name server did not answer, try again later" : ""
      return .failure(
        SocketError(
          .hostNotFound, operation: "look up",
          detail: "\(AddressError.quote(name)) has no address: \(error.message)\(hint)"))
    }
  }

  nonisolated let executor: ReactorExecutor
  private let blockingLookUp: @Sendable (String) -> Outcome
  private var waiters: [String: [UInt64: Waiter]] = [:]
  /// The names that wait for a thread, each with a ticket, so that one that nobody wants any more is found at once.
  private var queue = FIFO<Queued>()
  private var tickets: [String: UInt64] = [:]
  private var nextTicket: UInt64 = 0
  private var underWay: Set<String> = []
  private let maximumThreads: Int

  private struct Queued: Identified {
    let id: UInt64
    let name: String
  }

  init(_ reactor: Reactor, maximumThreads: Int = 4, blockingLookUp: @escaping @Sendable (String) -> Outcome) {
    executor = ReactorExecutor(reactor)
    self.maximumThreads = maximumThreads
    self.blockingLookUp = blockingLookUp
  }

  /// Asks for a name's addresses; the waiter is called once, on this actor's reactor, unless `leave` comes before.
  func ask(_ name: String, _ id: UInt64, _ waiter: @escaping Waiter) {
    waiters[name, default: [:]][id] = waiter
    if !underWay.contains(name), tickets[name] == nil {
      nextTicket += 1
      tickets[name] = nextTicket
      queue.append(Queued(id: nextTicket, name: name))
    }
    beginNext()
  }

  /// Takes a waiter back.
  func leave(_ name: String, _ id: UInt64) {
    waiters[name]?[id] = nil
    guard waiters[name]?.isEmpty == true else { return }
    waiters[name] = nil
    if let ticket = tickets.removeValue(forKey: name), let index = queue.index(of: ticket) { queue.remove(at: index) }
  }

  private func beginNext() {
    while underWay.count < maximumThreads, let name = queue.popFirst()?.name {
      tickets[name] = nil
      underWay.insert(name)
      do {
        try startThread(name: "lookup") { [blockingLookUp] in
          let outcome = blockingLookUp(name)
          self.submit { $0.finished(name, outcome) }
        }
      } catch {
        answer(name, .failure(SocketError(error, operation: "look up")))
      }
    }
  }

  private func finished(_ name: String, _ outcome: Outcome) {
    answer(name, outcome)
    beginNext()
  }

  private func answer(_ name: String, _ outcome: Outcome) {
    underWay.remove(name)
    let answered = waiters.removeValue(forKey: name) ?? [:]
    for waiter in answered.values { waiter(outcome) }
  }
}
