import ActorSockets
import Glibc
import ServerSupport
import Synchronization

/// A server on ActorSockets, written as a user would write it.
@main
struct SwiftEcho {
  /// More than there are descriptors for: the benchmark opens more than a server takes by default.
  private static let mostConnections = 1_000_000

  static func main() async throws {
    let options = Options()
    if options.sharesPort {
      try await servePortOfEachReactor(options)
    } else {
      let listener = try TCPListener.bind(to: options.endpoint, configuration: options.configuration)
      announce(listener)
      try await serve(listener, options, reactors: options.reactors)
    }
  }

  /// A listener for each reactor, all at one port: the kernel spreads the connections.
  private static func servePortOfEachReactor(_ options: Options) async throws {
    var configuration = options.configuration
    configuration.reusePort = true
    let first = try TCPListener.bind(to: options.endpoint, configuration: configuration)
    let endpoint = try Endpoint(parsing: "\(first.localAddresses[0])")
    let others = try (1..<options.reactors).map { _ in
      try TCPListener.bind(to: endpoint, configuration: configuration, reactor: Reactor())
    }
    announce(first)
    try await withThrowingTaskGroup { group in
      for listener in [first] + others {
        group.addTask { try await serve(listener, options, reactors: 1) }
      }
      try await group.waitForAll()
    }
  }

  private static func serve(_ listener: TCPListener, _ options: Options, reactors: Int) async throws {
    let limits = ServeLimits(connections: mostConnections)
    if options.place == .isolated {
      try await listener.serve(.init(limits: limits, reactors: reactors)) { (connection: isolated TCPConnection) in
        try await answerInIsolation(connection)
      }
      return
    }
    try await listener.serve(
      .init(
        limits: limits,
        on: .chosen { connection in
          if options.reports { printError("accepted \(ObjectIdentifier(connection.executor.reactor))") }
          return switch options.place {
          case .pool: WorkerPool.shared
          case .swift: nil
          case .reactor, .isolated: connection.executor.reactor
          }
        }, reactors: reactors)
    ) { connection in
      switch options.mode {
      case .echo where options.isNested: try await greet(connection)
      case .echo where options.computes > 0: try await answer(connection, computing: options.computes)
      case .echo where options.place != .reactor || options.answers: try await answer(connection)
      case .echo: try await echo(connection)
      case .sink: try await discard(connection)
      case .fanout: try await sendToAll(connection)
      }
    }
  }

  private static func announce(_ listener: TCPListener) {
    for address in listener.localAddresses {
      printError("listening on \(address)")
    }
  }
}

private func echo(_ connection: TCPConnection) async throws {
  while let bytes = try await connection.read() {
    try await connection.write(bytes)
  }
}

/// The same with an answer that is made here. A handler that only passes bytes on never leaves the connection's isolation: the
/// compiler sees that nothing is done in between, and there would be no hop to measure.
private func answer(_ connection: TCPConnection) async throws {
  while let bytes = try await connection.read() {
    try await connection.write(reply(to: bytes))
  }
}

/// The same in calls within calls, as protocols are written.
private func greet(_ connection: TCPConnection) async throws {
  let session = Session(number: connection.id, greeting: [])
  try await converse(connection, session)
}

private struct Session {
  let number: UInt64
  var greeting: [UInt8]
}

private func converse(_ connection: TCPConnection, _ session: Session) async throws {
  var session = session
  while let request = try await request(connection, &session) { try await connection.write(request) }
}

private func request(_ connection: TCPConnection, _ session: inout Session) async throws -> [UInt8]? {
  guard let bytes = try await part(connection, atMost: 65_536) else { return nil }
  session.greeting = bytes
  return bytes
}

private func part(_ connection: TCPConnection, atMost limit: Int) async throws -> [UInt8]? {
  let bytes = try await connection.read(upTo: limit)
  return bytes.map { reply(to: $0) }
}

/// The same with requests that take long: all of more than a kilobyte.
private func answer(_ connection: TCPConnection, computing milliseconds: Int) async throws {
  while let bytes = try await connection.read() {
    if bytes.count > 1_024 { compute(milliseconds) }
    try await connection.write(bytes)
  }
}

/// Uses this much time of a processor.
private func compute(_ milliseconds: Int) {
  func used() -> Int {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return time.tv_sec * 1_000_000_000 + time.tv_nsec
  }
  let end = used() + milliseconds * 1_000_000
  while used() < end {}
}

/// The same in the isolation of the connection.
private func answerInIsolation(_ connection: isolated TCPConnection) async throws {
  while let bytes = try await connection.read() {
    try await connection.write(reply(to: bytes))
  }
}

@inline(never)
private func reply(to request: [UInt8]) -> [UInt8] { request }

/// Looks at the bytes where they were received, and forgets them.
private func discard(_ connection: TCPConnection) async throws {
  while (try await connection.withBytes { bytes, consumed in consumed = bytes.count }) != nil {}
}

private let everybody = Mutex<[UInt64: TCPConnection]>([:])

/// What one connection sends goes to all.
private func sendToAll(_ connection: TCPConnection) async throws {
  everybody.withLock { $0[connection.id] = connection }
  defer { everybody.withLock { _ = $0.removeValue(forKey: connection.id) } }
  while let bytes = try await connection.read() {
    for other in everybody.withLock({ Array($0.values) }) { _ = other.enqueueWrite(bytes) }
  }
}

/// Where the handlers run.
enum Place: String {
  case reactor, pool, isolated
  /// On Swift's pool, without the workers.
  case swift
}

/// What the command line asks for.
struct Options {
  /// Where the handlers run.
  let place: Place
  /// Whether a handler on the reactor makes an answer, and does not only pass bytes on.
  let answers: Bool
  /// Whether a handler reads in calls within calls.
  let isNested: Bool
  /// How many milliseconds a handler computes for each large request.
  let computes: Int
  let mode: StreamMode
  /// A write returns before its bytes are sent.
  let buffersWrites: Bool
  let reactors: Int
  /// Each reactor has a listener of its own, at the same port.
  let sharesPort: Bool
  /// Says of each connection which reactor got it.
  let reports: Bool
  let endpoint: Endpoint

  var configuration: TCPListener.Configuration {
    var configuration = TCPListener.Configuration()
    if buffersWrites { configuration.connection.writeCompletion = .buffered }
    return configuration
  }

  init() {
    var arguments = Arguments(
      usage:
        """
        swift-echo [--on reactor|pool|isolated|swift] [--answers | --nested | --computes MS] [--mode echo|sink|fanout]
          [--buffered] [--reactors N [--shared-port]] [--report] [PORT]
        """)
    place = arguments.take("--on", or: Place.pool)
    answers = arguments.takeFlag("--answers")
    isNested = arguments.takeFlag("--nested")
    computes = arguments.take("--computes", or: 0) { Int($0).flatMap { $0 > 0 ? $0 : nil } }
    mode = arguments.take("--mode", or: .echo)
    buffersWrites = arguments.takeFlag("--buffered")
    reactors = arguments.take("--reactors", or: 1) { Int($0).flatMap { $0 > 0 ? $0 : nil } }
    sharesPort = arguments.takeFlag("--shared-port")
    reports = arguments.takeFlag("--report")
    endpoint = .host("127.0.0.1", port: arguments.port())
  }
}
