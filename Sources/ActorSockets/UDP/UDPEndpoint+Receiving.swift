internal import EpollReactor
internal import SocketSystem

extension UDPEndpoint {
  /// The largest number of messages that one system call fetches. With UDP_GRO, a message may be several datagrams.
  static var fetchSize: Int { 32 }
  // MARK: Calls

  /// Receives the next datagram: recvmmsg(2).
  ///
  /// *Cancellation* takes back the call; the datagram that it would have returned goes to the next call. *Ordering*: calls get
  /// datagrams in the order in which the calls were made.
  ///
  /// - Parameter timeout: How long to wait; `nil` for no limit.
  /// - Returns: The datagram, which may be empty.
  /// - Throws: ``SocketError``: `.timedOut`, `.closed`, `.reactorShutDown`; `CancellationError` when the task is cancelled. If the
  ///   endpoint has a peer, also an error that was reported about the peer, for example `.connectionRefused`. The endpoint stays usable
  ///   after such an error.
  public func receive(timeout: Timeout? = nil) async throws -> Datagram {
    let place = if let place = claimPlace() { place } else { await requeue() }
    if let datagram = try takeNow(reportsErrors: true, place) { return datagram }
    return try await receiveOne(begin(upTo: 1, timeout, reportsErrors: true, place))
  }

  /// Receives the next datagram, or returns `nil` if an instant comes first.
  ///
  /// ```swift
  /// let end = ContinuousClock.now + .seconds(2)
  /// while let datagram = try await endpoint.receive(until: end) { … }
  /// ```
  ///
  /// Once the instant has passed, a call returns `nil` even if datagrams have arrived. So a loop ends even if a sender never stops.
  ///
  /// *Cancellation* and *ordering* are those of ``receive(timeout:)``.
  ///
  /// - Parameter deadline: The instant. On a reactor with manual time, count from `ManualTime.now`.
  /// - Returns: The datagram, which may be empty; `nil` if none arrived in time.
  /// - Throws: The errors of ``receive(timeout:)``, except `.timedOut`.
  public func receive(until deadline: ContinuousClock.Instant) async throws -> Datagram? {
    let place = if let place = claimPlace() { place } else { await requeue() }
    let end = SequenceEnd(at: deadline)
    if try isOver(end, reportsErrors: true) { return nil }
    if let datagram = try takeNow(reportsErrors: true, place) { return datagram }
    return try await receiveOne(begin(upTo: 1, nil, reportsErrors: true, place), endingAt: end)
  }

  /// For a loop, which does not get reported errors. `nil` when the endpoint is closed, or at the loop's end.
  @usableFromInline
  func receiveNext(
    _ timeout: Timeout?, _ end: SequenceEnd
  ) async throws -> (datagram: Datagram, ahead: ElementsAhead<Datagram>?)? {
    let place = if let place = claimPlace() { place } else { await requeue() }
    do {
      if end != .never, try isOver(end, reportsErrors: false) { return nil }
      if let datagram = try takeNow(reportsErrors: false, place) {
        return (datagram, receives.queue.lookAhead(executor))
      }
      let operation = try begin(upTo: 1, timeout, reportsErrors: false, place)
      if end == .never { return (try await receiveOne(operation), receives.queue.lookAhead(executor)) }
      guard let datagram = try await receiveOne(operation, endingAt: end) else { return nil }
      return (datagram, receives.queue.lookAhead(executor))
    } catch let error as SocketError where error.code == .closed {
      return nil
    }
  }

  /// Receives the datagrams that are available, up to a limit.
  ///
  /// *Cancellation* and *ordering* are those of ``receive(timeout:)``.
  ///
  /// - Parameters:
  ///   - limit: The largest number of datagrams, at least 1.
  ///   - timeout: How long to wait for the first datagram; `nil` for no limit.
  /// - Returns: The datagrams, at least one, in the order in which they arrived.
  /// - Throws: The errors of ``receive(timeout:)``; `.invalidArgument` for a limit below 1.
  public func receive(upTo limit: Int, timeout: Timeout? = nil) async throws -> [Datagram] {
    if limit < 1 { throw SocketError.invalid("receive", "up to \(limit) datagrams is nothing, ask for at least one") }
    let place = if let place = claimPlace() { place } else { await requeue() }
    var datagrams = try takeNow(upTo: limit, reportsErrors: true, place)
    // A call that has waited takes no further datagrams: later calls may wait for them.
    if datagrams.isEmpty { return try await receive(begin(upTo: limit, timeout, reportsErrors: true, place)) }
    while datagrams.count < limit, let more = takeMore(upTo: limit - datagrams.count) { datagrams += more }
    return datagrams
  }

  // MARK: At once

  /// Throws what a receive would throw. Datagrams that arrived stay.
  private func isOver(_ end: SequenceEnd, reportsErrors: Bool) throws -> Bool {
    guard end.hasPassed(on: executor) else { return false }
    _ = try mayTake(reportsErrors: reportsErrors)
    if let refusal { throw refusal.during("receive") }
    return true
  }

  private func takeNow(reportsErrors: Bool, _ place: Place) throws -> Datagram? {
    guard try mayTake(reportsErrors: reportsErrors) else { return nil }
    if let datagram = receives.queue.takeFetched() { return datagram }
    if let refusal { throw refusal.during("receive") }
    let datagrams = fetch(upTo: Self.fetchSize)
    receives.queue.arrived(datagrams.dropFirst())
    return datagrams.first
  }

  func takeNow(upTo limit: Int, reportsErrors: Bool, _ place: Place) throws -> [Datagram] {
    guard try mayTake(reportsErrors: reportsErrors) else { return [] }
    if receives.queue.fetchedCount > 0 { return receives.queue.takeFetched(upTo: limit) }
    if let refusal { throw refusal.during("receive") }
    return keepingSurplus(fetch(upTo: limit), limit)
  }

  func mayTake(reportsErrors: Bool) throws -> Bool {
    try CurrentTask.checkCancellation()
    // No send need wait for a receive. The answer often follows on another thread.
    executor.callIsSettled()
    receives.queue.reclaimLookahead()
    guard receives.queue.isFree else { return false }
    if reportsErrors { try throwReportedError() }
    return true
  }

  private func takeMore(upTo limit: Int) -> [Datagram]? {
    guard receives.queue.isFree else { return nil }
    let datagrams =
      if receives.queue.fetchedCount > 0 {
        receives.queue.takeFetched(upTo: limit)
      } else if refusal == nil {
        keepingSurplus(fetch(upTo: limit), limit)
      } else {
        [] as [Datagram]
      }
    return datagrams.isEmpty ? nil : datagrams
  }

  func throwReportedError() throws {
    if let error = core.reportedError.take() { throw error.during("receive") }
  }

  // MARK: Waiting

  func begin(upTo limit: Int, _ timeout: Timeout?, reportsErrors: Bool, _ place: Place) throws -> Operation {
    // The preceding fetch may have found a reported error.
    if reportsErrors { try throwReportedError() }
    if let refusal { throw refusal.during("receive") }
    let operation = Operation(
      .call, timeout: timeout, progress: nil, start: timeout?.start == .call ? registration.reactor.now : 0)
    operation.reportsErrors = reportsErrors
    operation.id = receives.queue.admit(upTo: limit, operation)
    operation.armAtCall(registration, DeadlineTag(.receive, operation.id))
    pumpReceives()
    // An error may have been reported before any call wanted it, possibly by the receive just now.
    tellReceivers()
    prepareToSuspend(operation, place)
    return operation
  }

  func receive(_ operation: Operation) async throws -> [Datagram] {
    if let suspension = operation.waiting {
      let id = operation.id
      await wait(for: suspension) { submit { $0.cancelReceive(id) } }
    }
    guard case .datagrams(let datagrams)? = try operation.outcome?.get() else { return [] }
    return datagrams
  }

  private func receiveOne(_ operation: Operation) async throws -> Datagram {
    guard let datagram = try await receive(operation).first else {
      throw SocketError(.closed, operation: "receive")
    }
    return datagram
  }

  /// Returns `nil` if the end comes first.
  private func receiveOne(_ operation: Operation, endingAt end: SequenceEnd) async throws -> Datagram? {
    if operation.outcome != nil { return try await receiveOne(operation) }
    let deadline = registration.arm(at: end.nanoseconds, tag: DeadlineTag(.receiveEnd, operation.id))
    defer { if let deadline { registration.disarm(deadline) } }
    return try await receive(operation).first
  }

  func endReceive(_ id: UInt64) {
    guard let operation = receives.queue.remove(id) else { return }
    finish(operation, .success(.datagrams([])))
    pumpReceives()
  }

  private func cancelReceive(_ id: UInt64) {
    // A call that is borrowing continues.
    guard let operation = receives.queue.tag(of: id), operation.outcome == nil else { return }
    _ = receives.queue.remove(id)
    finish(operation, .failure(CancellationError()))
    pumpReceives()
  }

  func expireReceive(_ id: UInt64) {
    guard let operation = receives.queue.tag(of: id) else { return }
    // A call that is borrowing may still find a datagram.
    operation.isOverdue = operation.outcome != nil
    if operation.isOverdue {
      operation.deadline = nil
      return
    }
    if operation.extend(registration, DeadlineTag(.receive, id), done: 0) { return }
    // The timeout's closure may have closed the endpoint.
    guard receives.queue.remove(id) != nil else { return }
    finish(
      operation,
      .failure(operation.timedOut("receive", at: registration.reactor.now, peer: core.routes.peer?.address, done: 0)))
    pumpReceives()
  }

  func failReceives(_ error: SocketError) {
    for operation in receives.queue.removeAll() where operation.outcome == nil { finish(operation, .failure(error)) }
  }

  /// Gives a reported error to the first call that wants one.
  func tellReceivers() {
    guard let error = core.reportedError,
      let id = receives.queue.firstID(where: { $0.reportsErrors && $0.outcome == nil })
    else { return }
    // It may leave in the middle of a fetch that is made for it. Then the fetch must not end the next call.
    if receives.queue.firstID == id { receives.isImmediate = false }
    guard let operation = receives.queue.remove(id) else { return }
    core.reportedError = nil
    finish(operation, .failure(error.during("receive")))
    pumpReceives()
  }

  // MARK: Carrying out what the queue says

  func pumpReceives() {
    if !receives.beginPump(registration.tick) { return }
    defer { receives.endPump() }
    while true {
      let mayFetch = core.rotation.mayFind && !lifecycle.isClosed && !receives.mustWait { registration.reschedule() }
      switch receives.queue.step(mayFetch: mayFetch) {
      case .idle:
        if !expireImmediateReceive() { return }
      case .begin(let id, let operation):
        receives.isImmediate = operation.begin(registration, DeadlineTag(.receive, id))
        // A datagram may wait that epoll has not reported yet.
        if receives.isImmediate || operation.isPastDeadline(registration) { core.rotation.mayAllBeReady() }
      case .fetch:
        let datagrams = fetch(upTo: Self.fetchSize)
        receives.queue.arrived(datagrams)
        if datagrams.isEmpty, !expireImmediateReceive(), core.rotation.mayFind { return }
      case .finish(let operation, let datagrams):
        receives.isImmediate = false
        finish(operation, .success(.datagrams(datagrams)))
      case .borrow(_, let operation):
        operation.isOverdue = receives.isImmediate
        receives.isImmediate = false
        operation.outcome = .success(.datagrams([]))
        operation.suspension?.resume()
        return
      }
    }
  }

  private func expireImmediateReceive() -> Bool { receives.takeImmediate().map(expireReceive) != nil }
}
