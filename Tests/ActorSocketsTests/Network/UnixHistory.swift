import Glibc
import SocketSystem
import TestSupport

@testable import ActorSocketsTesting

/// A sequence of calls on a few unix sockets, which is made on Linux and on the simulated kernel. Both run the same code: the calls of
/// `SocketSystem`.
struct UnixHistory: ComparedHistory {
  /// A call on one of the sockets, which are numbered.
  enum Call {
    case make(Int, isDatagram: Bool)
    case bind(Int, Place)
    case bindToFreeName(Int)
    /// Binds as a listener or an endpoint does, which replaces a stale file.
    case makeFile(Int, Place, backlog: Int32?)
    /// Removes the file that the socket made so.
    case removeFile(Int)
    case listen(Int, backlog: Int32)
    case connect(Int, Place)
    case disconnect(Int)
    /// Accepts into the place of another socket, if that is free.
    case accept(Int, into: Int)
    case send(Int, Int)
    case sendTo(Int, Place, Int)
    /// Sends several datagrams in one call.
    case sendBatch(Int, Place, [Int])
    case receive(Int, Int)
    case receiveBatch(Int, atMost: Int, size: Int)
    case peek(Int, Int)
    /// Sends bytes, and the sockets of some places with them. Only a datagram goes to an address.
    case pass(Int, Place?, Int, [Int])
    /// Receives bytes or datagrams of a length, with room for a number of descriptors.
    case take(Int, Int, descriptors: Int)
    case receivesCredentials(Int, Bool)
    case shutdownWriting(Int)
    case shutdownBoth(Int)
    case close(Int)
    case error(Int)
    case local(Int)
    case remote(Int)
    case credentials(Int)
    case receivable(Int)
    case unacknowledged(Int)
    case isListening(Int)
    case watch(Int)
    case rewatch(Int)
    case unwatch(Int)
    case poll
  }

  /// The names of a history. `rareFile` is seldom there; `foreign` is an IPv4 address.
  enum Place: CaseIterable { case file, otherFile, abstract, otherAbstract, rareFile, unnamed, foreign }

  let seed: UInt64
  /// Where its files are.
  let folder: String
  var calls: [Call] = []

  /// A history that a seed decides. Most begin with a connection.
  init(seed: UInt64, in folder: String) {
    self.seed = seed
    self.folder = folder
    var random = SeededRandom(seed: seed)
    let kind = random.below(5)
    if kind < 2 { beginWithStreams(&random) } else if kind < 4 { beginWithDatagrams(&random) }
    for _ in 0..<(5 + random.below(35)) { calls.append(Self.call(mostlyDatagrams: kind >= 2, &random)) }
    calls.append(.poll)
  }

  private mutating func beginWithStreams(_ random: inout SeededRandom) {
    let place = Self.place(&random)
    calls = [
      .make(0, isDatagram: false), .bind(0, place), .listen(0, backlog: Int32(random.below(3))),
      .make(1, isDatagram: false),
    ]
    if random.below(2) == 0 { calls += [.watch(0), .watch(1)] }
    calls += [.connect(1, place)]
    if random.below(4) != 0 { calls += [.accept(0, into: 2)] }
    if random.below(2) == 0 { calls += [.watch(2), .poll] }
  }

  private mutating func beginWithDatagrams(_ random: inout SeededRandom) {
    let places: [Place] = random.below(2) == 0 ? [.file, .otherFile] : [.abstract, .otherAbstract]
    for index in 0..<3 where random.below(8) != 0 {
      calls.append(.make(index, isDatagram: true))
      if random.below(2) == 0 { calls.append(.watch(index)) }
      if index < 2, random.below(6) != 0 { calls.append(.bind(index, places[index])) }
      if random.below(3) == 0 { calls.append(.receivesCredentials(index, true)) }
    }
    if random.below(2) == 0 { calls.append(.connect(1, places[0])) }
    if random.below(3) == 0 { calls.append(.connect(0, places[1])) }
    // Enough to fill a queue.
    if random.below(4) == 0 {
      for _ in 0..<(9 + random.below(4)) { calls.append(random.below(3) == 0 ? .sendTo(2, places[0], 5) : .send(1, 3)) }
    }
  }

  private static func place(_ random: inout SeededRandom) -> Place {
    switch random.below(16) {
    case 0...5: .file
    case 6, 7: .otherFile
    case 8...11: .abstract
    case 12: .otherAbstract
    case 13: .rareFile
    case 14: .unnamed
    default: .foreign
    }
  }

  private static func size(_ random: inout SeededRandom) -> Int {
    switch random.below(12) {
    case 0: 0
    case 1: 200_000 + random.below(40_000)
    case 2: 1_400 + random.below(50_000)
    default: 1 + random.below(100)
    }
  }

  private static func call(mostlyDatagrams: Bool, _ random: inout SeededRandom) -> Call {
    let one = random.below(HistorySockets.count)
    let other = random.below(HistorySockets.count)
    switch random.below(72) {
    case 0...2: return .make(one, isDatagram: random.below(6) == 0 ? !mostlyDatagrams : mostlyDatagrams)
    case 3, 4: return .bind(one, place(&random))
    case 5: return .bindToFreeName(one)
    case 6, 7:
      return .makeFile(
        one, [.file, .otherFile][random.below(2)], backlog: mostlyDatagrams ? nil : Int32(random.below(3)))
    case 8: return .removeFile(one)
    case 9: return .listen(one, backlog: Int32(random.below(3)))
    case 10...13: return .connect(one, place(&random))
    case 14: return .disconnect(one)
    case 15, 16: return .accept(one, into: other)
    case 17...22: return .send(one, size(&random))
    case 23...25: return mostlyDatagrams ? .sendTo(one, place(&random), size(&random)) : .accept(one, into: other)
    case 26: return .sendBatch(one, place(&random), (0..<(1 + random.below(5))).map { _ in size(&random) })
    case 27...31: return .receive(one, random.below(2) == 0 ? 1 + random.below(200) : 100_000)
    case 32...34: return .receiveBatch(one, atMost: 1 + random.below(6), size: 1 + random.below(2_000))
    case 35: return .peek(one, 1 + random.below(300))
    case 36: return .receivesCredentials(one, random.below(2) == 0)
    case 37, 38: return .shutdownWriting(one)
    case 39: return .shutdownBoth(one)
    case 40...42: return .close(one)
    case 43: return .error(one)
    case 44: return .local(one)
    case 45: return .remote(one)
    case 46: return .credentials(one)
    case 47: return .receivable(one)
    case 48: return .unacknowledged(one)
    case 49: return .isListening(one)
    case 50, 51: return .watch(one)
    case 52: return .rewatch(one)
    case 53: return .unwatch(one)
    case 54...59:
      let places = (0..<(1 + random.below(3))).map { _ in random.below(HistorySockets.count) }
      return .pass(one, random.below(2) == 0 ? nil : place(&random), size(&random), places)
    case 60...65:
      return .take(one, random.below(2) == 0 ? 1 + random.below(200) : 100_000, descriptors: random.below(4))
    default: return .poll
    }
  }

  // MARK: Running

  func outcomes(_ sockets: HistorySockets, _ settle: () -> Void) -> [String] {
    var run = UnixHistoryRun(self, sockets)
    return run.outcomes { false }
  }

  /// Makes the calls on a simulated host, until some messages can no longer be received by any program. Linux discards such messages at
  /// some later time.
  func simulated() throws -> [String] {
    let network = SimulatedNetwork(now: 1_000_000_000, seed: seed)
    let host = network.addHost("host")
    return try CurrentSystem.using(SystemHolder(network)) {
      var run = UnixHistoryRun(self, HistorySockets(try makePoller()))
      return run.outcomes { network.kernel(of: host)?.unreachable.isEmpty == false }
    }
  }

  func onLinux() throws -> [String] {
    defer { for name in ["file", "other", "rare"] { unsafe unlink("\(folder)/\(seed)\(name)") } }
    return outcomes(HistorySockets(try makePoller())) {}
  }
}

/// A history while it runs.
struct UnixHistoryRun {
  private let history: UnixHistory
  let sockets: HistorySockets
  private var files: [UnixSocketFile?] = Array(repeating: nil, count: HistorySockets.count)
  let batch = DatagramBatch()

  init(_ history: UnixHistory, _ sockets: HistorySockets) {
    self.history = history
    self.sockets = sockets
  }

  /// Makes the calls.
  ///
  /// - Parameter isOver: Asked after each call whether it was the last that can be compared.
  /// - Returns: A line for each call.
  mutating func outcomes(until isOver: () -> Bool) -> [String] {
    var outcomes: [String] = []
    for call in history.calls {
      outcomes.append("\(call): \(HistorySockets.outcome { try make(call) })")
      if isOver() { break }
    }
    return outcomes
  }

  private mutating func make(_ call: UnixHistory.Call) throws -> String {
    switch call {
    case .make(let index, let isDatagram):
      return try sockets.make(in: index) {
        isDatagram
          ? try OwnedDescriptor.datagramSocket(family: SocketKind.unix)
          : try OwnedDescriptor.streamSocket(family: SocketKind.unix)
      }
    case .accept(let index, let place): return try sockets.accept(from: index, into: place) { name($0) }
    case .close(let index):
      files[index] = nil
      return sockets.close(index)
    case .poll: return sockets.poll()
    default:
      guard let socket = sockets[call.index] else { return "none" }
      return try make(call, on: socket)
    }
  }

  private mutating func make(_ call: UnixHistory.Call, on socket: BorrowedDescriptor) throws -> String {
    switch call {
    case .bind(_, let place): try socket.bind(to: address(place))
    case .bindToFreeName: try socket.bind(to: .unix(.unnamed))
    case .makeFile(let index, let place, let backlog):
      guard case .unix(let path) = address(place) else { return "none" }
      files[index] = try UnixSocketFile.make(for: socket, at: path, permissions: nil, backlog: backlog)
    case .removeFile(let index): files[index]?.remove()
    case .listen(_, let backlog): try socket.listen(backlog: backlog)
    case .connect(_, let place): return "\(try socket.connect(to: address(place)))"
    case .disconnect: try socket.disconnect()
    case .receivesCredentials(_, let isOn):
      // What it does to streams depends on the version of Linux, and the framework has no use for it there.
      if try socket.isStream() { return "a stream" }
      try socket.set(.receivesCredentials, to: isOn ? 1 : 0)
    case .shutdownWriting: try socket.shutdownWriting()
    case .shutdownBoth: try socket.shutdownBoth()
    case .error: return "\(try socket.get(.pendingError))"
    case .local: return name(try socket.localAddress())
    case .remote: return name(try socket.remoteAddress())
    case .credentials: return Self.text(try socket.peerCredentials())
    case .receivable: return "\(socket.receivableBytes())"
    case .unacknowledged: return "\(socket.unacknowledgedBytes())"
    case .isListening: return "\(try socket.get(.isListening))"
    case .watch(let index): try sockets.epoll.add(socket.number, token: UInt64(index))
    case .rewatch(let index): try sockets.epoll.change(socket.number, token: UInt64(index))
    case .unwatch: sockets.epoll.remove(socket.number)
    default: return try transfer(call, on: socket)
    }
    return "done"
  }

  private mutating func transfer(_ call: UnixHistory.Call, on socket: BorrowedDescriptor) throws -> String {
    switch call {
    case .send(_, let count): return socket.send(Self.bytes(count).span).outcome
    case .sendTo(_, let place, let count):
      return try socket.isStream() ? "a stream" : socket.send(Self.bytes(count).span, to: address(place)).outcome
    case .sendBatch(_, let place, let sizes):
      guard let batch, try !socket.isStream() else { return "none" }
      batch.clear()
      for size in sizes { _ = batch.add(Self.bytes(size).span, to: address(place), nil, isIPv6: false) }
      return "\(try batch.send(on: socket))"
    case .receive(_, let count):
      var bytes: [UInt8] = []
      return socket.receive(appendingTo: &bytes, atMost: count).outcome + " \(Self.ends(bytes))"
    case .receiveBatch(_, let limit, let size):
      guard let batch, try !socket.isStream() else { return "none" }
      let count = try batch.receive(from: socket, atMost: limit, size: size, withMetadata: true)
      return (0..<count).map { describe($0, of: batch) }.joined(separator: "; ")
    case .peek(_, let count):
      var bytes: [UInt8] = []
      return socket.peek(into: &bytes, atMost: count).outcome + " \(Self.ends(bytes))"
    case .pass(_, let place, let count, let places):
      return try pass(Self.bytes(count), to: place.map { address($0) }, places, on: socket)
    case .take(_, let count, let limit): return try take(count, atMost: limit, from: socket)
    default: return "?"
    }
  }

  private mutating func describe(_ index: Int, of batch: DatagramBatch) -> String {
    // With metadata there is room for descriptors, too. This closes them.
    let lost = batch.takeDescriptors(index, atMost: 0).someAreLost ? ", without descriptors" : ""
    let (length, cut) = (batch.length(index), (batch.isTruncated(index) ? " cut" : "") + lost)
    return "\(length)\(cut) from \(name(batch.address(index))) by \(Self.text(batch.metadata(index).peerCredentials))"
  }

  private func address(_ place: UnixHistory.Place) -> SocketAddress {
    let text =
      switch place {
      case .file: "\(history.folder)/\(history.seed)file"
      case .otherFile: "\(history.folder)/\(history.seed)other"
      case .rareFile: "\(history.folder)/\(history.seed)rare"
      // Each history has names of its own, so that others do not matter.
      case .abstract: "@\(history.folder)/\(history.seed)"
      case .otherAbstract: "@\(history.folder)/\(history.seed)other"
      case .unnamed, .foreign: ""
      }
    return place == .foreign ? .ipv4(.loopback, port: 1) : .unix(UnixPath(text) ?? .unnamed)
  }

  /// A name without the folder. A name that the kernel has chosen has its number in this run.
  private func name(_ address: SocketAddress?) -> String {
    guard case .unix(let path)? = address else { return "no address" }
    if path.isAbstract, path.description.utf8.count == 6 {
      return "free name #\(sockets.number(of: path.description))"
    }
    return UnixHistory.Place.allCases.first { self.address($0) == address }.map { "\($0)" } ?? "?"
  }

  /// Bytes that tell where they were.
  private static let pattern = (0..<250_000).map { UInt8(truncatingIfNeeded: $0 ^ $0 >> 8) }
  private static func bytes(_ count: Int) -> [UInt8] { Array(pattern[..<count]) }

  private static func ends(_ bytes: [UInt8]) -> String { "\(bytes.count) \(bytes.first ?? 0) \(bytes.last ?? 0)" }

  private static func text(_ credentials: PeerCredentials?) -> String {
    guard let credentials else { return "no process" }
    return credentials.processID == 0 ? "\(credentials.userID)" : "a process"
  }
}

extension UnixHistory.Call {
  /// The socket that is used.
  var index: Int {
    switch self {
    case .make(let index, _), .bind(let index, _), .bindToFreeName(let index), .makeFile(let index, _, _),
      .removeFile(let index), .listen(let index, _), .connect(let index, _), .disconnect(let index),
      .accept(let index, _), .send(let index, _), .sendTo(let index, _, _), .sendBatch(let index, _, _),
      .receive(let index, _), .receiveBatch(let index, _, _), .peek(let index, _), .pass(let index, _, _, _),
      .take(let index, _, _), .receivesCredentials(let index, _),
      .shutdownWriting(let index), .shutdownBoth(let index), .close(let index), .error(let index), .local(let index),
      .remote(let index), .credentials(let index), .receivable(let index), .unacknowledged(let index),
      .isListening(let index), .watch(let index), .rewatch(let index), .unwatch(let index):
      index
    case .poll: 0
    }
  }
}
