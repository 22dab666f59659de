import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

/// Calls on a few sockets that a seed decides. They can be made on Linux and on a simulated kernel, by the same code: the calls of
/// `SocketSystem`.
struct History {
  let seed: UInt64
  var random: SeededRandom
  private var calls: [HistoryCall] = []
  /// Removes what outlives the sockets on Linux.
  var cleanUp: () -> Void = {}

  init(seed: UInt64) {
    self.seed = seed
    random = SeededRandom(seed: seed)
  }

  mutating func add(_ calls: HistoryCall...) { self.calls += calls }

  mutating func add(_ count: Int, _ draw: (inout History) -> HistoryCall) {
    for _ in 0..<count { calls.append(draw(&self)) }
  }

  /// Makes the calls on free places, and returns a line for each. After each call it asks whether that was the last that can be compared,
  /// which lets packets arrive.
  func outcomes(_ sockets: HistorySockets, until isOver: () -> Bool = { false }) -> [String] {
    var outcomes: [String] = []
    for call in calls {
      outcomes.append("\(call.text): \(call.outcome(sockets))")
      if isOver() { break }
    }
    // No connection stays behind in TIME_WAIT.
    for socket in sockets.all { try? socket.resetOnClose() }
    return outcomes
  }

  private func onLinux() throws -> [String] {
    defer { cleanUp() }
    return outcomes(try HistorySockets())
  }

  /// Makes the calls on a simulated host, until some messages can no longer be received by any program. Linux discards such messages at
  /// some later time.
  private func simulated() throws -> [String] {
    let network = SimulatedNetwork(now: 1_000_000_000, seed: seed)
    let host = network.addHost("host")
    return try CurrentSystem.using(SystemHolder(network)) {
      outcomes(try HistorySockets()) {
        network.advance()
        return network.kernel(of: host)?.unreachable.isEmpty == false
      }
    }
  }

  /// Records an issue if the two kernels differ. Returns whether Linux does the same every time.
  func compare() throws -> Bool {
    let simulated = try simulated()
    func onLinux() throws -> [String] { Array(try self.onLinux().prefix(simulated.count)) }
    if try onLinux() == simulated { return true }
    // Linux may have been late with a packet, or another process may have held a lock. Only what it does every time is compared.
    let again = try (0..<3).map { _ in try onLinux() }
    if again.contains(simulated) { return false }
    let index = zip(again[0], simulated).enumerated().first { $1.0 != $1.1 }?.offset ?? 0
    let before = again[0][..<index].joined(separator: "\n")
    Issue.record("seed \(seed): Linux: \(again[0][index]), simulated: \(simulated[index]), after:\n\(before)")
    return true
  }

  // MARK: What a seed decides

  mutating func below(_ limit: Int) -> Int { random.below(limit) }

  mutating func isOne(of count: Int) -> Bool { random.below(count) == 0 }

  mutating func pick<Element>(_ elements: [Element]) -> Element { elements[random.below(elements.count)] }

  mutating func place() -> Int { random.below(HistorySockets.places) }

  /// Mostly a few bytes, and sometimes more than fit.
  mutating func size(_ large: Range<Int>, _ medium: Int) -> Int {
    switch below(12) {
    case 0: 0
    case 1: large.lowerBound + below(large.count)
    case 2: 1_400 + below(medium)
    default: 1 + below(100)
    }
  }

  mutating func sizes(_ large: Range<Int>, _ medium: Int) -> [Int] {
    (0..<(1 + below(5))).map { _ in size(large, medium) }
  }

  /// A call that sockets of all kinds have. The interest of datagram sockets changes, as that of endpoints does.
  mutating func commonCall(on place: Int, changesInterest: Bool = false) -> HistoryCall {
    switch below(18) {
    case 0: .peek(place, 1 + below(300))
    case 1: .do(place, "shutdown writing") { try $1.shutdownWriting() }
    case 2: .do(place, "shutdown both") { try $1.shutdownBoth() }
    case 3, 4: .do(place, "close") { sockets, _ in sockets.close(place) }
    case 5: .get(place, "error") { "\(try $1.get(.pendingError))" }
    case 6: .get(place, "local") { $0.name(try $1.localAddress()) }
    case 7: .get(place, "remote") { $0.name(try $1.remoteAddress()) }
    case 8: .get(place, "receivable") { "\($1.receivableBytes())" }
    case 9: .get(place, "is listening") { "\(try $1.get(.isListening))" }
    case 10, 11: .watch(place)
    case 12: rewatch(place, changesInterest ? below(6) : 0)
    case 13: .do(place, "unwatch") { $0.epoll.remove($1.number) }
    default: .poll
    }
  }

  private func rewatch(_ place: Int, _ number: Int) -> HistoryCall {
    let (what, interest): (String, Readiness) =
      switch number {
      case 1: ("room only", .writable)
      case 2: ("arrivals only", .readable)
      case 3: ("no room", .ofDatagramSocket)
      case 4: ("no arrivals", .ofSocket.subtracting(.readable))
      default: ("all", .ofSocket)
      }
    return .do(place, "rewatch \(what)") { try $0.epoll.change($1.number, token: UInt64(place), interest: interest) }
  }
}

extension SeededRandom {
  /// A number from 0 to `limit - 1`.
  mutating func below(_ limit: Int) -> Int { Int(next() % UInt64(limit)) }
}
