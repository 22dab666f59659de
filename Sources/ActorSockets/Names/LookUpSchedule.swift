// Which look-up gets a thread next: a pure state machine. The time is an argument of `next`.
//
// A thread that looks a name up cannot be stopped: with a dead name server, it stays for as long as getaddrinfo(3) tries, and that may be
// half a minute. So slow look-ups must not count against fast ones, but their number must have a limit.
//
// Invariants:
// - A query is queued or running, or not known. It runs once, whoever asks for it meanwhile.
// - At most `maximumThreads` look-ups run.
// - At most `promptThreads` of them are prompt: they have run for less than `promptTime`, and a caller waits for them. So a program with
//   thousands of names asks for a few at a time, and what a dead server delays, or a caller has left, holds up nothing for long.
// - A domain gets another thread only while it has fewer threads than are free. So one domain has at most half of all threads, and the
//   last free thread goes to a domain without a thread.
// - The domains take turns. The look-ups of a domain begin in the order in which they were asked for.
//
//            ask             next                 finished
//   (none) ───────▶ queued ────────▶ running ───────────────▶ (none)
//                     │ leave           │ leave: not prompt any more
//                     ▼                 ▼
//                   (none)           running

struct LookUpSchedule {
  enum Step: Equatable {
    /// Start a thread for this query; call `finished` when it is done.
    case begin(HostQuery)
    case wait(until: Int64?)
  }

  static let promptThreads = 8
  /// How long a look-up is prompt, in nanoseconds.
  static let promptTime: Int64 = 100_000_000

  private struct Queued: Identified {
    let id: UInt64
    let query: HostQuery
  }

  private struct Domain {
    var queue = FIFO<Queued>()
    var running = 0
    /// The number of its turn, while it has queries in the queue.
    var turn: UInt64?
  }

  private struct Turn: Identified {
    let id: UInt64
    let domain: HostQuery.Domain
  }

  private let maximumThreads: Int
  private var nextNumber: UInt64 = 0
  private var domains: [HostQuery.Domain: Domain] = [:]
  private var turns = FIFO<Turn>()
  /// The number of each query that waits for a thread.
  private var queued: [HostQuery: UInt64] = [:]
  /// Until when each look-up that runs is prompt.
  private var running: [HostQuery: Int64] = [:]
  /// The system had no thread for a look-up, and no look-up has ended since.
  private var isOutOfThreads = false

  init(maximumThreads: Int) { self.maximumThreads = maximumThreads }

  // MARK: Events

  mutating func ask(_ query: HostQuery) {
    if running[query] != nil || queued[query] != nil { return }
    nextNumber += 1
    queued[query] = nextNumber
    let entry = Queued(id: nextNumber, query: query)
    domains[query.domain, default: Domain()].queue.append(entry)
    takeTurn(query.domain)
  }

  mutating func leave(_ query: HostQuery) {
    if running[query] != nil { running[query] = .min }
    guard let number = queued.removeValue(forKey: query), var domain = domains[query.domain] else { return }
    if let index = domain.queue.index(of: number) { domain.queue.remove(at: index) }
    if domain.queue.isEmpty, let turn = domain.turn.take(), let index = turns.index(of: turn) {
      turns.remove(at: index)
    }
    keep(domain, query.domain)
  }

  mutating func finished(_ query: HostQuery) {
    isOutOfThreads = false
    stop(query)
  }

  /// The look-up begins when another one has ended. Returns false if no other one runs; then the query is not known any more.
  mutating func foundNoThread(for query: HostQuery) -> Bool {
    stop(query)
    if running.isEmpty { return false }
    isOutOfThreads = true
    ask(query)
    return true
  }

  private mutating func stop(_ query: HostQuery) {
    guard running.removeValue(forKey: query) != nil, var domain = domains[query.domain] else { return }
    domain.running -= 1
    keep(domain, query.domain)
  }

  private mutating func keep(_ domain: Domain, _ key: HostQuery.Domain) {
    domains[key] = domain.running == 0 && domain.queue.isEmpty ? nil : domain
  }

  private mutating func takeTurn(_ key: HostQuery.Domain) {
    guard let domain = domains[key], domain.turn == nil, !domain.queue.isEmpty else { return }
    nextNumber += 1
    domains[key]?.turn = nextNumber
    turns.append(Turn(id: nextNumber, domain: key))
  }

  // MARK: Actions

  mutating func next(at now: Int64) -> Step {
    let free = isOutOfThreads ? 0 : maximumThreads - running.count
    if turns.isEmpty || free <= 0 { return .wait(until: nil) }
    let prompt = running.values.filter { $0 > now }
    if prompt.count >= Self.promptThreads { return .wait(until: prompt.min()) }
    // Only domains that have threads are passed over, so this loop is short.
    for _ in 0..<turns.count {
      guard let key = turns.popFirst()?.domain, var domain = domains[key] else { break }
      domain.turn = nil
      let query = domain.running < free ? domain.queue.popFirst()?.query : nil
      if let query {
        queued[query] = nil
        running[query] = instant(now, plus: Self.promptTime)
        domain.running += 1
      }
      domains[key] = domain
      takeTurn(key)
      if let query { return .begin(query) }
    }
    return .wait(until: nil)
  }
}
