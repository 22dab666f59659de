// A carrier over a byte stream from outside of this package. It uses the stream's public methods only.
//
// - One read at a time. A read begins when the layer receives and no bytes have arrived. Its bytes go to `received`.
// - One write at a time. The engine keeps the bytes of a write until the stream has taken them: only then does `send`
//   report them, and it reports them once (`completed`). So a write of the encrypted stream completes only after the
//   write of the stream beneath.
// - Each read and each write is a task that reports its result through the reactor's queue.

internal import ActorSockets
internal import EpollReactor
internal import SocketSystem

final class ForeignCarrier: Carrier {
  weak var layer: TLSTransport?
  private let stream: any ByteStream
  private var received = ByteQueue()
  private var hasEnded = false
  private var failure: SystemError?
  private var reading: Task<Void, Never>?
  /// The last write, which may have ended.
  private var writing: Task<Void, Never>?
  /// The number of bytes of the current write.
  private var inFlight = 0
  /// The number of bytes of the last write that `send` has not reported yet.
  private var completed = 0

  private static let maximumRead = 65_536

  init(_ stream: any ByteStream) { self.stream = stream }

  private var reactor: Reactor { stream.executor.reactor }

  var isReadable: Bool { !received.isEmpty || hasEnded || failure != nil || reading == nil }
  var unacknowledgedBytes: Int { 0 }
  var tcpInfo: TCPInfo? { nil }
  func tryAnyway() {}
  func takeEarlyBytes() -> [UInt8] { [] }

  /// Takes the bytes that the stream has received and no read has taken, then calls `begin` with them.
  func start(_ begin: @escaping @Sendable (_ early: [UInt8]) -> Void) {
    let (stream, reactor) = (stream, reactor)
    Task.detached {
      let early = await stream.takeBuffered()
      reactor.submit { begin(early) }
    }
  }

  // MARK: Receiving

  func receive(atMost limit: Int, showing body: (Span<UInt8>) -> Void) -> Transfer {
    if !received.isEmpty {
      let count = min(limit, received.count)
      received.withBytes { body($0.extracting(first: count)) }
      received.drop(count)
      return .bytes(count)
    }
    if let failure { return .failed(failure) }
    if hasEnded { return .bytes(0) }
    if reading == nil { read() }
    return .wouldBlock
  }

  private func read() {
    assert(reading == nil && received.isEmpty, "one read at a time, and none while bytes wait")
    let carrier = ReactorBound(self, on: reactor)
    reading = Self.run(stream) { stream in
      try await stream.read(upTo: Self.maximumRead, timeout: nil)
    } to: { result in
      carrier.reactor.submit { carrier.value.readEnded(result) }
    }
  }

  /// Runs an operation of the stream in a task of its own and reports its result.
  private static func run<Value: Sendable>(
    _ stream: any ByteStream, _ body: @escaping @Sendable (any ByteStream) async throws -> Value,
    to report: @escaping @Sendable (Result<Value, any Error>) -> Void
  ) -> Task<Void, Never> {
    Task.detached {
      do {
        let value = try await body(stream)
        report(.success(value))
      } catch {
        report(.failure(error))
      }
    }
  }

  private func readEnded(_ result: Result<[UInt8]?, any Error>) {
    reading = nil
    switch result {
    case .success(let bytes?): received.append(bytes.span)
    case .success(nil): hasEnded = true
    case .failure(let error): return broke(error, "read")
    }
    layer?.carrierIsReady()
  }

  private func broke(_ error: any Error, _ call: String) {
    if failure != nil { return }
    let error = error as? SocketError ?? SocketError(.system, operation: call, detail: "\(error)")
    failure = SystemError(call: call, errno: error.errno == 0 ? Errno.connectionReset : error.errno)
    layer?.carrierBroke(error)
  }

  // MARK: Sending

  func send(_ bytes: Span<UInt8>) -> Transfer {
    if let failure { return .failed(failure) }
    if completed > 0 {
      let count = completed
      completed = 0
      return .bytes(count)
    }
    if inFlight == 0, !bytes.isEmpty { write([UInt8](copying: bytes)) }
    return .wouldBlock
  }

  private func write(_ bytes: [UInt8]) {
    assert(inFlight == 0 && completed == 0, "one write at a time, and none before the last was told")
    inFlight = bytes.count
    let carrier = ReactorBound(self, on: reactor)
    writing = Self.run(stream) { stream in
      try await stream.write(bytes, timeout: nil, progress: nil)
    } to: { result in
      carrier.reactor.submit { carrier.value.writeEnded(result) }
    }
  }

  private func writeEnded(_ result: Result<Void, any Error>) {
    completed = inFlight
    inFlight = 0
    if case .failure(let error) = result { broke(error, "write") } else { layer?.carrierIsReady() }
  }

  // MARK: Closing

  func close(sending rest: [UInt8], _ end: LayerEnd, _ done: (@Sendable () -> Void)?) -> Bool {
    layer = nil
    reading?.cancel()
    // `rest` begins with the bytes of the current write, or with those of the last write that `send` has not reported.
    let rest = Array(rest.dropFirst(inFlight + completed))
    let (stream, reactor) = (stream, reactor)
    let writing = writing
    Task.detached {
      await ActorSocketsTLS.close(stream, sending: rest, after: writing)
      if let done { reactor.submit(done) }
    }
    return false
  }

  /// Does nothing: the stream is told of the shutdown by its own reactor.
  func reactorShutDown() {}

  func hasten() {
    let stream = stream
    Task.detached {
      try? await Task.sleep(for: .seconds(2))
      await stream.abort()
    }
  }

  func abort() {
    layer = nil
    reading?.cancel()
    let stream = stream
    Task.detached { await stream.abort() }
  }
}

/// Closes a stream after a write and the remaining bytes, within the close timeout that the streams of this package
/// have.
@concurrent
private func close(_ stream: any ByteStream, sending rest: [UInt8], after writing: Task<Void, Never>?) async {
  // If the peer takes nothing, the write below would never end.
  let watch = Task {
    if (try? await Task.sleep(for: .seconds(30))) != nil { await stream.abort() }
  }
  // Tasks start in any order: the previous write may not be in the stream's queue yet.
  await writing?.value
  if !rest.isEmpty { try? await stream.write(rest, timeout: nil, progress: nil) }
  await stream.close()
  watch.cancel()
}
