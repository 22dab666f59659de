import ActorSockets
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

/// What a listener listens on: the tests of serving run on each.
enum ListenerKind: String, CaseIterable, CustomTestStringConvertible {
  case tcp = "TCP"
  case inMemory = "in memory"

  var testDescription: String { rawValue }

  func listener(on reactor: Reactor = .shared) throws -> any StreamListener {
    switch self {
    case .tcp: try TCPListener.onLoopback(on: reactor)
    case .inMemory: InMemoryListener(at: .ipv4(.loopback, port: 7), reactor: reactor)
    }
  }
}

extension TCPListener {
  /// Listens on a free port of the loopback address.
  static func onLoopback(
    _ configuration: Configuration = .init(), on reactor: Reactor = .shared
  ) throws -> TCPListener {
    try bind(to: .address(.ipv4(.loopback, port: 0)), configuration: configuration, reactor: reactor)
  }
}

extension StreamListener {
  nonisolated var address: SocketAddress { localAddresses[0] }
  nonisolated var endpoint: Endpoint { .address(address) }

  /// Connects to the listener; the connection may still wait to be accepted.
  nonisolated func client() async throws -> Client {
    if let listener = self as? InMemoryListener {
      return .inMemory(try await listener.connect(from: .ipv4(.loopback, port: 8)))
    }
    return .socket(try RawSocket.connected(to: address))
  }

  nonisolated func clients(_ count: Int) async throws -> [Client] {
    var clients: [Client] = []
    for _ in 0..<count { clients.append(try await client()) }
    return clients
  }

  /// Serves connections of any type, so that it can be called for any listener.
  @discardableResult
  func serveAny(
    on place: HandlerExecutor = .pool, limits: ServeLimits = .init(),
    drain: Drain = .within(.seconds(30)), stopOn signals: Set<ProcessSignal> = [],
    onFailure: (@Sendable (ServeFailure) -> Void)? = nil,
    handler: @escaping @concurrent @Sendable (any ByteStream) async throws -> Void
  ) async throws -> ServeReport {
    try await serve(.init(limits: limits, drain: drain, on: place, stopOn: signals, onFailure: onFailure)) {
      try await handler($0)
    }
  }
}

/// The client of a server under test: over TCP a plain socket.
enum Client: Sendable {
  case socket(RawSocket)
  case inMemory(InMemoryConnection)

  var address: SocketAddress? {
    switch self {
    case .socket(let socket): try? socket.address
    case .inMemory(let connection): connection.localAddress
    }
  }

  func send(_ text: String) async throws {
    switch self {
    case .socket(let socket): try socket.send(text)
    case .inMemory(let connection): try await connection.write(utf8: text)
    }
  }

  /// Sends without waiting: over TCP the kernel has the bytes when this returns.
  func sendNow(_ text: String) throws {
    switch self {
    case .socket(let socket): try socket.send(text)
    case .inMemory(let connection): _ = connection.enqueueWrite(Array(text.utf8))
    }
  }

  /// Receives what there is; none at the end of the stream.
  @discardableResult
  func receive(atMost limit: Int = 65_536) async throws -> [UInt8] {
    switch self {
    case .socket(let socket): try await socket.receive(atMost: limit)
    case .inMemory(let connection): try await connection.read(upTo: limit) ?? []
    }
  }

  /// Receives `length` bytes, or fewer at the end of the stream.
  func receive(exactly length: Int) async throws -> [UInt8] {
    var bytes: [UInt8] = []
    while bytes.count < length {
      let more = try await receive(atMost: min(length - bytes.count, 65_536))
      if more.isEmpty { break }
      bytes += more
    }
    return bytes
  }

  func receiveToEnd() async throws -> [UInt8] { try await receive(exactly: .max) }

  /// Sends a line, and checks that the same line comes back.
  func expectEcho(_ line: String = "hello\n") async throws {
    try await send(line)
    #expect(try await receive(exactly: line.utf8.count) == Array(line.utf8))
  }

  /// Checks that these bytes come, and then a clean end.
  func expectEnd(after text: String = "") async throws {
    #expect(try await receiveToEnd() == Array(text.utf8))
    await close()
  }

  /// Checks that the server has reset the connection.
  func expectReset(sourceLocation: SourceLocation = #_sourceLocation) async {
    do {
      let bytes = try await receive()
      Issue.record("\(bytes) was received in place of a reset", sourceLocation: sourceLocation)
    } catch let error as SystemError {
      #expect(error.errno == Errno.connectionReset, sourceLocation: sourceLocation)
    } catch {
      #expect((error as? SocketError)?.code == .connectionReset, "\(error)", sourceLocation: sourceLocation)
    }
  }

  func finishWriting() async throws {
    switch self {
    case .socket(let socket): socket.finishWriting()
    case .inMemory(let connection): try await connection.finishWriting()
    }
  }

  func close() async {
    switch self {
    case .socket(let socket): socket.close()
    case .inMemory(let connection): await connection.close()
    }
  }

  /// Resets the connection.
  func reset() async {
    switch self {
    case .socket(let socket): socket.reset()
    case .inMemory(let connection): await connection.abort()
    }
  }
}
