internal import EpollReactor

// Carries out exchanges: Exchange.swift describes them.

/// An exchange in the queues of a stream.
private final class QueuedExchange: ExchangeInQueues {
  private var exchange = Exchange()
  /// The stream that has the operations.
  private weak let core: StreamCore?
  private let outcome: PendingOutcome
  /// The numbers of the two operations. `nil` before they are admitted; `read` also after it has ended.
  var write: UInt64?
  var read: UInt64?

  init(_ core: StreamCore, _ outcome: PendingOutcome) {
    self.core = core
    self.outcome = outcome
  }

  var isAsked: Bool {
    guard let write, let core else { return false }
    return !core.writes.queue.isUntouched(write)
  }

  func readEnded(_ result: Result<OperationOutcome, any Error>) {
    read = nil
    let fails = if case .failure = result { true } else { false }
    carryOut(exchange.answered(fails: fails, isAsked: isAsked), result)
  }

  func writeEnded(_ result: Result<OperationOutcome, any Error>, isAsked: Bool) {
    if case .failure = result { carryOut(exchange.questionFailed(isAsked: isAsked), result) }
  }

  func overdueRead(_ registration: Registration) -> UInt64? {
    guard let read, core?.reads.queue.tag(of: read)?.isPastDeadline(registration) == true else { return nil }
    return read
  }

  func cancel() { carryOut(exchange.cancelled(isAsked: isAsked), .failure(CancellationError())) }

  private func carryOut(_ action: Exchange.Action, _ result: Result<OperationOutcome, any Error>) {
    switch action {
    case .nothing: break
    case .tell: tell(result)
    case .withdraw:
      // Their outcomes come here, where the exchange has ended.
      if let write { core?.cancelWrite(write) }
      if let read { core?.withdrawRead(read) }
      tell(result)
    case .endStream(let tells):
      core?.answerFailed(result)
      if tells { tell(result) }
    }
  }

  private func tell(_ result: Result<OperationOutcome, any Error>) { outcome.callHere(result) { $0.resolve($1) } }
}

extension StreamCore {
  /// Admits a question, whose pieces have `count` bytes, and the read of its answer. If `isLimited`, the write budget applies, as to other
  /// enqueued writes.
  func ask(
    _ question: [[UInt8]], _ count: Int, _ kind: ReadKind, _ timeout: Timeout?, _ called: Int64,
    _ outcome: PendingOutcome, owner: any ByteStream, isLimited: Bool
  ) {
    writeLeavesElements()
    do {
      try kind.validate()
      if case .peek = kind { throw SocketError.invalid("ask", "a peek leaves the answer for the next read") }
      if count == 0 { throw SocketError.invalid("ask", "a question of no bytes has no answer") }
      if let refusal, !lifecycle.readsFindEnd { throw refusal.during("ask").thrown }
      try checkWritable()
      if isLimited { try checkBudget(for: count) }
      if let timeout, timeout.startsAtCall, timeout.end(startingAt: called) <= registration.reactor.now {
        throw SocketError(.timedOut, operation: "ask", detail: "not asked \(timeout.limit)")
      }
    } catch {
      return outcome.callHere(.failure(error)) { $0.resolve($1) }
    }
    let exchange = QueuedExchange(self, outcome)
    let write = operation(.question(exchange), nil, nil)
    write.called = called
    let isFirst = writes.queue.isEmpty
    exchange.write = admitUnsent(.pieces(question), alreadySent: 0, write)
    let read = operation(.answer(exchange), timeout, nil)
    read.start = called
    read.called = called
    // Before anything is sent, so that a read which fails at once takes the question back.
    let id = admit(kind, read) { exchange.read = $0 }
    sendGathering(count, isFirst: isFirst, hasTimeout: false, of: owner)
    outcome.callHere({ @Sendable [weak owner] in owner?.callHere(id) { $0.core.cancelExchange($1) } }) {
      $0.admitted(takeBack: $1)
    }
  }

  private func cancelExchange(_ read: UInt64) {
    if case .answer(let exchange)? = reads.queue.tag(of: read)?.waiter { exchange.cancel() }
  }

  /// The enqueued reads after it fail, unless it is the answer to a question that was not sent.
  func removeExpiredRead(_ id: UInt64) -> ReadQueue<Operation>.Entry? {
    if case .answer(let exchange)? = reads.queue.tag(of: id)?.waiter, !exchange.isAsked {
      return reads.queue.withdraw(id)
    }
    return reads.queue.remove(id)
  }

  /// The question was not sent, so no answer arrives, and the reads after it are not affected.
  fileprivate func withdrawRead(_ id: UInt64) {
    guard let entry = reads.queue.withdraw(id) else { return }
    finish(entry.tag, .failure(CancellationError()))
    pumpReads()
  }

  /// The next answer would be taken for the one that failed, unless no other can arrive: the stream closes, or has ended for its reads.
  fileprivate func answerFailed(_ result: Result<OperationOutcome, any Error>) {
    guard case .failure(let cause) = result, lifecycle.mayFinishReads, !reads.queue.isRefusing else { return }
    let code = (cause as? SocketError)?.code
    let isOfTheAnswer = code == .timedOut || code == .limitExceeded || code == .invalidMessage
    if reads.queue.ending != nil, !isOfTheAnswer { return }
    let error = SocketError(
      .precedingReadFailed, operation: "ask", detail: "the stream ended, because the answer before it failed: \(cause)")
    terminate(lifecycle.breakage ?? error, (cause as? SocketError).map { CloseReport.Reason($0) } ?? .error(error))
  }
}
