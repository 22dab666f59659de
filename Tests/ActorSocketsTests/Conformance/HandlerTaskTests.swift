import EpollReactor
import TestSupport
import Testing

@testable import ActorSockets

/// In a server, the handler task of a connection is the task that runs its handler.
@Suite(.conformance, .endsInTime) struct HandlerTaskTests {
  enum Call: CaseIterable {
    case read, exactly, look, write

    func run(on stream: some ByteStream) async throws {
      switch self {
      case .read: _ = try await stream.read()
      case .exactly: _ = try await stream.read(exactly: 10)
      case .look: _ = try await stream.withBytes { _, _ in }
      case .write: try await stream.write(pattern(tooMuch))
      }
    }
  }

  private static func startHandlerTask(
    _ stream: some ByteStream, _ body: @escaping @Sendable () async throws -> Void
  ) -> Task<Void, any Error> {
    Task.immediate {
      stream.markHandlerTask(true)
      defer { stream.markHandlerTask(false) }
      try await body()
    }
  }

  private static func startHandlerTask(_ stream: some ByteStream, _ call: Call) -> Task<Void, any Error> {
    startHandlerTask(stream) { try await call.run(on: stream) }
  }

  /// Cancels it as a server does, which aborts the stream, too.
  private static func cancel(_ task: Task<some Any, any Error>, of stream: some ByteStream) {
    task.cancel()
    stream.submit { $0.abort() }
  }

  private static func waits(_ call: Call, on stream: some ByteStream) async -> Bool {
    let status = await stream.status
    return call == .write ? status.queuedWrites > 0 : status.queuedReads > 0
  }

  @Test(arguments: Transport.allCases, Call.allCases)
  func `A call of the handler task ends when its task is cancelled, and no byte is lost`(
    transport: Transport, call: Call
  ) async throws {
    let pair = try await transport.pair { $0.isNarrow = true }
    let stream = pair.server
    let handlerTask = Self.startHandlerTask(stream, call)
    try await eventually("the call waits") { await Self.waits(call, on: stream) }
    if call == .exactly {
      try await pair.client.write([1, 2, 3])
      try await stream.hasBuffered(3)
    }
    Self.cancel(handlerTask, of: stream)
    await expectCancellation { try await handlerTask.value }
    #expect(await stream.takeBuffered() == (call == .exactly ? [1, 2, 3] : []))
    await pair.client.abort()
  }

  @Test(arguments: Call.allCases)
  func `A task that is cancelled already makes no call`(call: Call) async throws {
    let pair = try await Transport.inMemory.pair { $0.isNarrow = true }
    let stream = pair.server
    let gate = Gate()
    let handlerTask = Self.startHandlerTask(stream) {
      await gate.wait()
      try await call.run(on: stream)
    }
    Self.cancel(handlerTask, of: stream)
    gate.open()
    await expectCancellation { try await handlerTask.value }
    #expect(await !Self.waits(call, on: stream))
    await stream.abort()
    await pair.client.abort()
  }

  /// The look has its turn, and the task has not run since.
  @Test func `A cancellation that comes between a turn and its look ends the call`() async throws {
    let pair = try await Transport.inMemory.pair()
    let stream = pair.server
    let first = stream.enqueueRead(.exactly(10))
    try await pair.client.write([1, 2, 3])
    try await stream.hasBuffered(3)
    let handlerTask = Self.startHandlerTask(stream, .look)
    try await stream.hasQueued(reads: 2)
    stream.submit { stream in
      stream.core.reads.queue.first.map { stream.core.cancelRead($0.id) }
      handlerTask.cancel()
      stream.abort()
    }
    await expectCancellation { _ = try await first.value }
    await expectCancellation { try await handlerTask.value }
    #expect(await stream.takeBuffered() == [1, 2, 3])
    await pair.client.abort()
  }

  @Test(arguments: Call.allCases)
  func `A call whose task is not cancelled fails with closed when the stream is aborted`(call: Call) async throws {
    let pair = try await Transport.tcpOverIPv4.pair { $0.isNarrow = true }
    let stream = pair.server
    let handlerTask = Self.startHandlerTask(stream, call)
    try await eventually("the call waits") { await Self.waits(call, on: stream) }
    await stream.abort()
    await expectError(.closed) { try await handlerTask.value }
    await pair.client.abort()
  }

  @Test func `A handler that cancels its own task waits for nothing afterwards`() async throws {
    let pair = try await Transport.tcpOverIPv4.pair { $0.isNarrow = true }
    let stream = pair.server
    let handlerTask = Self.startHandlerTask(stream) {
      _ = stream.enqueueWrite(pattern(tooMuch))
      unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
      try await stream.finishWriting()
    }
    await expectCancellation { try await handlerTask.value }
    await stream.abort()
    await pair.client.abort()
  }

  @Test func `The error of a body is thrown as it is, also in a cancelled task`() async throws {
    let pair = try await Transport.inMemory.pair()
    let stream = pair.server
    try await pair.client.write([1, 2, 3])
    let handlerTask = Self.startHandlerTask(stream) {
      try await stream.withBytes { _, _ in
        unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
        throw SocketError(.closed, operation: "another stream's")
      }
    }
    let error = await expectError(.closed) { try await handlerTask.value }
    #expect(error.operation == "another stream's")
    await stream.abort()
    await pair.client.abort()
  }

  @Test func `A call that failed before its task was cancelled throws why it failed`() async throws {
    let pair = try await Transport.inMemory.pair()
    let stream = pair.server
    let reading = Task.immediate { _ = try await stream.read() }
    try await stream.hasQueued(reads: 1)
    stream.submit { stream in
      stream.abort()
      reading.cancel()
    }
    await expectError(.closed) { try await reading.value }
    await pair.client.abort()
  }

  @Test(arguments: Call.allCases)
  func `Others listen for their own cancellation, meanwhile and afterwards`(call: Call) async throws {
    let pair = try await Transport.tcpOverIPv4.pair { $0.isNarrow = true }
    let stream = pair.server
    func cancelOther() async throws {
      let other = Task.immediate { try await call.run(on: stream) }
      try await eventually("the call waits") { await Self.waits(call, on: stream) }
      other.cancel()
      await expectCancellation { try await other.value }
    }
    stream.markHandlerTask(true)
    try await cancelOther()
    stream.markHandlerTask(false)
    try await cancelOther()
    // This task is no longer the handler task.
    let before = Task.immediate {
      stream.markHandlerTask(true)
      stream.markHandlerTask(false)
      try await call.run(on: stream)
    }
    try await eventually("the call waits") { await Self.waits(call, on: stream) }
    before.cancel()
    await expectCancellation { try await before.value }
    await stream.abort()
    await pair.client.abort()
  }

  @Test(.endsInTime(seconds: secondsForRounds))
  func `Cancellation races with the bytes that the handler task waits for, and no byte is lost`() async throws {
    var random = SeededRandom(seed: 11)
    for round in 0..<rounds {
      let pair = try await Transport.inMemory.pair()
      let stream = pair.server
      let byte = UInt8(round % 251)
      let handlerTask = Task {
        stream.markHandlerTask(true)
        defer { stream.markHandlerTask(false) }
        return try await stream.read()
      }
      let writing = Task { try? await pair.client.write([byte]) }
      // The bytes win every tenth round; either may win the others.
      if round % 10 == 1 { #expect(try await handlerTask.value == [byte]) }
      for _ in 0..<Int.random(in: 0..<4, using: &random) { await Task.yield() }
      Self.cancel(handlerTask, of: stream)
      do {
        #expect(try await handlerTask.value == [byte])
      } catch is CancellationError {
        #expect(round % 10 != 1)
        let received = await stream.metrics.bytesReceived
        #expect(await stream.takeBuffered().count == received)
      }
      await writing.value
      await pair.client.abort()
    }
  }
}
