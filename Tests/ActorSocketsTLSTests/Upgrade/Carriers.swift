import ActorSocketsTLS
import ActorSocketsTesting
import EpollReactor
import TestSupport
import Testing

@testable import ActorSockets

/// What an upgrade is made on.
enum CarrierKind: String, CaseIterable, CustomTestStringConvertible {
  case tcp, unix
  case inMemory = "in memory"

  var testDescription: String { rawValue }

  /// Two ends in plain text.
  func pair(on reactor: Reactor = .shared) async throws -> PlainPair {
    switch self {
    case .tcp: return try await PlainPair(at: .host("127.0.0.1", port: 0), reactor)
    case .unix: return try await PlainPair(at: .unix(path: "@upgrade-\(UInt64.random(in: 0 ... .max))"), reactor)
    case .inMemory:
      let (client, server) = InMemoryConnection.pair(reactor: reactor)
      return PlainPair(client: client, server: server)
    }
  }
}

/// Two ends of one connection, not encrypted yet.
struct PlainPair: Sendable {
  let client: any QueuedByteStream
  let server: any QueuedByteStream

  init(client: any QueuedByteStream, server: any QueuedByteStream) {
    self.client = client
    self.server = server
  }

  fileprivate init(at endpoint: Endpoint, _ reactor: Reactor) async throws {
    let listener = try TCPListener.bind(to: endpoint, reactor: reactor)
    client = try await TCPConnection.connect(to: .address(listener.localAddresses[0]), reactor: reactor)
    server = try await listener.accept()
    await listener.close()
  }

  /// Both ends, encrypted.
  func encrypted(
    client: TLSContext? = nil, server: TLSContext? = nil
  ) throws -> (client: TLSConnection, server: TLSConnection) {
    (
      self.client.startTLS(try client ?? Contexts.client(), as: .client(serverName: "server.test")),
      self.server.startTLS(try server ?? Contexts.server(), as: .server)
    )
  }
}

/// Closes both ends at once: each waits for the end of the other.
func close(_ one: any ByteStream, _ other: any ByteStream) async {
  let closing = Task.immediate { await one.close() }
  await other.close()
  await closing.value
}

/// A byte stream that is none of the package's: it passes calls on to one that is.
actor ForeignStream: ByteStream {
  nonisolated let executor: ReactorExecutor
  private let stream: any ByteStream
  private var buffered: [UInt8]

  init(_ stream: any ByteStream, buffered: [UInt8] = []) {
    self.stream = stream
    self.buffered = buffered
    executor = ReactorExecutor(stream.executor.reactor)
  }

  func read<Value: Sendable>(
    _ request: ReadRequest<Value>, timeout: Timeout?, progress: Progress?
  ) async throws -> Value {
    try await stream.read(request, timeout: timeout, progress: progress)
  }

  func read(upTo limit: Int, timeout: Timeout?) async throws -> [UInt8]? {
    try await stream.read(upTo: limit, timeout: timeout)
  }

  func withBytes<Value>(
    upTo limit: Int, timeout: Timeout?,
    _ body: sending (_ bytes: Span<UInt8>, _ consumed: inout Int) throws -> Value
  ) async throws -> sending Value? { throw SocketError(.closed, operation: "withBytes") }

  func write(_ bytes: [UInt8], timeout: Timeout?, progress: Progress?) async throws {
    try await stream.write(bytes, timeout: timeout, progress: progress)
  }

  func write(_ bytes: Span<UInt8>, timeout: Timeout?) async throws {
    try await stream.write([UInt8](copying: bytes), timeout: timeout)
  }

  func write(contentsOf pieces: [[UInt8]], timeout: Timeout?, progress: Progress?) async throws {
    try await stream.write(contentsOf: pieces, timeout: timeout, progress: progress)
  }

  func sendFile(_ file: FileSource, range: Range<Int>?, timeout: Timeout?, progress: Progress?) async throws {
    try await stream.sendFile(file, range: range, timeout: timeout, progress: progress)
  }

  nonisolated func enqueueRead<Value: Sendable>(_ request: ReadRequest<Value>, timeout: Timeout?) -> Pending<Value> {
    stream.enqueueRead(request, timeout: timeout)
  }

  nonisolated func enqueueWrite(_ bytes: [UInt8], timeout: Timeout?) -> Pending<Void> {
    stream.enqueueWrite(bytes, timeout: timeout)
  }

  func finishWriting() async throws { try await stream.finishWriting() }
  func flush(until target: FlushTarget, timeout: Timeout?) async throws {
    try await stream.flush(until: target, timeout: timeout)
  }
  var peerFinishedWriting: Void { get async throws { try await stream.peerFinishedWriting } }
  func close() async { await stream.close() }
  func close(after condition: CloseCondition) async { await stream.close(after: condition) }
  func abort() { Task { [stream] in await stream.abort() } }
  var closed: CloseReport { get async throws { try await stream.closed } }

  // What is asked without waiting is its own.

  func takeBuffered() -> [UInt8] {
    defer { buffered = [] }
    return buffered
  }

  var state: StreamState { .open }
  var metrics: StreamMetrics { StreamMetrics(bytesReceived: 0, bytesSent: 0, tcp: nil) }
  var pendingOperations: [PendingOperation] { [] }
  var status: StreamStatus {
    StreamStatus(
      state: .open, queuedReads: 0, queuedWrites: 0, unsentBytes: 0, bufferedBytes: buffered.count, readProgress: nil,
      writeProgress: nil)
  }
}
