import ActorSockets
import ActorSocketsTesting
import TestSupport

/// The time of a history.
struct QueueTime: Sendable {
  let now: @Sendable () -> ContinuousClock.Instant
  /// Lets time pass. An operation of the test causes it.
  let pass: @Sendable (Duration) async throws -> Void
  /// The same for the peer.
  let pause: @Sendable (Duration) async throws -> Void
  /// Whether the test sees each result at its time. Otherwise it may see one later.
  let isExact: Bool

  static let virtual = QueueTime(
    now: { .now }, pass: { try await Task.sleep(for: $0) }, pause: { try await Task.sleep(for: $0) }, isExact: true)

  static func manual(_ time: ManualTime) -> QueueTime {
    QueueTime(
      now: { time.now }, pass: { await time.advance(by: $0) }, pause: { _ in await Task.yield() }, isExact: false)
  }
}

/// Operations of all kinds on a stream and its peer: reads, writes, enqueued ones, cancellations and timeouts in both directions at once.
/// `QueueModel` says what may come out of each queue.
struct QueueHistory {
  struct Sizes {
    var read = 300
    /// Of most writes; a few are longer.
    var write = 300
    /// The binary logarithm of the longest piece that the peer sends. With 0 it sends nothing, and there are no reads.
    var piece: UInt64 = 12
  }

  private struct Call: Sendable {
    let task: Task<OperationResult, Never>
    let takeBack: @Sendable () -> Void
  }

  private let stream: any ByteStream
  private let time: QueueTime
  private let sizes: Sizes
  private var random: SeededRandom
  private var model: QueueModel
  private var reads: [Call] = []
  private var writes: [Call] = []

  /// Carries out a number of operations. `end` ends the stream while others wait; without it all are waited for.
  static func run(
    _ pair: Pair, _ time: QueueTime = .virtual, seed: UInt64, operations: Int, mostWaiting: UInt64 = 40,
    _ sizes: Sizes = Sizes(), keepsBytes: Bool = true, end: (@Sendable () async -> Void)? = nil
  ) async throws {
    let isOver = Gate()
    async let arrived = QueuePeer.use(
      pair.server, until: isOver, seed: seed, largestPiece: sizes.piece, pause: time.pause)
    // If a result is wrong, the peer ends, too.
    defer { isOver.open() }
    var history = QueueHistory(pair.client, time, seed: seed, sizes)
    for _ in 0..<operations { try await history.step(mostWaiting) }
    if let end { await end() } else { try await history.settleAll() }
    try await history.finish(isOver, afterEnding: end != nil)
    try history.model.check(try await arrived, isWhole: keepsBytes)
    await pair.server.close()
  }

  private init(_ stream: any ByteStream, _ time: QueueTime, seed: UInt64, _ sizes: Sizes) {
    self.stream = stream
    self.time = time
    self.sizes = sizes
    random = SeededRandom(seed: seed)
    model = QueueModel(time)
  }

  /// Begins one operation. Often it also cancels one, pauses, or looks at the results of some.
  private mutating func step(_ mostWaiting: UInt64) async throws {
    if sizes.piece > 0, random.next() % 2 == 0 { beginRead() } else { beginWrite() }
    if random.next() % 5 == 0 { cancelOne() }
    if random.next() % 2 == 0 { try await time.pass(.microseconds(Int64(random.next() % 4_000))) }
    let most = Int(random.next() % mostWaiting)
    while reads.count > most { try model.ended(read: await reads.removeFirst().task.value) }
    while writes.count > most { try model.ended(write: await writes.removeFirst().task.value) }
  }

  private mutating func settleAll() async throws {
    while !reads.isEmpty { try model.ended(read: await reads.removeFirst().task.value) }
    while !writes.isEmpty { try model.ended(write: await writes.removeFirst().task.value) }
  }

  /// Ends the connection if it has not ended, and takes the bytes that are left.
  private mutating func finish(_ isOver: Gate, afterEnding hasEnded: Bool) async throws {
    model.hasEnded = hasEnded
    try await settleAll()
    isOver.open()
    if hasEnded { return }
    try await stream.finishWriting()
    try model.take(try await stream.readToEnd())
    let status = await stream.status
    if status.queuedReads + status.queuedWrites + status.unsentBytes > 0 { throw QueueModel.Violation("\(status)") }
    await stream.close()
  }

  private mutating func timeout() -> (limit: Duration?, isFromCall: Bool, Timeout?) {
    if random.next() % 4 != 0 { return (nil, false, nil) }
    let limit = Duration.milliseconds(Int64(random.next() % 100))
    switch random.next() % 4 {
    case 0, 1: return (limit, true, .within(limit))
    case 2: return (limit, false, .after(limit))
    default: return (limit, false, .after(limit / 2) { elapsed, _ in elapsed < limit ? limit / 2 : nil })
    }
  }

  private mutating func cancelOne() {
    let isRead = sizes.piece > 0 && random.next() % 2 == 0
    let calls = isRead ? reads : writes
    guard !calls.isEmpty else { return }
    let index = Int(random.next() % UInt64(calls.count))
    model.cancelled(index, isRead: isRead)
    if random.next() % 2 == 0 { calls[index].takeBack() } else { calls[index].task.cancel() }
  }

  private func call(
    _ takeBack: (@Sendable () -> Void)?, _ body: @escaping @Sendable () async throws -> [UInt8]
  ) -> Call {
    let task = Task.immediate { [time] in await OperationResult(time, body) }
    return Call(task: task, takeBack: takeBack ?? { task.cancel() })
  }

  private mutating func beginRead() {
    let kind = QueueModel.ReadKind.allCases[Int(random.next() % UInt64(QueueModel.ReadKind.allCases.count))]
    let (limit, isFromCall, timeout) = timeout()
    let count = 1 + Int(random.next() % UInt64(sizes.read))
    model.beganRead(kind, count, limit, isFromCall: isFromCall)
    let stream = stream
    let enqueued: Pending<[UInt8]>? =
      switch kind {
      case .enqueued: stream.enqueueRead(.exactly(count), timeout: timeout)
      case .enqueuedLine: stream.enqueueRead(.until(.lf, maximumLength: 4 * count), timeout: timeout)
      default: nil
      }
    var takeBack: (@Sendable () -> Void)?
    if let enqueued { takeBack = { enqueued.cancel() } }
    reads.append(
      call(takeBack) {
        switch kind {
        case .exactly: return try await stream.read(exactly: count, timeout: timeout)
        case .into:
          var bytes: [UInt8] = []
          _ = try await stream.read(into: &bytes, exactly: count, timeout: timeout)
          return bytes
        case .available: return try await stream.read(upTo: count, timeout: timeout) ?? []
        case .line: return try await stream.read(until: .lf, maximumLength: 4 * count, timeout: timeout)
        case .peek: return try await stream.peek(upTo: count, timeout: timeout) ?? []
        case .look:
          return try await stream.withBytes(upTo: count, timeout: timeout) { bytes, consumed in
            consumed = bytes.count == count ? count : 0
            return [UInt8](copying: bytes.extracting(first: consumed))
          } ?? []
        case .message:
          for try await message in stream.messages(ofLength: count, timeout: timeout) { return message }
          // The loop of a cancelled task, or at the end of the stream.
          throw CancellationError()
        case .enqueued, .enqueuedLine: return try await enqueued?.value ?? []
        }
      })
  }

  private mutating func beginWrite() {
    let (limit, isFromCall, timeout) = timeout()
    let count = Int(random.next() % (random.next() % 25 == 0 ? 60_000 : UInt64(sizes.write)))
    let message = QueueModel.message(model.beganWrite(limit, isFromCall: isFromCall), count)
    let kind = random.next() % 6
    let stream = stream
    let enqueued = kind < 3 ? stream.enqueueWrite(message, timeout: timeout) : nil
    var takeBack: (@Sendable () -> Void)?
    if let enqueued { takeBack = { enqueued.cancel() } }
    writes.append(
      call(takeBack) {
        switch kind {
        case 3: try await stream.write(message, timeout: timeout)
        case 4: try await stream.write(message.span, timeout: timeout)
        case 5:
          try await stream.write(contentsOf: [Array(message[..<5]), [], Array(message[5...])], timeout: timeout)
        default: if let enqueued { try await enqueued.value }
        }
        return []
      })
  }
}
