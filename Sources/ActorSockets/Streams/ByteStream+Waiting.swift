internal import EpollReactor

// How the calls of a stream wait. A wait ends in one of two ways: the queue or the life cycle resumes the call, or the call's task
// is cancelled, which the cancellation handler reports through the reactor's queue.

extension ByteStream {
  @inline(__always)
  func wait(for suspension: Suspension, _ call: QueuedCall) async {
    if executor.isCalledByHandlerTask {
      core.handlerTaskWaits(for: call)
      await suspension.suspend()
    } else {
      await waitAndListen(for: suspension, call)
    }
  }

  /// `beginRead` has just found out that the task is not cancelled.
  @inline(__always)
  func wait(forRead suspension: Suspension, _ id: UInt64, _ place: Place) async {
    // Not `executor`: each access to it or to the core is a call, and retains.
    if place.executor.isCalledByHandlerTask {
      await suspension.suspend()
    } else {
      await waitAndListen(for: suspension, .read(id))
    }
  }

  /// Suspends an operation of a task that is no handler task. Not inlined: the frames of reads and writes are part of every idle
  /// connection, and this needs 100 bytes more.
  @inline(never)
  private func waitAndListen(for suspension: Suspension, _ call: QueuedCall) async {
    await wait(for: suspension) { submit { $0.core.cancel(call) } }
  }

  /// Waits until the stream is up: until it is connected, its handshake is done, or the header of a load balancer has arrived.
  ///
  /// There is no need to call it before other operations, because they wait, too.
  ///
  /// *Ordering*: the call has no place among the operations. It returns when the condition holds.
  ///
  /// *Cancellation* only ends the wait, and throws `CancellationError`.
  ///
  /// - Throws: The error that prevented the stream from opening, or ended it, for example `.closed`; `CancellationError` if the task
  ///   is cancelled.
  public func waitUntilOpen() async throws { try await waitUntilOpen(claimPlaceNow()) }

  package func waitUntilOpen(_ place: Place) async throws {
    if core.state == .open { return }
    if core.lifecycle.report != nil { throw core.endError.during(core.transport.openingOperation).thrown }
    // A handler waits for its TLS handshake, and keeps the memory for that for as long as it runs.
    let isHandlerTask = executor.isCalledByHandlerTask
    let waiter = try waiter(in: \.open, place, isCancellable: !isHandlerTask)
    if !isHandlerTask { return try await wait(for: waiter, in: \.open) }
    await waiter.suspension.suspend()
    do {
      try waiter.result()
    } catch {
      throw core.errorOfCall(error)
    }
  }

  /// Waits until the listener that serves this connection stops: until ``isDraining`` is true, which it is from the beginning of a drain,
  /// or of its notice if it has one. Use it to send a farewell message or to stop background work. A connection that no listener serves
  /// waits until it has ended.
  ///
  /// *Ordering*: the call has no place among the operations. It returns when the condition holds.
  ///
  /// *Cancellation* only ends the wait, and throws `CancellationError`.
  ///
  /// - Throws: ``SocketError``: `.closed` or why the connection broke, if that comes first; `CancellationError` if the task is
  ///   cancelled.
  public func waitUntilDraining() async throws { try await waitForDrain(claimPlaceNow()) }

  /// Asks here whether the listener drains already, because the call may have been suspended on its way to this method.
  private func waitForDrain(_ place: Place) async throws {
    if isDraining { return }
    if core.lifecycle.report != nil { throw core.endError.during("waitUntilDraining").thrown }
    try await wait(for: waiter(in: \.draining, place), in: \.draining)
  }

  func waitUntilReleased(_ place: Place) async {
    if core.isReleased { return }
    guard let waiter = try? waiter(in: \.released, place) else { return }
    try? await wait(for: waiter, in: \.released)
  }

  /// Check the condition just before, in the same job: the runtime may suspend a task at any `await`.
  func waiter<Value: Sendable>(
    in waiters: any ReferenceWritableKeyPath<StreamWaiters, Waiters<Value>> & Sendable, _ place: Place,
    isCancellable: Bool = true
  ) throws -> Waiters<Value>.Waiter {
    try Task.checkCancellation()
    let made = core.madeWaiters
    if isCancellable { made.wereCancellable = true }
    return made[keyPath: waiters].add(place)
  }

  /// Not inlined: see `waitUntilOpen`.
  @inline(never)
  func wait<Value: Sendable>(
    for waiter: Waiters<Value>.Waiter,
    in waiters: any ReferenceWritableKeyPath<StreamWaiters, Waiters<Value>> & Sendable
  ) async throws -> Value {
    let id = waiter.id
    await wait(for: waiter.suspension) {
      submit { $0.core.waiters?[keyPath: waiters].remove(id)?.resume(.failure(CancellationError())) }
    }
    return try waiter.result()
  }
}
