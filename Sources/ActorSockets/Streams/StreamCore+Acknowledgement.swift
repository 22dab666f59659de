internal import EpollReactor

/// A stream has this state only while a flush waits.
final class AcknowledgementWait {
  var queue = Acknowledgements<Operation>()
  var deadline: DeadlineKey?
}

extension StreamCore {
  func begin(
    flushUntil target: FlushTarget, _ timeout: Timeout?, _ place: Place
  ) throws -> Operation {
    try Task.checkCancellation()
    if let refusal { throw refusal.during("flush").thrown }
    if let error = lifecycle.breakage { throw error.during("flush").thrown }
    return begin(target == .sent ? .pieces([]) : .acknowledgement, timeout, nil, place)
  }

  func awaitAcknowledgement(_ id: UInt64, _ flush: Operation?) {
    guard let flush else { return }
    if transport.unacknowledgedBytes == 0 { return finish(flush, .success(.written)) }
    if writes.isImmediate {
      writes.isImmediate = false
      return timeOut(flush, "flush", 0)
    }
    let wait = acknowledgementWait ?? AcknowledgementWait()
    acknowledgementWait = wait
    // The flush does not wait for bytes that are sent from now on.
    wait.queue.add(id, position: bytesSent, flush)
    if let deadline = wait.deadline.take() { registration.disarm(deadline) }
    askAgain(wait)
  }

  func checkAcknowledgements() {
    guard let wait = acknowledgementWait else { return }
    wait.deadline = nil
    for flush in wait.queue.acknowledged(bytesSent - transport.unacknowledgedBytes) {
      finish(flush, .success(.written))
    }
    if wait.queue.isEmpty { endAcknowledgementWait() } else { askAgain(wait) }
  }

  private func askAgain(_ wait: AcknowledgementWait) {
    wait.deadline = registration.arm(
      at: instant(registration.reactor.now, plus: wait.queue.nextPause()), tag: DeadlineTag(.acknowledgement)
    )
  }

  func removeFlush(_ id: UInt64) -> Operation? {
    guard let flush = acknowledgementWait?.queue.remove(id) else { return nil }
    if acknowledgementWait?.queue.isEmpty == true { endAcknowledgementWait() }
    return flush
  }

  /// No more acknowledgements will arrive.
  func failFlushes(_ error: SocketError) {
    guard let wait = acknowledgementWait else { return }
    for flush in wait.queue.takeAll() { finish(flush, .failure(error.during("flush"))) }
    endAcknowledgementWait()
  }

  private func endAcknowledgementWait() {
    if let deadline = acknowledgementWait.take()?.deadline { registration.disarm(deadline) }
    recheckQueues()
  }
}
