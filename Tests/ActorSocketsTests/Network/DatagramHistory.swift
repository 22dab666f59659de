import Glibc
import SocketSystem
import TestSupport

@testable import ActorSocketsTesting

/// A sequence of calls on a few UDP sockets, which is made on Linux and on the simulated kernel. Both run the same code: the calls of
/// `SocketSystem`.
struct DatagramHistory: ComparedHistory {
  /// A call on one of the sockets, which are numbered.
  enum Call {
    case make(Int, isIPv6: Bool)
    case set(Int, RawOption, Int32)
    /// Binds to an address of this history, and to port 0 or to the port of another socket.
    case bind(Int, Place, portOf: Int?)
    /// Connects to an address, with the port that another socket has.
    case connect(Int, Place, portOf: Int)
    case disconnect(Int)
    /// Sends to the peer.
    case send(Int, Int)
    /// Sends to an address, with the port that another socket has.
    case sendTo(Int, Place, portOf: Int, Int)
    /// Sends several in one call.
    case sendBatch(Int, Place, portOf: Int, [Int])
    case receive(Int, atMost: Int)
    case receiveBatch(Int, atMost: Int, size: Int)
    case peek(Int, Int)
    case takeReport(Int)
    case change(Int, joins: Bool, group: Int, source: Int?, interface: UInt32)
    case shutdownWriting(Int)
    case shutdownBoth(Int)
    case close(Int)
    case error(Int)
    case local(Int)
    case remote(Int)
    case receivable(Int)
    case watch(Int)
    case unwatch(Int)
    case poll
  }

  /// The addresses of a history. `network` is that of the network interface, `silent` has no sockets.
  enum Place: CaseIterable { case own, other, any, network, foreign, silent, group, broadcast }

  let seed: UInt64
  var calls: [Call] = []

  /// A history that a seed decides.
  init(seed: UInt64) {
    self.seed = seed
    var random = SeededRandom(seed: seed)
    let isIPv6 = random.below(3) == 0
    for index in 0..<3 where random.below(8) != 0 {
      calls.append(.make(index, isIPv6: random.below(8) == 0 ? !isIPv6 : isIPv6))
      if random.below(2) == 0 { calls.append(.watch(index)) }
      if random.below(2) == 0 { calls.append(.set(index, .reuseAddress, 1)) }
      if random.below(3) != 0 {
        calls.append(.bind(index, random.below(2) == 0 ? .own : .any, portOf: random.below(4) == 0 ? 0 : nil))
      }
      for isIPv4 in [true, false] where random.below(2) == 0 {
        calls += [
          .set(index, .errors(isIPv4: isIPv4), 1), .set(index, .localAddress(isIPv4: isIPv4), 1),
          .set(index, .receivesHopLimit(isIPv4: isIPv4), 1), .set(index, .receivesTrafficClass(isIPv4: isIPv4), 1),
        ]
      }
    }
    for _ in 0..<(5 + random.below(30)) { calls.append(Self.call(isIPv6, &random)) }
    calls.append(.poll)
  }

  private static func place(_ random: inout SeededRandom) -> Place {
    if random.below(3) != 0 { return [.own, .other, .any][random.below(3)] }
    return Place.allCases[random.below(Place.allCases.count)]
  }

  private static func size(_ random: inout SeededRandom) -> Int {
    switch random.below(12) {
    case 0: 0
    case 1: 65_500 + random.below(40)
    case 2: 1_400 + random.below(5_000)
    default: 1 + random.below(100)
    }
  }

  private static func call(_ isIPv6: Bool, _ random: inout SeededRandom) -> Call {
    let one = random.below(HistorySockets.count)
    let other = random.below(HistorySockets.count)
    switch random.below(46) {
    case 0, 1: return .make(one, isIPv6: random.below(8) == 0 ? !isIPv6 : isIPv6)
    case 2, 3, 4: return .set(one, option(&random), Int32(random.below(2)))
    case 5, 6: return .bind(one, place(&random), portOf: random.below(2) == 0 ? other : nil)
    case 7, 8, 9: return .connect(one, place(&random), portOf: other)
    case 10: return .disconnect(one)
    case 11...14: return .send(one, size(&random))
    case 15...20: return .sendTo(one, place(&random), portOf: other, size(&random))
    case 21, 22:
      return .sendBatch(one, place(&random), portOf: other, (0..<(1 + random.below(5))).map { _ in size(&random) })
    case 23...25: return .receive(one, atMost: 1 + random.below(200))
    case 26...29: return .receiveBatch(one, atMost: 1 + random.below(6), size: 1 + random.below(2_000))
    case 30: return .peek(one, 1 + random.below(200))
    case 31, 32: return .takeReport(one)
    case 33, 34:
      return .change(
        one, joins: random.below(3) != 0, group: random.below(3), source: random.below(4) == 0 ? random.below(2) : nil,
        interface: [0, 1, 2, 2, 7][random.below(5)])
    case 35: return random.below(2) == 0 ? .shutdownWriting(one) : .shutdownBoth(one)
    case 36: return .close(one)
    case 37: return .error(one)
    case 38, 39: return .local(one)
    case 40: return .remote(one)
    case 41: return .receivable(one)
    case 42: return .watch(one)
    case 43: return .unwatch(one)
    default: return .poll
    }
  }

  private static func option(_ random: inout SeededRandom) -> RawOption {
    let isIPv4 = random.below(2) == 0
    let options: [RawOption] = [
      .reuseAddress, .ipv6Only, .broadcast, .errors(isIPv4: isIPv4), .localAddress(isIPv4: isIPv4),
      .multicastLoopback(isIPv4: isIPv4), .multicastAll(isIPv4: isIPv4), .receivesHopLimit(isIPv4: isIPv4),
    ]
    return options[random.below(options.count)]
  }

  func outcomes(_ sockets: HistorySockets, _ settle: () -> Void) -> [String] {
    DatagramHistoryRun(self, sockets).outcomes(settle)
  }
}

/// A history while it runs.
private struct DatagramHistoryRun {
  private let history: DatagramHistory
  private let sockets: HistorySockets
  private let batch = DatagramBatch()

  init(_ history: DatagramHistory, _ sockets: HistorySockets) {
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
    return outcomes
  }

  private func make(_ call: DatagramHistory.Call) throws -> String {
    switch call {
    case .make(let index, let isIPv6):
      return try sockets.make(in: index) {
        try OwnedDescriptor.datagramSocket(family: isIPv6 ? SocketKind.ipv6 : SocketKind.ipv4)
      }
    case .close(let index): return sockets.close(index)
    case .poll: return sockets.poll()
    default:
      guard let socket = sockets[call.index] else { return "none" }
      return try make(call, on: socket)
    }
  }

  private func make(_ call: DatagramHistory.Call, on socket: BorrowedDescriptor) throws -> String {
    switch call {
    case .set(_, let option, let value): try socket.set(option, to: value)
    case .bind(_, let place, let other):
      try socket.bind(to: try address(place, like: socket).with(port: other.map { try port(of: $0) } ?? 0))
    case .connect(_, let place, let other):
      guard let target = try target(place, other, like: socket) else { return "none" }
      // Which of two sockets with the same two addresses receives depends on the version of Linux.
      if try isShared(call.index) { return "none" }
      return "\(try socket.connect(to: target))"
    case .disconnect: try socket.disconnect()
    case .send(_, let count): return socket.send(Self.bytes(count).span, to: nil).outcome
    case .sendTo(_, let place, let other, let count):
      guard let target = try target(place, other, like: socket) else { return "none" }
      return socket.send(Self.bytes(count).span, to: target).outcome
    case .sendBatch(_, let place, let other, let sizes):
      guard let target = try target(place, other, like: socket), let batch else { return "none" }
      batch.clear()
      for size in sizes { _ = batch.add(Self.bytes(size).span, to: target, nil, isIPv6: target.unmapped.isIPv6) }
      return "\(try batch.send(on: socket))"
    case .receive(_, let count):
      var bytes: [UInt8] = []
      return socket.receive(appendingTo: &bytes, atMost: count).outcome + " \(bytes.count)"
    case .receiveBatch(_, let limit, let size):
      guard let batch else { return "none" }
      let count = try batch.receive(from: socket, atMost: limit, size: size, withMetadata: true)
      return (0..<count).map { describe($0, of: batch) }.joined(separator: "; ")
    case .peek(_, let count):
      var bytes: [UInt8] = []
      return socket.peek(into: &bytes, atMost: count).outcome + " \(bytes.count)"
    case .takeReport:
      guard let report = socket.takeReportedError() else { return "no report" }
      return "\(report.errno) \(name(report.destination)) \(report.reporter.map { "\($0)" } ?? "no reporter")"
    case .change(_, let joins, let group, let source, let interface):
      return try change(socket, joins, group, source, interface)
    case .shutdownWriting: try socket.shutdownWriting()
    case .shutdownBoth: try socket.shutdownBoth()
    case .error: return "\(try socket.get(.pendingError))"
    case .local: return name(try socket.localAddress())
    case .remote: return name(try socket.remoteAddress())
    case .receivable: return "\(socket.receivableBytes())"
    case .watch(let index): try sockets.epoll.add(socket.number, token: UInt64(index))
    case .unwatch: sockets.epoll.remove(socket.number)
    default: return "?"
    }
    return "done"
  }

  private func change(
    _ socket: BorrowedDescriptor, _ joins: Bool, _ group: Int, _ source: Int?, _ interface: UInt32
  ) throws -> String {
    let isIPv6 = try socket.get(.domain) == SocketKind.ipv6
    let group = try IPAddress(parsing: isIPv6 ? "ff15::\(group + 1)" : "239.1.2.\(group + 1)")
    let sources = isIPv6 ? ["fd00::1", "::1"] : ["10.0.0.1", "127.0.0.1"]
    try socket.changeMembership(
      joins: joins, group: group, source: try source.map { try IPAddress(parsing: sources[$0]) },
      interface: interface)
    return "done"
  }

  private func describe(_ index: Int, of batch: DatagramBatch) -> String {
    let metadata = batch.metadata(index)
    let (length, cut) = (batch.length(index), batch.isTruncated(index) ? " cut" : "")
    let local = metadata.localAddress.map { "\($0)" } ?? "-"
    let answer = metadata.answerAddress.map { "\($0)" } ?? "-"
    return "\(length)\(cut) from \(name(batch.address(index))) to \(local)%\(metadata.interface) answer \(answer)"
      + " hops \(metadata.hopLimit.map { "\($0)" } ?? "-") class \(metadata.trafficClass.map { "\($0)" } ?? "-")"
  }

  /// Whether another socket with a peer has the same port.
  private func isShared(_ index: Int) throws -> Bool {
    let port = try port(of: index)
    return try (0..<HistorySockets.count).contains { other in
      let isConnected = sockets[other].flatMap { try? $0.remoteAddress() } != nil
      return try other != index && isConnected && self.port(of: other) == port
    }
  }

  /// Port 1 has no socket.
  private func name(_ address: SocketAddress?) -> String { sockets.name(address, knownPortsUpTo: 1) }

  private func port(of index: Int) throws -> UInt16 { try sockets[index]?.localAddress()?.port ?? 0 }

  /// The address to send to; `nil` if the other socket has no port.
  private func target(
    _ place: DatagramHistory.Place, _ other: Int, like socket: BorrowedDescriptor
  ) throws -> SocketAddress? {
    let port = place == .silent ? 1 : try port(of: other)
    return port == 0 ? nil : try address(place, like: socket).with(port: port)
  }

  private func address(_ place: DatagramHistory.Place, like socket: BorrowedDescriptor) throws -> SocketAddress {
    if try socket.get(.domain) == SocketKind.ipv6 {
      let text =
        switch place {
        case .own, .other, .silent: "::1"
        case .any: "::"
        case .network: "fd00::1"
        case .foreign: "2001:db8::1"
        case .group: "ff15::1%2"
        case .broadcast: "::ffff:10.255.255.255"
        }
      return try SocketAddress(parsing: "[\(text)]:0")
    }
    switch place {
    case .own, .other, .silent:
      // Each history has addresses of its own, so that others do not matter.
      let number = UInt32(truncatingIfNeeded: history.seed % 4_000_000)
      return .ipv4(IPv4Address(rawValue: 127 << 24 | (1 + 2 * number + (place == .other ? 1 : 0))), port: 0)
    case .any: return .ipv4(.any, port: 0)
    case .network: return .ipv4(IPv4Address(10, 0, 0, 1), port: 0)
    case .foreign: return .ipv4(IPv4Address(192, 0, 2, 1), port: 0)
    case .group: return .ipv4(IPv4Address(239, 1, 2, 1), port: 0)
    case .broadcast: return .ipv4(IPv4Address(10, 255, 255, 255), port: 0)
    }
  }

  private static func bytes(_ count: Int) -> [UInt8] { [UInt8](repeating: 7, count: count) }
}

extension DatagramHistory.Call {
  /// The socket that is used.
  var index: Int {
    switch self {
    case .make(let index, _), .set(let index, _, _), .bind(let index, _, _), .connect(let index, _, _),
      .disconnect(let index), .send(let index, _), .sendTo(let index, _, _, _), .sendBatch(let index, _, _, _),
      .receive(let index, _), .receiveBatch(let index, _, _), .peek(let index, _), .takeReport(let index),
      .change(let index, _, _, _, _), .shutdownWriting(let index), .shutdownBoth(let index), .close(let index),
      .error(let index), .local(let index), .remote(let index), .receivable(let index), .watch(let index),
      .unwatch(let index):
      index
    case .poll: 0
    }
  }
}
