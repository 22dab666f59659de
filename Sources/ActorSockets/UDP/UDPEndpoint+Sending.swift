internal import EpollReactor
public import SocketSystem

extension UDPEndpoint {
  // MARK: Calls

  // A send of one datagram first tries to do without a hop. These functions are inlined, so that an optimised caller hops only if that
  // fails, and so that the hop back is the caller's own: see Docs/Toolchain.md.

  /// Sends a datagram to the connected peer: send(2). Returns when the kernel has taken the datagram.
  ///
  /// *Cancellation* takes back the datagram, unless the kernel already has it. *Ordering*: datagrams to one destination leave in the order
  /// of the calls. If a destination has no room, datagrams to others leave earlier.
  ///
  /// - Parameters:
  ///   - bytes: The bytes; an empty array is a valid datagram.
  ///   - timeout: How long it may wait for room, from the call on; `nil` for no limit. With ``Timeout/zero`` it is sent at once or not at
  ///     all.
  /// - Throws: ``SocketError``, after which the endpoint stays usable; `CancellationError` when the task is cancelled.
  ///   - `.notConnected` if there is no peer
  ///   - `.limitExceeded` if the datagram is too long
  ///   - an error that was reported about the peer, for example `.connectionRefused`
  ///   - `.unreachable`, `.permissionDenied`, `.timedOut`, `.closed`
  @inlinable @inline(__always)
  public nonisolated func send(_ bytes: [UInt8], timeout: Timeout? = nil) async throws {
    let attempt = try sendWithoutHop(bytes, to: nil, timeout)
    if attempt == .sent { return }
    try await sendInTurn(Datagram(bytes), timeout, attempt)
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
    let attempt = try sendWithoutHop(bytes, to: address, timeout)
    if attempt == .sent { return }
    try await sendInTurn(Datagram(bytes, to: address), timeout, attempt)
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
  /// - Throws: The errors of ``send(_:to:timeout:)-([UInt8],SocketAddress,_)``; `.hostNotFound`, `.resolverFailed`.
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
      pumpSends(startingWith: operation)
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
  ///   - datagram: The datagram, for example a ``Datagram/reply(_:)-([UInt8])``.
  ///   - timeout: How long it may wait for room; `nil` for no limit.
  /// - Throws: The errors of ``send(_:timeout:)-([UInt8],_)`` and ``send(_:to:timeout:)-([UInt8],SocketAddress,_)``. A reply that cannot be
  ///   delivered because of the peer throws nothing: see ``Configuration/throwsUndeliverableReplies``.
  @inlinable @inline(__always)
  public nonisolated func send(_ datagram: Datagram, timeout: Timeout? = nil) async throws {
    let attempt = try sendWithoutHop(datagram, timeout)
    if attempt == .sent { return }
    try await sendInTurn(datagram, timeout, attempt)
  }

  @usableFromInline
  func sendInTurn(_ datagram: Datagram, _ timeout: Timeout?, _ attempt: SendAttempt) async throws {
    let datagram = datagram.claimingDescriptors()
    let place = if let place = claimPlace() { place } else { await requeue() }
    if let operation = try sending(datagram, timeout, place, after: attempt) { return try await finish(operation) }
    openGate()
  }

  /// Sends several datagrams with as few system calls as possible: sendmmsg(2). Returns when the kernel has taken them.
  ///
  /// If one datagram cannot be sent, the others are still sent. A reply that cannot be delivered because of the peer is no failure: see
  /// ``Configuration/throwsUndeliverableReplies``.
  ///
  /// *Cancellation* takes back the datagrams that the kernel does not have yet. *Ordering*: the datagrams to one destination leave in
  /// their order, and no datagram of another call to the same destination leaves between them. If a destination has no room, the
  /// datagrams to others leave earlier.
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
    try checkSendable(isReply: !datagrams.isEmpty && datagrams.allSatisfy { isLenientReply($0) })
    let (kept, indices) = try filtered(datagrams)
    let operation = admitSend(.datagrams(kept), timeout, isBatch: true)
    pumpSends(startingWith: operation)
    prepareToSuspend(operation, place)
    do {
      try await finish(operation)
    } catch let error as DatagramBatchError {
      throw error.renumbered(indices)
    }
  }

  /// Enqueues a datagram after all earlier sends to its destination, and returns without waiting for it.
  ///
  /// *Cancellation*: ``Pending/cancel()`` takes back the datagram, unless the kernel already has it. Dropping the handle only drops the
  /// outcome; the datagram is still sent. *Ordering*: datagrams to one destination leave in the order of the calls, also when the calls
  /// come from code outside of the endpoint's isolation.
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
      return Pending(PendingOutcome(executor, .failure(error)))
    }
    let outcome = PendingOutcome(executor)
    let called = executor.reactor.now
    submit {
      $0.executor.submissions.reached(count)
      $0.enqueue(datagram, timeout, called, outcome)
    }
    return Pending(outcome)
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
  /// - Returns: `true` if it was sent; `false` if there is no room, or if it would overtake an earlier send that waits.
  /// - Throws: The errors of ``send(_:to:timeout:)-([UInt8],SocketAddress,_)``, and `.notConnected` if there is neither an address
  ///   nor a peer.
  @discardableResult
  public func sendNow(_ bytes: Span<UInt8>, to address: SocketAddress? = nil) throws -> Bool {
    _ = claimPlaceNow()
    return try sendNow(bytes, to: address, isReply: false)
  }

  /// Replies to a datagram only if that is possible without waiting: sendto(2). For the closure of `withDatagrams`.
  ///
  /// Works like ``sendNow(_:to:)``, but a reply that cannot be delivered because of the peer throws nothing: see
  /// ``Configuration/throwsUndeliverableReplies``.
  ///
  /// *Ordering*: that of ``sendNow(_:to:)``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes of the reply.
  ///   - header: The header of the datagram to reply to.
  /// - Returns: `true` if it was sent; `false` if there is no room, if it would overtake an earlier send that waits, or if it cannot be
  ///   delivered.
  /// - Throws: The errors of ``sendNow(_:to:)``, except those that the peer causes.
  @discardableResult
  public func sendNow(_ bytes: Span<UInt8>, inReplyTo header: Datagram.Header) throws -> Bool {
    _ = claimPlaceNow()
    return try sendNow(bytes, to: header.remoteAddress, isReply: !configuration.throwsUndeliverableReplies)
  }

  private func sendNow(_ bytes: Span<UInt8>, to address: SocketAddress?, isReply: Bool) throws -> Bool {
    try checkSendable(isReply: isReply)
    try checkSize(bytes.count)
    if core.mustWaitToSend || !sends.queue.mayOvertake(to: address) { return false }
    guard let route = try routeAtOnce(address, isReply: isReply) else { return false }
    var failure: SystemError?
    switch try transmit(bytes, route, isReply: isReply, after: &failure) {
    case .sent:
      if counts.recorder != nil { recordSent(bytes, on: route) }
      return true
    case .undelivered: return false
    case .noRoom(let isShortage):
      noRoom(route.index, for: address, isShortage: isShortage)
      return false
    }
  }

  /// The error of an attempt by another thread, if nothing is sent now. The kernel may return it once, so no other attempt would find it.
  private func settle(unused failure: SystemError) {
    let mayBeOfEarlier = failure.mayBeOfEarlierDatagram && (!core.isUnix || core.routes.peer != nil)
    if mayBeOfEarlier, takeReportedErrors() == 0 { reportStale(failure) }
  }

  // MARK: At once

  /// Throws why nothing can be sent, or the error that was reported about the peer. A reply that fails no call leaves that error for later.
  func checkSendable(isReply: @autoclosure () -> Bool = false) throws {
    // A send does not touch the datagrams that a loop looks ahead at.
    receives.queue.lookahead?.callLeavesElements()
    if let refusal { throw refusal.during("send") }
    guard let error = core.reportedError, !isReply() else { return }
    core.reportedError = nil
    throw error.during("send")
  }

  func checkSize(_ count: Int) throws(SocketError) {
    if count <= core.sizes.send { return }
    throw SocketError(
      .limitExceeded, operation: "send",
      detail:
        "\(count) bytes are more than the \(core.sizes.send) that a datagram may have (`maximumSendSize`)"
    )
  }

  /// Sends a datagram at once or queues it; `nil` if nothing is left to do.
  func sending(
    _ datagram: Datagram, _ timeout: Timeout?, _ place: Place, after attempt: SendAttempt = .notSent
  ) throws -> Operation? {
    var failure = gate.takeFailure(of: attempt)
    defer { if let failure { settle(unused: failure) } }
    try CurrentTask.checkCancellation()
    try checkSendable(isReply: isLenientReply(datagram))
    guard let datagram = try filtered(datagram) else { return nil }
    // A filter that was set meanwhile may have changed where the datagram goes.
    if filters.send != nil, let unused = failure.take() { settle(unused: unused) }
    try checkSize(datagram.bytes.count)
    let isReply = isLenientReply(datagram)
    if datagram.isPlain,
      try sendAtOnce(datagram.bytes, to: datagram.remoteAddress, timeout, isReply: isReply, after: &failure)
    {
      return nil
    }
    // Reporting an error may have run code of the program that has closed the endpoint.
    if let refusal { throw refusal.during("send") }
    let operation = admitSend(.datagrams([datagram]), timeout)
    pumpSends(startingWith: operation)
    prepareToSuspend(operation, place)
    return operation
  }

  /// Returns whether nothing is left to do.
  private func sendAtOnce(
    _ bytes: [UInt8], to address: SocketAddress?, _ timeout: Timeout?, isReply: Bool, after failure: inout SystemError?
  ) throws -> Bool {
    if core.mustWaitToSend || !sends.queue.mayOvertake(to: address) { return false }
    if let timeout, timeout.hasPassed(at: registration.reactor.now) { return false }
    guard let route = try routeAtOnce(address, isReply: isReply) else { return true }
    switch try transmit(bytes.span, route, isReply: isReply, after: &failure) {
    case .sent:
      if counts.recorder != nil { recordSent(bytes.span, on: route) }
      return true
    case .undelivered: return true
    case .noRoom(let isShortage):
      if dropsAtFull(route.destination?.unmapped, isShortage: isShortage) { return true }
      noRoom(route.index, for: address, isShortage: isShortage)
      return false
    }
  }

  /// `nil` if it is a reply that cannot be delivered.
  private func routeAtOnce(_ address: SocketAddress?, isReply: Bool) throws(SocketError) -> DatagramRoutes.Route? {
    do throws(SocketError) {
      return try core.route(address, isReply: isReply)
    } catch {
      guard isReply, let flaw = DatagramRoutes.flaw(ofSender: address) else { throw error }
      undelivered(flaw)
      return nil
    }
  }

  /// Sends a datagram if that is possible at once, from a job on the reactor in the endpoint's isolation, on another thread through the
  /// gate. Then the call needs no hop to the endpoint and no hop back. Otherwise `sendInTurn` must send the datagram.
  @usableFromInline
  nonisolated func sendWithoutHop(
    _ bytes: [UInt8], to address: SocketAddress?, _ timeout: Timeout?, isReply: Bool = false
  ) throws -> SendAttempt {
    guard executor.claimCallWithoutHop() else {
      return try sendThroughGate(bytes, to: address, timeout, isReply: isReply)
    }
    try CurrentTask.checkCancellation()
    return try callHere((bytes, address, timeout, isReply)) { endpoint, datagram in
      if endpoint.filters.send != nil { return .notSent }
      let isReply = datagram.3 && !endpoint.configuration.throwsUndeliverableReplies
      try endpoint.checkSendable(isReply: isReply)
      try endpoint.checkSize(datagram.0.count)
      var failure: SystemError?
      return try endpoint.sendAtOnce(datagram.0, to: datagram.1, datagram.2, isReply: isReply, after: &failure)
        ? .sent : .notSent
    }
  }

  @usableFromInline
  nonisolated func sendWithoutHop(_ datagram: Datagram, _ timeout: Timeout?) throws -> SendAttempt {
    if !datagram.isPlain { return .notSent }
    return try sendWithoutHop(datagram.bytes, to: datagram.remoteAddress, timeout, isReply: datagram.isReply)
  }

  private nonisolated func sendThroughGate(
    _ bytes: [UInt8], to address: SocketAddress?, _ timeout: Timeout?, isReply: Bool
  ) throws -> SendAttempt {
    if executor.isIsolatingCurrentContext() != false || !executor.hasSettled { return .notSent }
    try CurrentTask.checkCancellation()
    if let timeout, timeout.hasPassed(at: executor.reactor.now) { return .notSent }
    let isReply = isReply && !configuration.throwsUndeliverableReplies
    return executor.reactor.inItsSystem { gate.send(bytes.span, to: address, isReply: isReply) } ?? .notSent
  }

  /// From now on, other threads may send.
  private func openGate() {
    executor.callIsSettled()
    guard refusal == nil, filters.send == nil, core.reportedError == nil, !core.mustWaitToSend, sends.queue.isEmpty,
      counts.recorder == nil
    else { return }
    gate.open(core.routes, longest: core.sizes.send)
  }

  /// Called before anything that a datagram of another thread may not pass by: a send that waits, an error that the next call throws, a
  /// filter, a change of the peer, the end.
  func closeGate() {
    if gate.close() { noteSentThroughGate() }
  }

  func noteSentThroughGate() {
    let sent = gate.takeCounts()
    if sent.datagrams == 0 { return }
    core.sent()
    counts.sent(sent)
  }

  /// `nil` if the filter drops the datagram. Throws if the filter closes the endpoint, because nothing may be queued then.
  func filtered(_ datagram: Datagram) throws(SocketError) -> Datagram? {
    guard let filter = filters.send else { return datagram }
    var datagram = datagram
    let isPassed = filter(&datagram) == .pass
    if !isPassed { counts.filtered += 1 }
    if let refusal { throw refusal.during("send") }
    return isPassed ? datagram : nil
  }

  /// The indices are those of the argument; empty if there is no filter.
  private func filtered(_ datagrams: [Datagram]) throws(SocketError) -> ([Datagram], indices: [Int]) {
    if filters.send == nil { return (datagrams, []) }
    var (kept, indices): ([Datagram], [Int]) = ([], [])
    for (index, datagram) in datagrams.enumerated() {
      guard let datagram = try filtered(datagram) else { continue }
      kept.append(datagram)
      indices.append(index)
    }
    return (kept, indices)
  }
}
