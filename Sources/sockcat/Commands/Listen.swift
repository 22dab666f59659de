import ActorSockets
import ActorSocketsTLS
import Synchronization

/// Also runs `sockcat proxy`.
struct Listen {
  /// How long connections may continue after the first signal to stop.
  static let drainTime = Duration.seconds(30)
  /// The most bytes that may wait for a slow reader of a chat before it is disconnected.
  static let chatBudget = 262_144

  let options: ListenOptions

  func run() async throws {
    try await recording(in: options.capture) { try await run($0) }
  }

  private func run(_ capture: PacketCapture?) async throws {
    let signals = try StopSignals()
    let service = try makeService()
    let context = try options.tls.makeContext()
    var configuration = TCPListener.Configuration()
    configuration.connection.liveness.idleTimeout = options.idleTimeout
    configuration.connection.capture = capture
    configuration.proxyProtocol = options.balancers.map { ProxyProtocol(.required, from: $0) }
    if options.mode == .chat {
      configuration.connection.writeBudget = Self.chatBudget
      configuration.connection.onWriteOverflow = .abort
    }
    let listeners = try makeListeners(configuration)
    if options.servesOne, listeners.count > 1 {
      throw Failure.usage(
        "systemd passed \(listeners.count) sockets, but only one connection is served: name one of them")
    }
    for address in listeners.flatMap(\.localAddresses) { StandardError.write(line: "listening on \(address)") }
    if options.servesOne, let listener = listeners.first {
      try await serveOne(of: listener, context, service, signals)
    } else {
      try await serveAll(of: listeners, context, service, signals)
    }
  }

  private func makeListeners(_ configuration: TCPListener.Configuration) throws -> [TCPListener] {
    switch options.origin {
    case .bind(let endpoint): return [try TCPListener.bind(to: endpoint, configuration: configuration)]
    case .systemd(let name):
      let listeners = try TCPListener.activated(named: name, configuration: configuration)
      if listeners.isEmpty { throw Failure.usage("systemd passed no socket that listens for streams") }
      return listeners
    }
  }

  private func makeService() throws -> any Service {
    switch options.mode {
    case .join: Join(keepsSending: options.keepsSending)
    case .echo: Echo()
    case .discard: Discard()
    case .http: HTTPService()
    case .chat: ChatRoom()
    case .forward(let forwarding): forwarding
    }
  }

  // MARK: Many connections

  private func serveAll(
    of listeners: [TCPListener], _ context: TLSContext?, _ service: any Service, _ signals: StopSignals
  ) async throws {
    let reports = try await signals.during {
      // First, because a drain ends the handlers that wait for a line, and a chat says goodbye to all.
      await service.drain()
      for listener in listeners { await listener.drain(within: Self.drainTime) }
    } abort: {
      for listener in listeners { await listener.drain(within: .zero) }
    } _: {
      try await withThrowingTaskGroup(of: ServeReport.self) { group in
        for listener in listeners { group.addTask { try await serveAll(of: listener, context, service) } }
        return try await group.reduce(into: []) { $0.append($1) }
      }
    }
    let refused = reports.map(\.refused).reduce(0, +)
    if refused > 0 {
      let strangers = options.balancers == nil ? "" : ", or because no load balancer forwarded them"
      StandardError.write(
        line: "sockcat: \(refused) connections were refused because too few descriptors were free\(strangers)")
    }
    let (aborted, accepted) = (reports.map(\.aborted).reduce(0, +), reports.map(\.accepted).reduce(0, +))
    if aborted > 0 {
      throw Failure(.inputOutput, "\(aborted) of \(accepted) connections were aborted unfinished")
    }
  }

  private func serveAll(
    of listener: TCPListener, _ context: TLSContext?, _ service: any Service
  ) async throws -> ServeReport {
    let (isVerbose, idleTimeout) = (options.isVerbose, options.idleTimeout)
    let isEncrypted = context != nil
    let serving = ServeOptions(
      limits: ServeLimits(connections: options.maximumConnections), on: options.runsOnReactor ? .reactor : .pool,
      onFailure: { if isVerbose, $0.isBeforeHandler { describeFailure($0, isEncrypted: isEncrypted) } })
    guard let context else {
      return try await listener.serve(serving) {
        if isVerbose { StandardError.describe(client: $0.remoteAddress, "connected", through: $0.proxyAddress) }
        try await serveOneOfMany($0, service, idleTimeout)
      }
    }
    return try await listener.serve(tls: context, serving) {
      if isVerbose {
        StandardError.describe(client: $0.remoteAddress, try await $0.session.summary, through: $0.proxyAddress)
      }
      try await serveOneOfMany($0, service, idleTimeout)
    }
  }

  // MARK: One connection

  /// The connection that a second signal aborts.
  private final class Current: Sendable {
    let state = Mutex<(connection: TCPConnection?, isAborted: Bool)>((nil, false))
  }

  private func serveOne(
    of listener: TCPListener, _ context: TLSContext?, _ service: any Service, _ signals: StopSignals
  ) async throws {
    let current = Current()
    try await signals.during {
      await listener.close()
      await service.drain()
    } abort: {
      let connection = current.state.withLock { current in
        current.isAborted = true
        return current.connection
      }
      await connection?.abort()
    } _: {
      do {
        guard let connection = try await first(of: listener) else { return }
        current.state.withLock { $0.connection = connection }
        await listener.close()
        try await onHandlerExecutor { [options] in
          // `accept` does not wait for the header of the PROXY protocol.
          if options.balancers != nil { try await connection.waitUntilOpen() }
          guard let context else {
            describe(connection, "connected")
            return try await serve(connection, by: service, idleTimeout: options.idleTimeout)
          }
          let secure = connection.startTLS(context, as: .server)
          try await shakeHands(secure)
          describe(connection, try await secure.session.summary)
          try await serve(secure, by: service, idleTimeout: options.idleTimeout)
        }
      } catch {
        if current.state.withLock({ $0.isAborted }) {
          throw Failure(.inputOutput, "the connection was aborted unfinished")
        }
        throw error
      }
    }
  }

  private func describe(_ connection: TCPConnection, _ state: String) {
    if !options.isVerbose { return }
    StandardError.describe(client: connection.remoteAddress, state, through: connection.proxyAddress)
  }

  /// `nil` if the program is told to stop before a connection arrives.
  private func first(of listener: TCPListener) async throws -> TCPConnection? {
    do {
      let limit = options.timeout
      return try await within(limit, orFailWith: "no client connected within \((limit ?? .zero).inSeconds)") {
        try await listener.accept()
      }
    } catch SocketError.Code.closed {
      return nil
    }
  }

  private func onHandlerExecutor(_ body: @escaping @Sendable () async throws -> Void) async throws {
    if !options.runsOnReactor { return try await body() }
    try await withTaskExecutorPreference(Reactor.shared) { try await body() }
  }
}

/// Prints only a failed handshake, or a header of the PROXY protocol that is missing or wrong. Services print other failures.
private func describeFailure(_ failure: ServeFailure, isEncrypted: Bool) {
  if !isEncrypted {
    guard let error = failure.error as? SocketError, error.operation == "PROXY header" else { return }
    return StandardError.write(line: "sockcat: \(error.description)")
  }
  let name = failure.connection.remoteAddress.map { $0.isUnix ? "" : "\($0): " } ?? ""
  StandardError.write(line: "sockcat: \(name)\(Failure(failure.error).message)")
}

/// A connection that is idle for too long and has nothing to send is closed and not reset.
private func serveOneOfMany(
  _ connection: some ByteStream, _ service: some Service, _ idleTimeout: Duration?
) async throws {
  guard let idleTimeout else { return try await service.serve(connection) }
  try await serveOneOfMany(connection, service, closingAfter: idleTimeout)
}

/// Not inlined: the task of every idle connection would contain this frame, even without the timeout, and need another
/// slab of memory.
@inline(never)
private func serveOneOfMany(
  _ connection: some ByteStream, _ service: some Service, closingAfter idleTimeout: Duration
) async throws {
  do {
    try await endingWithIdleness(of: connection, after: idleTimeout) { try await service.serve(connection) }
  } catch let failure as Failure where failure.status == .timeout {
    if try await connection.closed.bytesUnsent > 0 { throw failure }
  }
}
