internal import EpollReactor
internal import SocketSystem

extension UDPEndpoint {
  /// How long a reply may wait for room at its destination, in nanoseconds.
  static var replyPatience: Int64 { 5_000_000_000 }
  /// The limit for all waiting replies is `sendBudget` divided by this.
  static var budgetsPerReplyLimit: Int { 2 }

  func admitSend(
    _ content: SendQueue<Operation>.Content, _ timeout: Timeout?, isBatch: Bool = false
  ) -> Operation {
    let operation = Operation(
      .call, timeout: timeout, progress: nil, start: timeout?.start == .call ? registration.reactor.now : 0)
    admit(content, operation, isBatch: isBatch)
    return operation
  }

  /// The operation's timeout begins now or at the call. A send has no turn at which its timeout could begin, because later datagrams to
  /// other destinations may be sent first.
  private func admit(_ content: SendQueue<Operation>.Content, _ operation: Operation, isBatch: Bool = false) {
    closeGate()
    operation.id = sends.queue.admit(content, isBatch: isBatch, expiry: expiry(of: content, operation), operation)
    operation.armAtCall(registration, DeadlineTag(.send, operation.id))
    _ = operation.begin(registration, DeadlineTag(.send, operation.id))
  }

  /// When the replies of an entry expire if they wait in lines, in nanoseconds on the reactor's clock: 0 if they must not wait, `.max` if
  /// the entry has no replies that may wait without their call.
  private func expiry(of content: SendQueue<Operation>.Content, _ operation: Operation) -> Int64 {
    guard case .datagrams(let datagrams) = content, datagrams.contains(where: { isLenientReply($0) }) else {
      return .max
    }
    let now = registration.reactor.now
    let latest = instant(now, plus: Self.replyPatience)
    guard let timeout = operation.timeout else { return latest }
    let end = timeout.end(startingAt: timeout.start == .call ? operation.start : now)
    return end <= now ? 0 : min(end, latest)
  }

  func finish(_ operation: Operation) async throws {
    if let suspension = operation.waiting {
      let id = operation.id
      await wait(for: suspension) { submit { $0.cancelSend(id) } }
    }
    _ = try operation.outcome?.get()
  }

  func enqueue(
    _ datagram: Datagram, _ timeout: Timeout?, _ called: Int64, _ outcome: PendingOutcome
  ) {
    let queued = max(sends.queue.queuedBytes, sends.queue.count * SubmissionLimit.leastCharge)
    let passed: Datagram?
    do {
      try checkSendable(isReply: isLenientReply(datagram))
      if queued > 0, queued + SendLine.charge(datagram) > configuration.sendBudget {
        throw SocketError.overBudget(queued, configuration.sendBudget, "enqueueSend")
      }
      passed = try filtered(datagram)
    } catch {
      return outcome.callHere(.failure(error)) { $0.resolve($1) }
    }
    guard let datagram = passed else { return outcome.callHere(.success(.written)) { $0.resolve($1) } }
    let operation = Operation(
      .handle { result in outcome.callHere(result) { $0.resolve($1) } }, timeout: timeout,
      progress: nil, start: called)
    operation.called = called
    lifecycle.handleCreated()
    admit(.datagrams([datagram]), operation)
    let id = operation.id
    outcome.callHere({ @Sendable [weak self] in self?.callHere(id) { $0.cancelSend($1) } }) {
      $0.admitted(takeBack: $1)
    }
    pumpSends(startingWith: operation)
  }

  private func cancelSend(_ id: UInt64) {
    endSearch(id)
    guard let (operation, _) = sends.queue.remove(id) else { return }
    finish(operation, .failure(CancellationError()))
    pumpSends()
  }

  func expireSend(_ id: UInt64) {
    guard let operation = sends.queue.tag(of: id) else { return }
    if operation.extend(registration, DeadlineTag(.send, id), done: 0) { return }
    endSearch(id)
    let destination = sends.queue.destination(of: id) ?? core.routes.peer?.address
    guard let (_, sent) = sends.queue.remove(id) else { return }
    finish(
      operation, .failure(operation.timedOut("send", at: registration.reactor.now, peer: destination, done: sent)))
    pumpSends()
  }

  // MARK: Carrying out what the queue says

  /// If the operation has no time to wait, it ends when nothing more can be done at once.
  func pumpSends(startingWith operation: Operation) {
    if operation.timeout?.isImmediate == true {
      // There may be room that was not reported yet.
      core.roomMayBe()
      sends.queue.mustNotWait(operation.id)
    }
    pumpSends()
  }

  func pumpSends() {
    if !sends.beginPump(registration.tick) { return }
    let hasMore = carryOutSends()
    sends.endPump()
    // What has no time to wait may still be sent with the next budget.
    if !hasMore { for id in sends.queue.takeImmediate() { expireSend(id) } }
    armRetry()
    recheckQueues()
  }

  /// Returns whether it stopped because the budget is used up, so that another one comes.
  private func carryOutSends() -> Bool {
    // Each pump has a budget. It finishes the entries that it has sent before it stops, because a datagram that the kernel has cannot be
    // taken back.
    sends.renewBudget()
    while true {
      switch sends.queue.step() {
      case .idle: return false
      case .send where expireOverdueSend(): continue
      case .send:
        if sends.budget.isSpent, sends.mustWait({ registration.reschedule() }) { return true }
        if core.mustWaitToSend { return false }
        sends.budget.use(operations: sendQueued())
      case .park:
        if sends.budget.isSpent, sends.mustWait({ registration.reschedule() }) { return true }
        sends.budget.use(operations: parkQueued())
      case .connect(let addresses): sends.queue.connected(connectNow(to: addresses))
      case .finish(let operation, let result): finish(operation, result.map { .written })
      }
    }
  }

  /// Returns the part of the budget that it uses: the number of datagrams that wait or were dropped.
  private func parkQueued() -> Int {
    let (count, dropped) = sends.queue.park(atMost: sends.budget.operations)
    if let dropped { undelivered(.noRoom(dropped.remoteAddress)) }
    return count
  }

  func isOverdue(_ sender: SendQueue<Operation>.Sender) -> Bool {
    switch sender {
    case .call(_, let operation): operation.isPastDeadline(registration)
    case .reply(let expiry): expiry <= registration.reactor.now
    }
  }

  /// Times out the first datagram if its deadline has passed, unless a datagram of its call is already done. The check is needed because
  /// the loop handles the events of an iteration before the deadlines, so the datagram would still be sent.
  private func expireOverdueSend() -> Bool {
    guard let (datagram, sender) = sends.queue.first else { return false }
    switch sender {
    case .reply:
      guard isOverdue(sender) else { return false }
      undelivered(.noRoom(datagram.remoteAddress))
      sends.queue.dropped()
      return true
    case .call(let id, _):
      guard isOverdue(sender), !sends.queue.isUnderWay(id) else { return false }
      expireSend(id)
      // The timeout's closure may have given it more time.
      return sends.queue.tag(of: id) == nil
    }
  }
}
