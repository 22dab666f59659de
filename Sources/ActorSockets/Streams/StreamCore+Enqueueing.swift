internal import EpollReactor
internal import SocketSystem

// Operations that were enqueued without waiting for them. Their outcome goes to a handle, `Pending`.

extension StreamCore {
  func enqueue(
    _ kind: ReadKind, _ timeout: Timeout?, _ called: Int64, _ outcome: PendingOutcome,
    owner: any ByteStream
  ) {
    do {
      try kind.validate()
      if let refusal, !lifecycle.readsFindEnd { throw refusal.during("read").thrown }
    } catch {
      return outcome.callHere(.failure(error)) { $0.resolve($1) }
    }
    let read = operation(
      .handle { result in outcome.callHere(result) { $0.resolve($1) } }, timeout, nil)
    read.start = called
    read.called = called
    let id = admit(kind, read)
    outcome.callHere({ @Sendable [weak owner] in owner?.callHere(id) { $0.core.cancelRead($1) } }) {
      $0.admitted(takeBack: $1)
    }
  }

  /// The pieces have `count` bytes.
  func enqueue(
    _ pieces: [[UInt8]], _ count: Int, _ timeout: Timeout?, _ called: Int64, _ outcome: PendingOutcome,
    owner: any ByteStream
  ) {
    writeLeavesElements()
    do {
      try checkWritable()
      try checkBudget(for: count)
    } catch {
      return outcome.callHere(.failure(error)) { $0.resolve($1) }
    }
    let write = operation(
      .handle { result in outcome.callHere(result) { $0.resolve($1) } }, timeout, nil)
    write.start = called
    write.called = called
    let id = admitGathered(pieces, count, write, of: owner)
    outcome.callHere({ @Sendable [weak owner] in owner?.callHere(id) { $0.core.cancelWrite($1) } }) {
      $0.admitted(takeBack: $1)
    }
  }

  func optionsChanged() {
    // The write budget also limits the calls of `enqueueWrite` that the reactor's thread has not reached.
    registration.submissions.set(options.writeBudget, endsSocket: options.abortsSlowPeer)
    writes.queue.buffersWrites = options.buffersWrites
  }

  func checkBudget(for count: Int) throws {
    if !exceedsBudget(count) { return }
    // The peer is slow only if the transport takes no more, not if this iteration's budget is used up.
    if options.abortsSlowPeer { writes.renewBudget() }
    pumpWrites()
    if !exceedsBudget(count) { return }
    let error = SocketError.overBudget(
      chargedBytes, options.writeBudget, "enqueueWrite", options.abortsSlowPeer ? .peerTooSlow : .limitExceeded)
    if options.abortsSlowPeer { terminate(error, .peerTooSlow) }
    throw error
  }

  /// More was enqueued than the budget allows before the reactor's thread had reached it, and that ends the stream.
  func submissionsOverflowed(_ error: SocketError) {
    sendGatheredNow()
    if refusal == nil { terminate(error, .peerTooSlow) }
  }

  /// Bytes in files take no memory.
  private var bytesInMemory: Int { writes.queue.queuedBytes - writes.queue.queuedFileBytes }

  /// The number of bytes that the queued writes count as. Each write takes some memory, however small it is.
  private var chargedBytes: Int { max(bytesInMemory, writes.queue.count * SubmissionLimit.leastCharge) }

  private func exceedsBudget(_ count: Int) -> Bool {
    // If no bytes wait, a write of any size is accepted.
    let more = bytesInMemory == 0 ? 0 : max(count, SubmissionLimit.leastCharge)
    // An operation without bytes in memory, such as one that sends a file, leaves room for a write, however small the budget is.
    return chargedBytes + more > max(options.writeBudget, SubmissionLimit.leastCharge)
  }
}

extension SocketError {
  static func overBudget(
    _ waiting: Int, _ budget: Int, _ operation: String, _ code: Code = .limitExceeded
  ) -> SocketError {
    SocketError(
      code, operation: operation,
      detail: "\(waiting) bytes are already waiting to be sent, and the budget is \(budget)")
  }
}
