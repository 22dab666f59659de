import ActorSockets
import ActorSocketsTLS

struct Connect {
  /// The most time until the server is ready for the handshake, if `--timeout` is not given.
  static let upgradeTime = Duration.seconds(30)

  let options: ConnectOptions

  func run() async throws {
    try await recording(in: options.capture) { try await run($0) }
  }

  private func run(_ capture: PacketCapture?) async throws {
    let start = ContinuousClock.now
    let join = Join(keepsSending: options.keepsSending)
    let context = try options.tls.makeContext(handshakeTimeout: options.connecting.timeout)
    var configuration = TCPConnection.Configuration()
    configuration.addressPreference = options.addressPreference
    configuration.source = options.source
    configuration.proxyHeader = options.proxyHeader
    options.connecting.apply(to: &configuration)
    configuration.liveness.idleTimeout = options.idleTimeout
    configuration.capture = capture
    let connection = try await TCPConnection.connect(
      to: options.endpoint, configuration: configuration, timeout: options.connecting.timeout.map { .within($0) })
    guard let context else {
      describe(connection, "connected")
      return try await serve(connection, by: join, idleTimeout: options.idleTimeout)
    }
    try await serve(try await encrypt(connection, context, since: start), by: join, idleTimeout: options.idleTimeout)
  }

  /// `start` is when connecting began: `--timeout` limits connecting and the handshake together.
  private func encrypt(
    _ connection: TCPConnection, _ context: TLSContext, since start: ContinuousClock.Instant
  ) async throws -> TLSConnection {
    func timeLeft() -> Duration? { options.connecting.timeout.map { start + $0 - .now } }
    let limit = options.connecting.timeout ?? Self.upgradeTime
    if let plain = options.tls.startTLS {
      let left = timeLeft() ?? limit
      try await within(left, orFailWith: "the server was not ready for TLS within \(limit.inSeconds)") {
        try await plain.begin(on: connection)
      }
    }
    let role = TLSRole.client(serverName: options.tls.name(of: options.endpoint))
    let secure = connection.startTLS(context, as: role)
    try await within(timeLeft(), orFailWith: "the TLS handshake was not complete within \(limit.inSeconds)") {
      try await shakeHands(secure)
    }
    if options.isVerbose { describe(connection, try await secure.session.summary) }
    return secure
  }

  private func describe(_ connection: TCPConnection, _ state: String) {
    if !options.isVerbose { return }
    // A proxy looks up the name, so only the proxy knows the address.
    let peer = connection.remoteAddress.map { "\($0)" } ?? "\(options.endpoint)"
    StandardError.describe(options.endpoint.isUnix ? nil : peer, state, through: connection.proxyAddress)
  }
}

func shakeHands(_ connection: TLSConnection) async throws {
  do {
    try await connection.handshake()
  } catch {
    // Closing the carrier waits until the alert has been sent.
    await connection.carrier.close()
    throw error
  }
}

func serve(_ connection: some ByteStream, by service: some Service, idleTimeout: Duration?) async throws {
  do {
    try await endingWithIdleness(of: connection, after: idleTimeout) { try await service.serve(connection) }
    await connection.close()
  } catch {
    // A connection with nothing to send ends with a FIN when the process exits. A connection that is stuck is reset.
    if await connection.status.unsentBytes > 0 { await connection.abort() }
    throw error
  }
}
