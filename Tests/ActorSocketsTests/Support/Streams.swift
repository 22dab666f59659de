import ActorSockets
import ActorSocketsTLS
import ActorSocketsTesting
import Glibc
import SocketSystem
import TestSupport
import Testing

/// The kinds of stream. The conformance tests run on each.
enum Transport: String, CaseIterable, CustomTestStringConvertible {
  case tcpOverIPv4 = "TCP over IPv4"
  case tcpOverIPv6 = "TCP over IPv6"
  case unix = "unix sockets"
  case inMemory = "in memory"
  case captured = "TCP over IPv4, captured"
  case buffered = "TCP over IPv4, buffered writes"
  case tls = "TLS 1.3 over TCP"
  case tls12InMemory = "TLS 1.2 in memory"

  var testDescription: String { rawValue }

  /// Whether `abort()` reaches the peer as a reset. Unix sockets have no reset.
  var hasReset: Bool { self != .unix }
}

/// Two ends of one connection.
struct Pair: Sendable {
  let client: any ByteStream
  let server: any ByteStream
}

extension Pair {
  /// Makes the buffers between two sockets small.
  fileprivate func narrow() async throws {
    for end in [client, server] { try await (end as? TCPConnection)?.narrow() }
  }

  /// The same two ends, upgraded.
  func encrypted(_ version: TLSVersion) async throws -> Pair {
    let (client, server) = try await encryptedConnections(version)
    return Pair(client: client, server: server)
  }

  func encryptedConnections(_ version: TLSVersion) async throws -> (client: TLSConnection, server: TLSConnection) {
    let context = try TestContexts.context(version)
    let encryptedClient = client.startTLS(context, as: .client(serverName: "server.test"))
    let encryptedServer = server.startTLS(context, as: .server)
    try await encryptedClient.handshake()
    try await encryptedServer.handshake()
    // The server's tickets come behind its handshake: bytes that would move while a test wants quiet.
    try await eventually("the tickets arrive") {
      // A short idle timeout may have ended the connection.
      if await encryptedServer.state != .open { return true }
      return await client.metrics.bytesReceived == server.metrics.bytesSent
    }
    return (encryptedClient, encryptedServer)
  }
}

/// Contexts for both ends, made once: making a key takes a while.
enum TestContexts {
  private static let made = Result {
    let identity = try TLSIdentity.selfSigned(for: ["server.test"])
    return try [TLSVersion.v12, .v13].map { version in
      var configuration = TLSConfiguration()
      configuration.minimumVersion = version
      configuration.maximumVersion = version
      configuration.identity = identity
      configuration.trustRoots = [.certificates([identity.certificate])]
      return try TLSContext(configuration)
    }
  }

  static func context(_ version: TLSVersion) throws -> TLSContext { try made.get()[version == .v12 ? 0 : 1] }
}

/// What a pair does differently: what the configurations of all transports have in common.
struct PairOptions: StreamConfiguration {
  var writeBudget = 1 << 20
  var onWriteOverflow = WriteOverflowAction.fail
  var closeTimeout: Duration = .seconds(30)
  var closesOnEndOfStream = false
  var onTimeout = TimeoutAction.keepOpen
  var writeCompletion = WriteCompletion.sent
  var idleTimeout: Duration?
  var capture: PacketCapture?
  /// Room for few bytes on the way, so that `tooMuch` bytes do not fit by far.
  var isNarrow = false

  static func narrow(
    writeBudget: Int = 1 << 20, onWriteOverflow: WriteOverflowAction = .fail, closeTimeout: Duration = .seconds(30),
    onTimeout: TimeoutAction = .keepOpen, idleTimeout: Duration? = nil
  ) -> Self {
    PairOptions(
      writeBudget: writeBudget, onWriteOverflow: onWriteOverflow, closeTimeout: closeTimeout, onTimeout: onTimeout,
      idleTimeout: idleTimeout, isNarrow: true)
  }
}

/// More bytes than a narrow pair takes while its peer does not read.
let tooMuch = 1 << 20

extension Transport {
  /// A connected pair.
  func pair(
    on reactor: Reactor = ConformanceReactor.current, _ change: (inout PairOptions) -> Void = { _ in }
  ) async throws -> Pair {
    var options = PairOptions()
    change(&options)
    switch self {
    case .tcpOverIPv4: return try await tcpPair(.ipv4(.loopback, port: 0), reactor, options)
    case .tcpOverIPv6: return try await tcpPair(.ipv6(.loopback, port: 0), reactor, options)
    case .captured:
      options.capture = try PacketCapture(path: "/dev/null", replacing: true)
      return try await tcpPair(.ipv4(.loopback, port: 0), reactor, options)
    case .buffered:
      options.writeCompletion = .buffered
      return try await tcpPair(.ipv4(.loopback, port: 0), reactor, options)
    case .unix:
      if conformanceIsSimulated || ConformanceReactor.injected != nil {
        // Sockets that were adopted have no faults. Pairs that are made at the same time have names of their own.
        let name = try UnixPath(parsing: "@pair \(UInt64.random(in: 0 ... .max))")
        return try await tcpPair(.unix(name), reactor, options)
      }
      let (client, server) = try RawSocket.unixPair()
      let configuration = TCPConnection.Configuration(options)
      let pair = try Pair(
        client: TCPConnection.adopt(
          fileDescriptor: client.release(), configuration: configuration, reactor: reactor),
        server: TCPConnection.adopt(
          fileDescriptor: server.release(), configuration: configuration, reactor: reactor))
      if options.isNarrow { try await pair.narrow() }
      return pair
    case .tls:
      return try await Transport.tcpOverIPv4.pair(on: reactor, change).encrypted(.v13)
    case .tls12InMemory:
      return try await Transport.inMemory.pair(on: reactor, change).encrypted(.v12)
    case .inMemory:
      var configuration = InMemoryConnection.Configuration()
      configuration.take(options)
      configuration.liveness.idleTimeout = options.idleTimeout
      configuration.capture = options.capture
      if options.isNarrow { configuration.capacity = 8192 }
      let (client, server) = InMemoryConnection.pair(configuration: configuration, reactor: reactor)
      return Pair(client: client, server: server)
    }
  }

  /// A pair whose client has sent this text and nothing else.
  func pair(sent text: String) async throws -> Pair {
    let pair = try await pair()
    try await pair.client.write(utf8: text)
    try await pair.client.finishWriting()
    return pair
  }

  /// A pair in manual time.
  func timedPair(_ change: (inout PairOptions) -> Void = { _ in }) async throws -> (time: ManualTime, pair: Pair) {
    let time = ManualTime()
    return (time, try await pair(on: time.reactor, change))
  }

  private func tcpPair(_ address: SocketAddress, _ reactor: Reactor, _ options: PairOptions) async throws -> Pair {
    var configuration = TCPListener.Configuration()
    configuration.connection = TCPConnection.Configuration(options)
    let (listener, target) = try await listener(on: address, configuration, reactor)
    let client = try await TCPConnection.connect(
      to: .address(target), configuration: configuration.connection, reactor: reactor)
    let server = try await listener.accept()
    let pair = Pair(client: client, server: server)
    if options.isNarrow { try await pair.narrow() }
    return pair
  }
}

/// A listener, and the address at which it is reached. In a simulation it is on a host of its own, if the reactor does not matter, so that
/// the two ends of a pair have links between them.
private func listener(
  on address: SocketAddress, _ configuration: TCPListener.Configuration, _ reactor: Reactor
) async throws -> (TCPListener, SocketAddress) {
  guard let simulation = Simulation.current, reactor === Reactor.shared, !address.isUnix else {
    let listener = try TCPListener.bind(to: .address(address), configuration: configuration, reactor: reactor)
    return (listener, listener.localAddresses[0])
  }
  let host = simulation.host("server")
  let own = try #require(host.addresses.first { $0.isIPv4 == address.isIPv4 }).socketAddress(port: 0)
  let listener = try await host.run { try TCPListener.bind(to: .address(own), configuration: configuration) }
  return (listener, listener.localAddresses[0])
}

extension StreamConfiguration {
  /// Takes over the settings that all streams have.
  fileprivate mutating func take(_ options: PairOptions) {
    writeBudget = options.writeBudget
    onWriteOverflow = options.onWriteOverflow
    closeTimeout = options.closeTimeout
    closesOnEndOfStream = options.closesOnEndOfStream
    onTimeout = options.onTimeout
    writeCompletion = options.writeCompletion
  }
}

extension TCPConnection.Configuration {
  init(_ options: PairOptions) {
    self.init()
    take(options)
    liveness.idleTimeout = options.idleTimeout
    capture = options.capture
  }
}

extension TCPConnection {
  /// Makes the kernel's buffers small: they have less room than the budget of a connection in a turn, so what is sent without
  /// anybody reading is sent at once.
  func narrow() throws {
    try withFileDescriptor { number in
      try BorrowedDescriptor(number).set(.sendBuffer, to: 32_768)
      try BorrowedDescriptor(number).set(.receiveBuffer, to: 32_768)
    }
  }
}

extension ByteStream {
  /// Everything up to the end of the stream.
  nonisolated func readToEnd() async throws -> [UInt8] {
    var bytes: [UInt8] = []
    while try await read(into: &bytes) > 0 {}
    return bytes
  }

  /// Waits until these numbers of reads and writes are queued.
  nonisolated func hasQueued(
    reads: Int? = nil, writes: Int? = nil, file: String = #fileID, line: Int = #line
  ) async throws {
    try await eventually("\(reads ?? 0) reads and \(writes ?? 0) writes wait", file: file, line: line) {
      let status = await status
      return status.queuedReads == reads ?? status.queuedReads && status.queuedWrites == writes ?? status.queuedWrites
    }
  }

  /// Waits until a part of this number of bytes is sent, and the others are not.
  nonisolated func hasSentPart(of count: Int = tooMuch, file: String = #fileID, line: Int = #line) async throws {
    try await eventually("a part is sent", file: file, line: line) {
      await (1..<count).contains(status.unsentBytes)
    }
  }

  /// Waits until this number of received bytes is buffered. A read must be waiting, or nothing is received.
  nonisolated func hasBuffered(_ count: Int) async throws {
    try await eventually("\(count) bytes are buffered") { await status.bufferedBytes == count }
  }
}

/// Checks that `body` throws a `SocketError` with this code and this text, and returns the error.
@discardableResult
nonisolated(nonsending) func expectError(
  _ code: SocketError.Code, saying text: String = "", sourceLocation: SourceLocation = #_sourceLocation,
  _ body: nonisolated(nonsending) () async throws -> Void
) async -> SocketError {
  var outcome = Result<Void, any Error>.success(())
  do { try await body() } catch { outcome = .failure(error) }
  return outcome.expectError(code, text, sourceLocation)
}

/// Checks that `body` throws a `PipeError` of this stream with this code, and returns the stream's error.
@discardableResult
nonisolated(nonsending) func expectPipeError(
  _ code: SocketError.Code, _ stream: PipeError.Stream, _ action: PipeError.Action, saying text: String = "",
  sourceLocation: SourceLocation = #_sourceLocation, _ body: nonisolated(nonsending) () async throws -> Void
) async -> SocketError {
  await expectError(code, saying: text, sourceLocation: sourceLocation) {
    do { try await body() } catch let error as PipeError {
      let isExpected = error.stream == stream && error.action == action
      #expect(isExpected, "\(error) in place of \(action) the \(stream) stream", sourceLocation: sourceLocation)
      throw error.underlyingError
    }
    Issue.record("no PipeError was thrown", sourceLocation: sourceLocation)
  }
}

@discardableResult
func expectErrorNow(
  _ code: SocketError.Code, saying text: String = "", sourceLocation: SourceLocation = #_sourceLocation,
  _ body: () throws -> Void
) -> SocketError {
  Result(catching: body).expectError(code, text, sourceLocation)
}

extension Result where Success == Void, Failure == any Error {
  fileprivate func expectError(
    _ code: SocketError.Code, _ text: String, _ sourceLocation: SourceLocation
  ) -> SocketError {
    switch self {
    case .success: Issue.record("nothing was thrown in place of .\(code)", sourceLocation: sourceLocation)
    case .failure(let error as SocketError):
      let isExpected = error.code == code && (text.isEmpty || error.description.contains(text))
      #expect(isExpected, "\(error) in place of .\(code) \(text)", sourceLocation: sourceLocation)
      return error
    case .failure(let error):
      Issue.record("\(error) was thrown in place of .\(code)", sourceLocation: sourceLocation)
    }
    return SocketError(.system, operation: "none")
  }
}

/// Checks that connecting fails with this code and this text, and returns the error.
@discardableResult
nonisolated(nonsending) func expectConnectError(
  _ code: SocketError.Code, saying text: String = "", to endpoint: Endpoint,
  configuration: TCPConnection.Configuration = .init(), timeout: Timeout? = nil, reactor: Reactor = .shared,
  sourceLocation: SourceLocation = #_sourceLocation
) async -> SocketError {
  await expectError(code, saying: text, sourceLocation: sourceLocation) {
    _ = try await TCPConnection.connect(to: endpoint, configuration: configuration, timeout: timeout, reactor: reactor)
  }
}

extension Task<Void, any Error> {
  /// The code of the `SocketError` that it throws; `nil` if it succeeds.
  var code: SocketError.Code? {
    get async throws {
      do {
        try await value
        return nil
      } catch let error as SocketError {
        return error.code
      }
    }
  }
}

/// Checks that `body` throws `CancellationError`.
nonisolated(nonsending) func expectCancellation(
  sourceLocation: SourceLocation = #_sourceLocation, _ body: nonisolated(nonsending) () async throws -> Void
) async {
  do {
    try await body()
    Issue.record("nothing was thrown in place of CancellationError", sourceLocation: sourceLocation)
  } catch is CancellationError {
  } catch {
    Issue.record("\(error) was thrown in place of CancellationError", sourceLocation: sourceLocation)
  }
}

/// The bytes `start`, `start + 1`, … modulo 251: a loss, a repetition or a swap anywhere shows.
func pattern(_ count: Int, from start: Int = 0) -> [UInt8] {
  var bytes = Array(patternBlock[(start % 251)...].prefix(count))
  bytes.reserveCapacity(count)
  while bytes.count < count { bytes += patternBlock.prefix(count - bytes.count) }
  return bytes
}

private let patternBlock = (0..<(251 * 200)).map { UInt8($0 % 251) }
