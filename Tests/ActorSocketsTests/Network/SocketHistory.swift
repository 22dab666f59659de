import Glibc
import SocketSystem
import TestSupport

@testable import ActorSocketsTesting

/// A sequence of calls on a few sockets, which is made on Linux and on the simulated kernel. Both run the same code: the calls of
/// `SocketSystem`.
struct SocketHistory: ComparedHistory {
  /// A call on one of the sockets, which are numbered.
  enum Call {
    case make(Int, isIPv6: Bool)
    case set(Int, RawOption, Int32)
    /// Binds to an address of this history, and to port 0 or to the port of another socket.
    case bind(Int, Place, portOf: Int?)
    case listen(Int, backlog: Int32)
    /// Connects to the address that another socket is bound to.
    case connect(Int, to: Int)
    /// Connects to a port that no socket of the history listens on.
    case connectNowhere(Int)
    /// Accepts into the place of another socket, if that is free.
    case accept(Int, into: Int)
    case send(Int, Int)
    case receive(Int, Int)
    case peek(Int, Int)
    case shutdownWriting(Int)
    case shutdownBoth(Int)
    case resetOnClose(Int)
    case close(Int)
    case error(Int)
    case local(Int)
    case remote(Int)
    case receivable(Int)
    case isListening(Int)
    case watch(Int)
    case rewatch(Int)
    case unwatch(Int)
    case poll
  }

  enum Place: CaseIterable { case own, other, any, foreign }

  let seed: UInt64
  var calls: [Call] = []

  /// A history that a seed decides. Most begin with a connection.
  init(seed: UInt64) {
    self.seed = seed
    var random = SeededRandom(seed: seed)
    let isIPv6 = random.below(4) == 0
    if random.below(8) != 0 {
      calls = [
        .make(0, isIPv6: isIPv6), .bind(0, .own, portOf: nil), .listen(0, backlog: 3), .make(1, isIPv6: isIPv6),
      ]
      if random.below(2) == 0 { calls += [.watch(0), .watch(1)] }
      calls += [.connect(1, to: 0)]
      if random.below(4) != 0 { calls += [.accept(0, into: 2)] }
      if random.below(2) == 0 { calls += [.watch(2), .poll] }
    }
    for _ in 0..<(5 + random.below(30)) { calls.append(Self.call(isIPv6, &random)) }
    calls.append(.poll)
  }

  private static func call(_ isIPv6: Bool, _ random: inout SeededRandom) -> Call {
    let one = random.below(HistorySockets.count)
    let other = random.below(HistorySockets.count)
    let amount = 1 + random.below(3_000)
    switch random.below(40) {
    case 0: return .make(one, isIPv6: random.below(8) == 0 ? !isIPv6 : isIPv6)
    case 1:
      let option = [RawOption.reuseAddress, .reusePort, .ipv6Only][random.below(3)]
      return .set(one, option, Int32(random.below(2)))
    case 2, 3:
      let place = Place.allCases[random.below(Place.allCases.count)]
      return .bind(one, place, portOf: random.below(2) == 0 ? other : nil)
    case 4: return .listen(one, backlog: Int32(random.below(3)))
    case 5, 6, 7: return .connect(one, to: other)
    case 8: return .connectNowhere(one)
    case 9, 10, 11: return .accept(one, into: other)
    case 12...16: return .send(one, amount)
    case 17...20: return .receive(one, random.below(2) == 0 ? amount : 100_000)
    case 21: return .peek(one, amount)
    case 22: return .shutdownWriting(one)
    case 23: return .shutdownBoth(one)
    case 24: return .resetOnClose(one)
    case 25, 26: return .close(one)
    case 27: return .error(one)
    case 28: return .local(one)
    case 29: return .remote(one)
    case 30: return .receivable(one)
    case 31: return .isListening(one)
    case 32, 33: return .watch(one)
    case 34: return .rewatch(one)
    case 35: return .unwatch(one)
    default: return .poll
    }
  }

  func outcomes(_ sockets: HistorySockets, _ settle: () -> Void) -> [String] {
    SocketHistoryRun(self, sockets).outcomes(settle)
  }
}

/// A history while it runs.
private struct SocketHistoryRun {
  private let history: SocketHistory
  private let sockets: HistorySockets

  init(_ history: SocketHistory, _ sockets: HistorySockets) {
    self.history = history
    self.sockets = sockets
  }

  /// Makes the calls.
  ///
  /// - Parameter settle: Called after each call; lets packets arrive.
  /// - Returns: A line for each call.
  func outcomes(_ settle: () -> Void) -> [String] {
    var outcomes: [String] = []
    for call in history.calls {
      outcomes.append("\(call): \(HistorySockets.outcome { try make(call) })")
      settle()
    }
    // No connection stays behind in TIME_WAIT.
    for socket in sockets.all { try? socket.resetOnClose() }
    return outcomes
  }

  private func make(_ call: SocketHistory.Call) throws -> String {
    switch call {
    case .make(let index, let isIPv6):
      return try sockets.make(in: index) {
        let descriptor = try OwnedDescriptor.streamSocket(family: isIPv6 ? SocketKind.ipv6 : SocketKind.ipv4)
        // Without it, what is sent depends on when the peer acknowledges, which Linux puts off.
        try descriptor.socket.set(.noDelay, to: 1)
        return descriptor
      }
    case .accept(let index, let place): return try sockets.accept(from: index, into: place) { sockets.name($0) }
    case .close(let index): return sockets.close(index)
    case .poll: return sockets.poll()
    default:
      guard let socket = sockets[call.index] else { return "none" }
      return try make(call, on: socket)
    }
  }

  private func make(_ call: SocketHistory.Call, on socket: BorrowedDescriptor) throws -> String {
    switch call {
    case .set(_, let option, let value): try socket.set(option, to: value)
    case .bind(_, let place, let other):
      try socket.bind(to: try address(place, like: socket).with(port: other.map { try port(of: $0) } ?? 0))
    case .listen(_, let backlog): try socket.listen(backlog: backlog)
    case .connect(_, let other):
      guard let target = try sockets[other]?.localAddress() else { return "none" }
      // The kernel chooses a port by itself then, perhaps the socket's own: a connection with itself.
      if target.port == 0 || other == call.index { return "none" }
      return "\(try socket.connect(to: target))"
    case .connectNowhere:
      // Port 1 has no server.
      return "\(try socket.connect(to: try address(.own, like: socket).with(port: 1)))"
    case .send(_, let count): return socket.send([UInt8](repeating: 7, count: count).span).outcome
    case .receive(_, let count):
      var bytes: [UInt8] = []
      return socket.receive(appendingTo: &bytes, atMost: count).outcome + " \(bytes.count)"
    case .peek(_, let count):
      var bytes: [UInt8] = []
      return socket.peek(into: &bytes, atMost: count).outcome + " \(bytes.count)"
    case .shutdownWriting: try socket.shutdownWriting()
    case .shutdownBoth: try socket.shutdownBoth()
    case .resetOnClose: try socket.resetOnClose()
    case .error: return "\(try socket.get(.pendingError))"
    case .local: return sockets.name(try socket.localAddress())
    case .remote: return sockets.name(try socket.remoteAddress())
    case .receivable: return "\(socket.receivableBytes())"
    case .isListening: return "\(try socket.get(.isListening))"
    case .watch(let index): try sockets.epoll.add(socket.number, token: UInt64(index))
    case .rewatch(let index): try sockets.epoll.change(socket.number, token: UInt64(index))
    case .unwatch: sockets.epoll.remove(socket.number)
    default: return "?"
    }
    return "done"
  }

  private func port(of index: Int) throws -> UInt16 { try sockets[index]?.localAddress()?.port ?? 0 }

  private func address(_ place: SocketHistory.Place, like socket: BorrowedDescriptor) throws -> SocketAddress {
    if try socket.get(.domain) == SocketKind.ipv6 {
      switch place {
      case .own, .other: return .ipv6(.loopback, port: 0)
      case .any: return .ipv6(.any, port: 0)
      case .foreign: return try SocketAddress(parsing: "[2001:db8::1]:0")
      }
    }
    switch place {
    case .own, .other:
      // Each history has addresses of its own, so that others' connections do not matter.
      let number = UInt32(truncatingIfNeeded: history.seed % 4_000_000)
      return .ipv4(IPv4Address(rawValue: 127 << 24 | (1 + 2 * number + (place == .own ? 0 : 1))), port: 0)
    case .any: return .ipv4(.any, port: 0)
    case .foreign: return .ipv4(IPv4Address(192, 0, 2, 1), port: 0)
    }
  }
}

extension SocketHistory.Call {
  /// The socket that is used.
  var index: Int {
    switch self {
    case .make(let index, _), .set(let index, _, _), .bind(let index, _, _), .listen(let index, _),
      .connect(let index, _), .connectNowhere(let index), .accept(let index, _), .send(let index, _),
      .receive(let index, _), .peek(let index, _), .shutdownWriting(let index), .shutdownBoth(let index),
      .resetOnClose(let index), .close(let index), .error(let index), .local(let index), .remote(let index),
      .receivable(let index), .isListening(let index), .watch(let index), .rewatch(let index), .unwatch(let index):
      index
    case .poll: 0
    }
  }
}
