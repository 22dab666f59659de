import ActorSockets
import ActorSocketsTLS
import ActorSocketsTesting
import EpollReactor
import Testing

/// A pool of any kind of connection.
protocol TestedPool: AnyObject, Sendable {
  nonisolated(nonsending) func use<Value>(
    _ timeout: Timeout?, isRepeatable: Bool, _ body: nonisolated(nonsending) (any ByteStream) async throws -> Value
  ) async throws -> Value
  func drain(within time: Duration) async
  func close() async
  var metrics: ConnectionPoolMetrics { get async }
}

extension ConnectionPool: TestedPool {
  nonisolated(nonsending) func use<Value>(
    _ timeout: Timeout?, isRepeatable: Bool, _ body: nonisolated(nonsending) (any ByteStream) async throws -> Value
  ) async throws -> Value {
    try await withConnection(timeout: timeout, isRepeatable: isRepeatable) { try await body($0) }
  }
}

extension TestedPool {
  nonisolated(nonsending) func use<Value>(
    _ timeout: Timeout? = nil, _ body: nonisolated(nonsending) (any ByteStream) async throws -> Value
  ) async throws -> Value { try await use(timeout, isRepeatable: false, body) }

  /// Sends a line, and reads the line that answers it.
  nonisolated(nonsending) func ask(
    _ text: String, _ timeout: Timeout? = nil, isRepeatable: Bool = false
  ) async throws -> String {
    try await use(timeout, isRepeatable: isRepeatable) { stream in
      try await stream.write(utf8: "\(text)\n")
      return String(decoding: try await stream.read(until: .lf).dropLast(), as: UTF8.self)
    }
  }
}

/// Answers each line with the same line.
@Sendable func echoLines(_ stream: any ByteStream) async throws {
  for try await line in stream.lines { try await stream.write(utf8: "\(line)\n") }
  await stream.close()
}

extension Transport {
  /// A pool whose connections are of this kind. Each server's end runs `serve`, in a task.
  func pool(
    _ options: ConnectionPoolOptions = .init(), on reactor: Reactor = ConformanceReactor.current,
    serve: @escaping @Sendable (any ByteStream) async throws -> Void = echoLines
  ) -> any TestedPool {
    func make<Connection: ByteStream>(_ type: Connection.Type) -> ConnectionPool<Connection> {
      ConnectionPool<Connection>(options, reactor: reactor) {
        let pair = try await pair(on: reactor)
        Task { try await serve(pair.server) }
        return try #require(pair.client as? Connection)
      }
    }
    return switch self {
    case .inMemory: make(InMemoryConnection.self)
    case .tls, .tls12InMemory: make(TLSConnection.self)
    case .tcpOverIPv4, .tcpOverIPv6, .unix, .captured, .buffered: make(TCPConnection.self)
    }
  }
}

extension ConnectionPoolOptions {
  static func most(_ connections: Int, _ change: (inout Self) -> Void = { _ in }) -> Self {
    var options = Self()
    options.connections = connections
    change(&options)
    return options
  }
}
