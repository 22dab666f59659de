internal import EpollReactor
internal import SocketSystem

/// How fast, how much, and for how long ``pipe(from:to:limit:)`` and ``relay(between:and:limit:)`` move bytes.
///
/// ```swift
/// try await pipe(from: upload, to: storage, limit: RateLimit(bytesPerSecond: 1_000_000))
/// ```
public struct RateLimit: Hashable, Sendable {
  /// The number of bytes per second, at least 1, in each direction.
  public var bytesPerSecond: Int
  /// The number of bytes that may move at once after a pause, at least 1.
  public var burst: Int
  /// The largest number of bytes in total, in each direction, at least 0; `nil`, the default, for no limit. If more arrive, the call throws
  /// `.limitExceeded`. With `pipe`, the excess bytes stay unread in the source; `relay` aborts both streams.
  public var maximumBytes: Int?
  /// The longest time that the call may take, more than zero; `nil`, the default, for no limit. When it is over, the call ends as if it were
  /// cancelled, but throws ``SocketError`` with the code `.timedOut`: both streams stay open, and no byte is lost.
  public var maximumTime: Duration?

  /// Creates a limit.
  ///
  /// - Parameters:
  ///   - bytesPerSecond: The number of bytes per second, at least 1.
  ///   - burst: The number of bytes that may move at once after a pause, at least 1; `nil` for those of a tenth of a second.
  ///   - maximumBytes: The largest number of bytes in total, at least 0; `nil` for no limit.
  ///   - maximumTime: The longest time of the call, more than zero; `nil` for no limit.
  public init(bytesPerSecond: Int, burst: Int? = nil, maximumBytes: Int? = nil, maximumTime: Duration? = nil) {
    self.bytesPerSecond = bytesPerSecond
    self.burst = burst ?? max(1, bytesPerSecond / 10)
    self.maximumBytes = maximumBytes
    self.maximumTime = maximumTime
  }

  func check(_ operation: String) throws(SocketError) {
    if bytesPerSecond < 1 { throw .invalid(operation, "\(bytesPerSecond) bytes per second are too few") }
    if burst < 1 { throw .invalid(operation, "a burst of \(burst) bytes is too small") }
    if let maximumBytes, maximumBytes < 0 { throw .invalid(operation, "\(maximumBytes) is not a number of bytes") }
    if let maximumTime, maximumTime <= .zero { throw .invalid(operation, "a time of \(maximumTime) is too short") }
  }

  /// Cancels `body` when the time is over. The time is on the clock of `reactor`.
  func inTime<Value: Sendable>(
    _ operation: String, on reactor: Reactor, _ body: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    guard let maximumTime else { return try await body() }
    return try await withThrowingTaskGroup(of: Value?.self) { group in
      group.addTask { try await body() }
      group.addTask {
        do {
          try await Pause(on: reactor).wait(for: maximumTime.clampedNanoseconds)
        } catch is CancellationError {}
        return nil
      }
      defer { group.cancelAll() }
      if let value = try await group.next() ?? nil { return value }
      let isCancelled = Task.isCancelled
      group.cancelAll()
      do {
        // It may have ended before it learned of the cancellation.
        if let value = try await group.next() ?? nil { return value }
      } catch is CancellationError where !isCancelled {}
      throw SocketError(.timedOut, operation: operation, detail: "timed out after \(maximumTime.brief)")
    }
  }

  func bucket(at now: Int64) -> TokenBucket { TokenBucket(rate: bytesPerSecond, burst: burst, at: now) }

  /// The bytes that are worth a read: those of ten milliseconds, or fewer if fewer may move at once.
  var least: Int { min(burst, max(1, bytesPerSecond / 100), 65_536) }
}

/// Waits for times on the clock of a reactor.
actor Pause: EventHandler {
  nonisolated let executor: ReactorExecutor
  private nonisolated let registration: Registration
  private var waiters = Waiters<Void>()
  private var isShutDown = false

  init(on reactor: Reactor) {
    registration = Registration(on: reactor)
    executor = registration
    submit { $0.enter($0.registration) }
  }

  deinit { if registration.needsToLeave { executor.reactor.submit { [registration] in registration.leave() } } }

  /// One call at a time.
  func wait(for nanoseconds: Int64) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    if isShutDown { throw Self.shutDown }
    try Task.checkCancellation()
    let waiter = waiters.add(place)
    let id = waiter.id
    let end = instant(registration.reactor.now, plus: nanoseconds)
    let deadline = registration.arm(at: end, tag: DeadlineTag(.pause, id))
    await wait(for: waiter.suspension) {
      submit { $0.waiters.remove(id)?.resume(.failure(CancellationError())) }
    }
    if let deadline { registration.disarm(deadline) }
    try waiter.result()
  }

  private static var shutDown: SocketError { SocketError(.reactorShutDown, operation: "read") }

  func handle(_ readiness: Readiness) {}

  func deadlineReached(_ tag: DeadlineTag) {
    if tag.kind != .pause { tag.isUnexpected(by: Self.self) }
    waiters.remove(tag.id)?.resume(.success(()))
  }

  func reactorShutDown() {
    isShutDown = true
    waiters.resumeAll(.failure(Self.shutDown))
  }
}
