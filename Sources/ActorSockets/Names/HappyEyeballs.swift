internal import SocketSystem

// Which addresses to try, and when: Happy Eyeballs version 2, RFC 8305, as a pure state machine. Each event carries the time.
//
// For a stream, an attempt is a connect(2) to the address. For datagrams, an attempt asks the kernel for a route, and ends at once.
//
// Invariants:
// - The address families take turns, and the preferred one goes first with `firstFamilyCount` addresses. Each address is tried
//   once. It is tried again only after a connection to itself or a full backlog.
// - The first attempt begins as soon as the preferred family's addresses are known. If only the other family's are known, it
//   waits for the preferred ones for the resolution delay: 50 ms, or 0 if no family is preferred.
// - A further attempt begins when the attempt delay has passed since the previous one began, or at once when one fails. Earlier
//   attempts continue. The first to connect wins, and the caller closes the others.
// - Addresses may arrive at any time before the end, and are then tried in turn.
// - Connecting has failed when every address has failed and no more can arrive. The error names each address and its failure.
//
//                    resolved                      succeeded
//   awaiting ───────────────────▶ attempts ──────────────────▶ (the machine is dropped)
//      │ nothing was found           │ all failed
//      └───────────▶ failed ◀────────┘

struct HappyEyeballs {
  struct Attempt: Equatable {
    let id: Int
    let address: SocketAddress
  }

  enum Step {
    /// Begin this attempt, then call `next` again.
    case attempt(Attempt)
    /// Nothing to do until an event arrives or this instant is reached.
    case wait(until: Int64?)
    case fail(SocketError)
  }

  private struct Family {
    let family: AddressFamily?
    var isAwaited: Bool
    var untried: [SocketAddress] = []
    var lookUpError: SocketError?
    var begun = 0
  }

  /// How long to wait for the preferred family's addresses once the other family's are known: RFC 8305, section 8.
  static let resolutionDelay: Int64 = 50_000_000
  /// The shortest time between the starts of two attempts, unless the first one fails: RFC 8305, section 8.
  static let shortestAttemptDelay: Int64 = 10_000_000
  /// The largest number of addresses of one family that are tried. A name server may send thousands.
  static let maximumAddresses = 32
  /// How often an address is tried again after the kernel has connected a socket to itself there.
  static let maximumRepetitions = 3
  /// The first and the longest delay before a unix socket whose backlog is full is tried again.
  private static let backlogDelays: ClosedRange<Int64> = 1_000_000...100_000_000

  private let attemptDelay: Int64
  private let firstFamilyCount: Int
  private let resolutionDelay: Int64
  private var families: [Family]
  /// The index of the family that was tried last. The other family is next.
  private var lastFamily = 1
  private var resolutionEnd: Int64 = .max
  private var nextAttempt: Int64 = .min
  private var nextID = 0
  private var underWay: [Attempt] = []
  private var failures: [SocketError] = []
  private var repetitions: [SocketAddress: Int] = [:]
  private var backlogDelay = HappyEyeballs.backlogDelays.lowerBound
  /// The unix socket whose backlog was full at the last attempt.
  private var fullBacklog: SocketAddress?

  init(awaiting preference: AddressPreference, attemptDelay: Int64) {
    self.init(awaiting: preference.families, of: preference, attemptDelay: attemptDelay)
  }

  /// The families are some or all of the preference's, in the order in which they are tried.
  init(awaiting families: [AddressFamily], of preference: AddressPreference, attemptDelay: Int64) {
    self.attemptDelay = max(attemptDelay, Self.shortestAttemptDelay)
    firstFamilyCount = preference.firstFamilyCount
    resolutionDelay = preference.resolutionDelay
    self.families = families.map { Family(family: $0, isAwaited: true) }
  }

  /// All addresses are known. They and their families are preferred in the order given.
  init(trying addresses: [SocketAddress], attemptDelay: Int64) {
    self.attemptDelay = max(attemptDelay, Self.shortestAttemptDelay)
    firstFamilyCount = 1
    resolutionDelay = 0
    families = []
    for address in addresses {
      let family = address.addressFamily
      if !families.contains(where: { $0.family == family }) {
        families.append(Family(family: family, isAwaited: false))
      }
      for index in families.indices where families[index].family == family { families[index].untried.append(address) }
    }
  }

  // MARK: Events

  mutating func resolved(_ family: AddressFamily, _ outcome: Result<[SocketAddress], SocketError>, at now: Int64) {
    guard let index = families.firstIndex(where: { $0.family == family && $0.isAwaited }) else { return }
    families[index].isAwaited = false
    switch outcome {
    case .failure(let error): families[index].lookUpError = error
    case .success(let addresses):
      // Ignore addresses of the other family: the caller did not ask for them.
      families[index].untried = Array(addresses.filter { $0.addressFamily == family }.prefix(Self.maximumAddresses))
    }
    if index > 0, !families[index].untried.isEmpty { resolutionEnd = instant(now, plus: resolutionDelay) }
  }

  mutating func failed(_ attempt: Attempt, _ error: SocketError, at now: Int64) {
    underWay.removeAll { $0 == attempt }
    failures.append(error)
    nextAttempt = now
  }

  /// An attempt has connected the socket to itself (RFC 9293, section 3.5), because the kernel chose the destination port as
  /// the local port. Another try gets another port.
  mutating func connectedToItself(_ attempt: Attempt, at now: Int64) {
    let count = repetitions[attempt.address, default: 0] + 1
    repetitions[attempt.address] = count
    if count <= Self.maximumRepetitions { return putBack(attempt, until: now) }
    let detail = "no process listens there; the socket had connected to itself"
    failed(
      attempt, SocketError(.connectionRefused, operation: "connect", detail: detail, address: attempt.address), at: now)
  }

  /// The backlog of a unix socket is full, and no event will announce room.
  mutating func foundBacklogFull(_ attempt: Attempt, at now: Int64) {
    fullBacklog = attempt.address
    putBack(attempt, until: instant(now, plus: backlogDelay))
    backlogDelay = min(2 * backlogDelay, Self.backlogDelays.upperBound)
  }

  private mutating func putBack(_ attempt: Attempt, until time: Int64) {
    underWay.removeAll { $0 == attempt }
    nextAttempt = time
    for index in families.indices where families[index].family == attempt.address.addressFamily {
      families[index].untried.insert(attempt.address, at: 0)
    }
  }

  // MARK: Actions

  mutating func next(at now: Int64) -> Step {
    guard let index = nextFamily else {
      if underWay.isEmpty, !families.contains(where: \.isAwaited) { return .fail(outcome) }
      return .wait(until: nil)
    }
    let start = max(nextAttempt, mayBegin(index))
    if now < start { return .wait(until: start == .max ? nil : start) }
    let attempt = Attempt(id: nextID, address: families[index].untried.removeFirst())
    nextID += 1
    families[index].begun += 1
    lastFamily = index
    nextAttempt = instant(now, plus: attemptDelay)
    underWay.append(attempt)
    return .attempt(attempt)
  }

  /// When an address of this family may be tried, considering only the look-ups.
  private func mayBegin(_ index: Int) -> Int64 {
    index > 0 && families[0].isAwaited && nextID == 0 ? resolutionEnd : .min
  }

  private var nextFamily: Int? {
    if families.isEmpty { return nil }
    if families[0].begun < firstFamilyCount, !families[0].untried.isEmpty { return 0 }
    let turns = families.indices.map { (lastFamily + 1 + $0) % families.count }
    return turns.first { !families[$0].untried.isEmpty }
  }

  /// The next one comes first.
  var untried: [SocketAddress] {
    families.indices.flatMap { families[(lastFamily + 1 + $0) % families.count].untried }
  }

  // MARK: Outcome

  /// The errors that say that there is no way to an address.
  static let noWay: [SocketError.Code] = [.unreachable, .familyNotSupported, .addressNotAvailable]

  private var outcome: SocketError {
    if failures.isEmpty { return lookUpFailure }
    if failures.count == 1 { return failures[0] }
    // "No route" says less than the failures of the other addresses, so those decide the code.
    let codes = Set(failures.map(\.code))
    let telling = codes.subtracting(Self.noWay)
    let code = codes.count == 1 ? codes.first : telling.count == 1 ? telling.first : nil
    return SocketError(
      code ?? .unreachable, operation: "connect",
      detail: "none of \(failures.count) addresses answered: \(Self.list(failures))", causes: failures)
  }

  /// A name server's failure is preferred to "not found", because that server may know addresses.
  private var lookUpFailure: SocketError {
    let errors = families.compactMap(\.lookUpError)
    return errors.first { $0.code != .hostNotFound } ?? errors.first
      ?? SocketError(.hostNotFound, operation: "connect", detail: "the list of addresses to connect to is empty")
  }

  /// The name is `nil` if there was no look-up. The limit is in words: "within 30 s".
  func timedOut(lookingUp name: String?, _ limit: String) -> SocketError {
    if let fullBacklog {
      return SocketError(
        .timedOut, operation: "connect",
        detail: "the backlog stayed full \(limit): the server accepts too few connections", address: fullBacklog)
    }
    let unanswered = underWay.map {
      SocketError(.timedOut, operation: "connect", detail: "no answer", address: $0.address)
    }
    let causes = failures + unanswered
    var parts: [String] = []
    if let name, families.contains(where: \.isAwaited) {
      parts.append("the look-up of \(AddressError.quote(name)) did not end \(limit)")
    }
    if causes.count == 1, failures.isEmpty {
      parts.append("no address answered \(limit)")
      let detail = parts.joined(separator: ", and ")
      return SocketError(.timedOut, operation: "connect", detail: detail, address: causes[0].address)
    }
    if !causes.isEmpty { parts.append("none of \(causes.count) addresses answered \(limit): \(Self.list(causes))") }
    let detail = parts.isEmpty ? "nothing was tried \(limit)" : parts.joined(separator: ", and ")
    return SocketError(.timedOut, operation: "connect", detail: detail, causes: causes)
  }

  private static func list(_ errors: [SocketError]) -> String { errors.map { "\($0)" }.joined(separator: "; ") }
}
