internal import EpollReactor
public import SocketSystem

extension UDPEndpoint {
  static var firstRetryDelay: Int64 { 1_000_000 }

  // MARK: Calls

  // A send of one datagram first tries to do without a hop. These functions are inlined, so that an optimised caller hops only if that
  // fails, and so that the hop back is the caller's own: see Docs/Toolchain.md.

  /// Sends a datagram to the connected peer: send(2). Returns when the kernel has taken the datagram.
  ///
  /// *Cancellation* takes back the datagram, unless the kernel already has it. *Ordering*: datagrams leave in the order of the
  /// calls.
  ///
  /// - Parameters:
  ///   - bytes: The bytes; an empty array is a valid datagram.
  ///   - timeout: How long it may wait for room; `nil` for no limit.
  /// - Throws: ``SocketError``, after which the endpoint stays usable; `CancellationError` when the task is cancelled.
  ///   - `.notConnected` if there is no peer
  ///   - `.limitExceeded` if the datagram is too long
  ///   - an error that was reported about the peer, for example `.connectionRefused`
  ///   - `.unreachable`, `.permissionDenied`, `.timedOut`, `.closed`
  @inlinable @inline(__always)
  public nonisolated func send(_ bytes: [UInt8], timeout: Timeout? = nil) async throws {
    if try sendWithoutHop(bytes, to: nil, timeout) { return }
    try await sendInTurn(Datagram(bytes), timeout)
  }

  /// Sends a datagram to an address: sendto(2). Returns when the kernel has taken the datagram.
  ///
  /// *Cancellation* and *ordering* are those of ``send(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes; an empty array is a valid datagram.
  ///   - address: The destination.
  ///   - timeout: How long it may wait for room; `nil` for no limit.
  /// - Throws: ``SocketError``, after which the endpoint stays usable; `CancellationError` when the task is cancelled.
  ///   - `.invalidArgument` for port 0, and for an address other than the connected peer's
  ///   - `.limitExceeded` if the datagram is too long
  ///   - `.familyNotSupported` if the endpoint does not use the address's family
  ///   - `.scopeMissing`, `.unreachable`, `.permissionDenied`, `.timedOut`, `.closed`
  @inlinable @inline(__always)
  public nonisolated func send(_ bytes: [UInt8], to address: SocketAddress, timeout: Timeout? = nil) async throws {
    if try sendWithoutHop(bytes, to: address, timeout) { return }
    try await sendInTurn(Datagram(bytes, to: address), timeout)
  }

  /// Sends a datagram to an endpoint, which may be a name. Returns when the kernel has taken the datagram.
  ///
  /// The look-up of a name begins at once. Later sends wait until the look-up has finished or has timed out.
  ///
  /// *Cancellation* and *ordering* are those of ``send(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes; an empty array is a valid datagram.
  ///   - endpoint: The destination. Of several addresses of a name, the first that this endpoint can reach is used.
  ///   - timeout: How long it may wait for the look-up and for room; `nil` for no limit.
  /// - Throws: The errors of ``send(_:to:timeout:)-(_,SocketAddress,_)``; `.hostNotFound`, `.resolverFailed`.
  public func send(_ bytes: [UInt8], to endpoint: Endpoint, timeout: Timeout? = nil) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    try CurrentTask.checkCancellation()
    switch try target(endpoint, "send") {
    case .addresses(let addresses):
      let datagram = Datagram(bytes, to: firstReachable(of: addresses))
      if let operation = try sending(datagram, timeout, place) { try await finish(operation) }
    case .name(let name, let port):
      try checkSendable()
      try checkSize(bytes.count)
      let operation = admitSend(.lookingUp(Datagram(bytes)), timeout)
      lookUp(name, port, for: operation.id)
      pumpSends()
      prepareToSuspend(operation, place)
      try await finish(operation)
    }
  }

  /// Sends a datagram with its metadata: destination, source address, traffic class, hop limit. Returns when the kernel has
  /// taken it.
  ///
  /// *Cancellation* and *ordering* are those of ``send(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - datagram: The datagram, for example a ``Datagram/reply(_:)``.
  ///   - timeout: How long it may wait for room; `nil` for no limit.
  /// - Throws: The errors of ``send(_:timeout:)-([UInt8],_)`` and ``send(_:to:timeout:)-(_,SocketAddress,_)``.
  @inlinable @inline(__always)
  public nonisolated func send(_ datagram: Datagram, timeout: Timeout? = nil) async throws {
    if try sendWithoutHop(datagram, timeout) { return }
    try await sendInTurn(datagram, timeout)
  }

  /// Sends a datagram in the endpoint's isolation, behind the sends that wait.
  @usableFromInline
  func sendInTurn(_ datagram: Datagram, _ timeout: Timeout?) async throws {
    let datagram = datagram.claimingDescriptors()
    let place = if let place = claimPlace() { place } else { await requeue() }
    try CurrentTask.checkCancellation()
    if let operation = try sending(datagram, timeout, place) { try await finish(operation) }
  }

  /// Sends several datagrams with as few system calls as possible: sendmmsg(2). Returns when the kernel has taken them.
  ///
  /// If one datagram cannot be sent, the others are still sent.
  ///
  /// *Cancellation* takes back the datagrams that the kernel does not have yet. *Ordering*: the datagrams leave in their order,
  /// and no datagram of another call leaves between them.
  ///
  /// - Parameters:
  ///   - datagrams: The datagrams.
  ///   - timeout: How long the whole batch may wait for room; `nil` for no limit.
  /// - Throws: ``DatagramBatchError`` if some could not be sent; ``SocketError``: `.timedOut`, `.closed`; `CancellationError`
  ///   when the task is cancelled.
  public func send(_ datagrams: [Datagram], timeout: Timeout? = nil) async throws {
    let passes = datagrams.contains { $0.descriptors != nil }
    let datagrams = passes ? datagrams.map { $0.claimingDescriptors() } : datagrams
    let place = if let place = claimPlace() { place } else { await requeue() }
    try CurrentTask.checkCancellation()
    try checkSendable()
    let (kept, places) = filtered(datagrams)
    let operation = admitSend(.datagrams(kept), timeout, isBatch: true)
    pumpSends()
    prepareToSuspend(operation, place)
    do {
      try await finish(operation)
    } catch let error as DatagramBatchError {
      // Report the failures by their indices in the caller's array.
      throw error.renumbered(places)
    }
  }

  /// Enqueues a datagram behind all earlier sends, and returns without waiting for it.
  ///
  /// *Cancellation*: ``Pending/cancel()`` takes back the datagram, unless the kernel already has it. Dropping the handle only drops the
  /// outcome; the datagram is still sent. *Ordering*: datagrams leave in the
  /// order of the calls, also when the calls come from code outside of the endpoint's isolation.
  ///
  /// - Parameters:
  ///   - datagram: The datagram.
  ///   - timeout: How long it may wait for room; `nil` for no limit.
  /// - Returns: A handle for the outcome: the errors of ``send(_:timeout:)-([UInt8],_)``, and `.limitExceeded` if the datagram
  ///   would exceed ``Configuration/sendBudget``.
  @discardableResult
  public nonisolated func enqueueSend(_ datagram: Datagram, timeout: Timeout? = nil) -> Pending<Void> {
    let datagram = datagram.claimingDescriptors()
    let count = datagram.bytes.count
    guard executor.submissions.submit(count) else {
      let error = SocketError.overBudget(executor.submissions.waiting, executor.submissions.value, "enqueueSend")
      return Pending(outcome: PendingOutcome(executor, .failure(error)))
    }
    let outcome = PendingOutcome<Void>(executor)
    let called = executor.reactor.now
    submit {
      $0.executor.submissions.reached(count)
      $0.enqueue(datagram, timeout, called, outcome)
    }
    return Pending(outcome: outcome)
  }

  /// Sends a datagram only if that is possible without waiting: sendto(2). For code in the endpoint's isolation, for example
  /// the closure of `withDatagrams`.
  ///
  /// A send filter does not see the datagram.
  ///
  /// *Ordering*: it takes effect at once, ahead of calls that wait in the reactor's queue. If the same code called
  /// ``enqueueSend(_:timeout:)`` just before, that datagram leaves after this one.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - address: The destination; `nil` for the connected peer.
  /// - Returns: `true` if it was sent; `false` if other sends wait or there is no room.
  /// - Throws: The errors of ``send(_:to:timeout:)-(_,SocketAddress,_)``, and `.notConnected` if there is neither an address
  ///   nor a peer.
  @discardableResult
  public func sendNow(_ bytes: Span<UInt8>, to address: SocketAddress? = nil) throws -> Bool {
    _ = claimPlaceNow()
    try checkSendable()
    try checkSize(bytes.count)
    if !sends.queue.isEmpty || mustWaitToSend { return false }
    let (index, destination) = try route(address)
    return try transmit(bytes, index, destination)
  }

  // MARK: At once

  private func checkSendable() throws {
    // A send does not touch the datagrams that a loop looks ahead at.
    receives.queue.lookahead?.callLeavesElements()
    if let refusal { throw refusal.during("send") }
    if let error = reportedError.take() { throw error.during("send") }
  }

  func checkSize(_ count: Int) throws(SocketError) {
    if count <= configuration.maximumSendSize { return }
    throw SocketError(
      .limitExceeded, operation: "send",
      detail:
        "\(count) bytes are more than the \(configuration.maximumSendSize) that a datagram may have (`maximumSendSize`)"
    )
  }

  /// Sends a datagram at once if that is possible; otherwise queues it. Returns `nil` if nothing is left to do.
  func sending(_ datagram: Datagram, _ timeout: Timeout?, _ place: Place) throws -> Operation? {
    try checkSendable()
    guard let datagram = filtered(datagram) else { return nil }
    if datagram.isPlain, try sendAtOnce(datagram.bytes, to: datagram.remoteAddress, timeout) { return nil }
    let operation = admitSend(.datagrams([datagram]), timeout)
    pumpSends()
    prepareToSuspend(operation, place)
    return operation
  }

  /// Sends a datagram at once if no other send waits and there is room.
  ///
  /// - Returns: Whether it was sent.
  private func sendAtOnce(_ bytes: [UInt8], to address: SocketAddress?, _ timeout: Timeout?) throws -> Bool {
    if !sends.queue.isEmpty || mustWaitToSend { return false }
    if let timeout, timeout.hasPassed(at: registration.reactor.now) { return false }
    try checkSize(bytes.count)
    let (index, destination) = try route(address)
    return try transmit(bytes.span, index, destination)
  }

  /// Sends a datagram from a job on the reactor, if that is possible at once. Then the call needs no hop to the endpoint and none back.
  ///
  /// - Returns: Whether it was sent. If not, `sendInTurn` must send it.
  @usableFromInline
  nonisolated func sendWithoutHop(_ bytes: [UInt8], to address: SocketAddress?, _ timeout: Timeout?) throws -> Bool {
    guard executor.claimCallWithoutHop() else { return false }
    try CurrentTask.checkCancellation()
    return try callWithoutHop((bytes, address, timeout)) { endpoint, datagram in
      if endpoint.sendFilter != nil { return false }
      try endpoint.checkSendable()
      return try endpoint.sendAtOnce(datagram.0, to: datagram.1, datagram.2)
    }
  }

  @usableFromInline
  nonisolated func sendWithoutHop(_ datagram: Datagram, _ timeout: Timeout?) throws -> Bool {
    try datagram.isPlain && sendWithoutHop(datagram.bytes, to: datagram.remoteAddress, timeout)
  }

  /// Returns the datagram as the filter leaves it; `nil` if the filter drops it.
  func filtered(_ datagram: Datagram) -> Datagram? {
    guard let sendFilter else { return datagram }
    var datagram = datagram
    if sendFilter(&datagram) == .pass { return datagram }
    counts.filtered += 1
    return nil
  }

  /// Returns the datagrams that the filter passes, and their indices in the argument; no indices if there is no filter.
  private func filtered(_ datagrams: [Datagram]) -> ([Datagram], places: [Int]) {
    if sendFilter == nil { return (datagrams, []) }
    var (kept, places): ([Datagram], [Int]) = ([], [])
    for (place, datagram) in datagrams.enumerated() {
      guard let datagram = filtered(datagram) else { continue }
      kept.append(datagram)
      places.append(place)
    }
    return (kept, places)
  }

  // MARK: Waiting

  func admitSend(
    _ content: SendQueue<Operation>.Content, _ timeout: Timeout?, isBatch: Bool = false
  ) -> Operation {
    let operation = Operation(
      .call, timeout: timeout, progress: nil, start: timeout?.start == .call ? registration.reactor.now : 0)
    operation.id = sends.queue.admit(content, isBatch: isBatch, operation)
    operation.armAtCall(registration, DatagramDeadline.send(operation.id))
    return operation
  }

  /// Waits for the outcome of a send that has begun.
  func finish(_ operation: Operation) async throws {
    if let suspension = operation.waiting {
      let id = operation.id
      await wait(for: suspension) { submit { $0.cancelSend(id) } }
    }
    _ = try operation.outcome?.get()
  }

  private func enqueue(
    _ datagram: Datagram, _ timeout: Timeout?, _ called: Int64, _ outcome: PendingOutcome<Void>
  ) {
    let queued = max(sends.queue.queuedBytes, sends.queue.count * SubmissionLimit.leastCharge)
    do {
      try checkSendable()
      if queued > 0, queued + max(datagram.bytes.count, SubmissionLimit.leastCharge) > configuration.sendBudget {
        throw SocketError.overBudget(queued, configuration.sendBudget, "enqueueSend")
      }
    } catch {
      return outcome.assumeIsolated { $0.resolve(.failure(error)) }
    }
    guard let datagram = filtered(datagram) else { return outcome.assumeIsolated { $0.resolve(.success(())) } }
    let operation = Operation(
      .handle { result in outcome.assumeIsolated { $0.resolve(result.map { _ in }) } }, timeout: timeout,
      progress: nil, start: called)
    operation.called = called
    lifecycle.handleCreated()
    operation.id = sends.queue.admit(.datagrams([datagram]), operation)
    operation.armAtCall(registration, DatagramDeadline.send(operation.id))
    let id = operation.id
    outcome.assumeIsolated { $0.admitted { [weak self] in self?.assumeIsolated { $0.cancelSend(id) } } }
    pumpSends()
  }

  private func cancelSend(_ id: UInt64) {
    lookUps.removeValue(forKey: id)?.cancel()
    guard let (operation, _) = sends.queue.remove(id) else { return }
    finish(operation, .failure(CancellationError()))
    pumpSends()
  }

  func expireSend(_ id: UInt64) {
    guard let operation = sends.queue.tag(of: id) else { return }
    if operation.extend(registration, DatagramDeadline.send(id), done: 0) { return }
    lookUps.removeValue(forKey: id)?.cancel()
    let destination = sends.queue.destination(of: id) ?? peer
    guard let (_, sent) = sends.queue.remove(id) else { return }
    finish(
      operation, .failure(operation.timedOut("send", at: registration.reactor.now, peer: destination, done: sent)))
    pumpSends()
  }

  // MARK: Carrying out what the queue says

  func pumpSends() {
    if !sends.beginPump(registration.tick) { return }
    defer {
      sends.endPump()
      recheckQueues()
    }
    // Each pump has a share. The pump finishes the entries that it has sent before it stops, so that a datagram that the kernel
    // has cannot be taken back.
    sends.renewShare()
    while true {
      switch sends.queue.step() {
      case .idle:
        // The look-up has not finished, and the first send may have no time to wait.
        if !expireImmediateSend() { return }
      case .begin(let id, let operation):
        sends.isImmediate = operation.begin(registration, DatagramDeadline.send(id))
        if sends.isImmediate { mustWaitToSend = false }
      case .send where expireOverdueSend():
        continue
      case .send:
        if sends.share.isSpent, sends.mustWait({ registration.reschedule() }) { return }
        let sent = mustWaitToSend ? 0 : sendQueued()
        if sent == 0, !expireImmediateSend() { return }
        sends.share.use(operations: sent)
      case .connect(let addresses):
        sends.queue.connected(connectNow(to: addresses))
      case .finish(let operation, let result):
        sends.isImmediate = false
        finish(operation, result.map { .written })
      }
    }
  }

  /// Times the first entry out if its deadline has passed and no datagram of it was sent. Deadlines come after the events of an
  /// iteration, so it would be sent otherwise.
  ///
  /// - Returns: Whether it timed out.
  private func expireOverdueSend() -> Bool {
    guard !sends.queue.firstIsUnderWay, let id = sends.queue.firstID,
      sends.queue.tag(of: id)?.isPastDeadline(registration) == true
    else { return false }
    expireSend(id)
    // The timeout's closure may have given it more time.
    return sends.queue.firstID != id
  }

  private func expireImmediateSend() -> Bool {
    guard let id = sends.takeImmediate() else { return false }
    expireSend(id)
    return true
  }
}
