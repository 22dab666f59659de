internal import EpollReactor
public import SocketSystem

extension UDPEndpoint {
  static var firstRetryDelay: Int64 { 1_000_000 }
  private static var longestRetryDelay: Int64 { 100_000_000 }
  /// The smallest number of bytes that a send counts in the budget, because an empty datagram takes memory, too.
  private static var leastCharge: Int { 256 }

  // MARK: Calls

  /// Sends a datagram to the connected peer: send(2). Returns when the kernel has taken the datagram.
  ///
  /// *Cancellation* takes back the datagram, unless the kernel already has it. *Ordering*: datagrams leave in the order of the
  /// calls.
  ///
  /// - Parameters:
  ///   - bytes: The bytes; an empty array is a valid datagram.
  ///   - timeout: How long it may wait for room; `nil` for no limit.
  /// - Throws: ``SocketError``: `.notConnected` if there is no peer; `.limitExceeded` if the datagram is too long; an error
  ///   reported about the peer, for example `.connectionRefused`; `.unreachable`, `.permissionDenied`, `.timedOut`, `.closed`;
  ///   `CancellationError` when the task is cancelled. The endpoint stays usable.
  public func send(_ bytes: [UInt8], timeout: Timeout? = nil) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    try Task.checkCancellation()
    if let operation = try sending(Datagram(bytes), timeout, place) { try await finish(operation) }
  }

  /// Sends a datagram to an address: sendto(2). Returns when the kernel has taken the datagram.
  ///
  /// *Cancellation* and *ordering* are those of ``send(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes; an empty array is a valid datagram.
  ///   - address: The destination.
  ///   - timeout: How long it may wait for room; `nil` for no limit.
  /// - Throws: ``SocketError``: `.invalidArgument` for port 0, and for an address other than the connected peer's;
  ///   `.limitExceeded` if the datagram is too long; `.familyNotSupported` if the endpoint does not use the address's family;
  ///   `.scopeMissing`, `.unreachable`, `.permissionDenied`, `.timedOut`, `.closed`; `CancellationError` when the task is
  ///   cancelled. The endpoint stays usable.
  public func send(_ bytes: [UInt8], to address: SocketAddress, timeout: Timeout? = nil) async throws {
    let place = if let place = claimPlace() { place } else { await requeue() }
    try Task.checkCancellation()
    if let operation = try sending(Datagram(bytes, to: address), timeout, place) { try await finish(operation) }
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
    try Task.checkCancellation()
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
  public func send(_ datagram: Datagram, timeout: Timeout? = nil) async throws {
    let datagram = datagram.claimingDescriptors()
    let place = if let place = claimPlace() { place } else { await requeue() }
    try Task.checkCancellation()
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
    try Task.checkCancellation()
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
  /// *Cancellation*: dropping the handle only drops the outcome; the datagram is still sent. *Ordering*: datagrams leave in the
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
    let outcome = PendingOutcome<Void>(executor)
    let called = executor.reactor.now
    submit { $0.enqueue(datagram, timeout, called, outcome) }
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

  // MARK: Without waiting

  private func checkSendable() throws {
    if let refusal { throw refusal.during("send") }
    if let error = reportedError.take() { throw error.during("send") }
  }

  private func checkSize(_ count: Int) throws(SocketError) {
    if count <= configuration.maximumSendSize { return }
    throw SocketError(
      .limitExceeded, operation: "send",
      detail: "\(count) bytes are more than the \(configuration.maximumSendSize) that are to be sent at a time")
  }

  /// Sends a datagram at once if that is possible; otherwise queues it. Returns `nil` if nothing is left to do.
  func sending(_ datagram: Datagram, _ timeout: Timeout?, _ place: Place) throws -> Operation? {
    try checkSendable()
    guard let datagram = filtered(datagram) else { return nil }
    if sends.queue.isEmpty, !mustWaitToSend {
      try checkSize(datagram.bytes.count)
      let (index, destination) = try route(datagram.remoteAddress)
      let metadata = datagram.metadata
      if metadata == nil || metadata?.isEmpty == true, datagram.descriptors == nil,
        try transmit(datagram.bytes.span, index, destination)
      {
        return nil
      }
    }
    let operation = admitSend(.datagrams([datagram]), timeout)
    pumpSends()
    prepareToSuspend(operation, place)
    return operation
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

  /// Calls sendto(2); returns `false` if there is no room.
  private func transmit(_ bytes: Span<UInt8>, _ index: Int, _ destination: SocketAddress?) throws(SocketError) -> Bool {
    // A reported error fails the next call on the socket, whichever it is. So the call is repeated.
    for attempt in 0..<4 {
      guard let socket = sockets[index].socket else { throw SocketError(.closed, operation: "send") }
      switch socket.send(bytes, to: destination) {
      case .bytes:
        counts.sent(1, bytes: bytes.count)
        return true
      case .wouldBlock:
        waitToSend(index)
        return false
      case .failed(let error):
        if error.isShortage {
          waitToSend(index)
          return false
        }
        if attempt < 3, takeReportedErrors() > 0 || isStale(error) {
          if let error = reportedError.take() { throw error.during("send") }
          continue
        }
        throw failure(error, destination?.unmapped ?? peer, bytes.count)
      }
    }
    return false
  }

  /// Whether a refusal belongs to an earlier datagram, since the endpoint has no peer. Its entry may arrive in the error queue
  /// slightly later.
  private func isStale(_ error: SystemError) -> Bool {
    peer == nil && error.errno == Errno.connectionRefused && kinds[0] != .unix
  }

  /// There is no room to send. An event or a deadline says when to try again.
  private func waitToSend(_ index: Int) {
    mustWaitToSend = true
    // No event announces room in the buffer of another unix socket unless this one is connected to it, nor room in an
    // interface's queue. So a deadline tries again.
    if retry != nil { return }
    retry = registration.arm(at: instant(registration.now, plus: retryDelay), tag: DatagramDeadline.retry.rawValue)
    retryDelay = min(retryDelay * 2, Self.longestRetryDelay)
  }

  /// Creates the error for a failed send.
  private func failure(_ error: SystemError, _ address: SocketAddress?, _ count: Int) -> SocketError {
    switch error.errno {
    case Errno.messageTooLong:
      SocketError(
        .limitExceeded, operation: "send", detail: "\(count) bytes are more than a datagram can have on this way",
        errno: error.errno, address: address)
    case Errno.permissionDenied where address?.isUnix == false && !configuration.broadcast:
      SocketError(
        .permissionDenied, operation: "send",
        detail: "this is a broadcast address, perhaps, for which the configuration's `broadcast` has to be on",
        errno: error.errno, address: address)
    case Errno.wrongType where address?.isUnix == true:
      SocketError(
        .system, operation: "send", detail: "the socket there is not for datagrams", errno: error.errno,
        address: address)
    default:
      // For the path of a unix socket, the errors mean the same as in connect(2).
      SocketError(
        SystemError(call: address?.isUnix == true ? "connect" : error.call, errno: error.errno), operation: "send",
        address: address)
    }
  }

  // MARK: Waiting

  func admitSend(
    _ content: SendQueue<Operation>.Content, _ timeout: Timeout?, isBatch: Bool = false
  ) -> Operation {
    let operation = Operation(
      .call, timeout: timeout, progress: nil, start: timeout?.start == .call ? registration.now : 0)
    operation.id = sends.queue.admit(content, isBatch: isBatch, operation)
    operation.armIfWithin(registration, DatagramDeadline.send(operation.id))
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
    let queued = max(sends.queue.queuedBytes, sends.queue.count * Self.leastCharge)
    do {
      try checkSendable()
      if queued > 0, queued + max(datagram.bytes.count, Self.leastCharge) > configuration.sendBudget {
        throw SocketError(
          .limitExceeded, operation: "enqueueSend",
          detail: "\(queued) bytes wait already, the budget is \(configuration.sendBudget)")
      }
    } catch {
      return outcome.assumeIsolated { $0.resolve(.failure(error)) }
    }
    guard let datagram = filtered(datagram) else { return outcome.assumeIsolated { $0.resolve(.success(())) } }
    let operation = Operation(
      .handle { result in outcome.assumeIsolated { $0.resolve(result.map { _ in }) } }, timeout: timeout,
      progress: nil, start: called)
    lifecycle.handleCreated()
    operation.id = sends.queue.admit(.datagrams([datagram]), operation)
    operation.armIfWithin(registration, DatagramDeadline.send(operation.id))
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
    guard let (_, sent) = sends.queue.remove(id) else { return }
    finish(operation, .failure(SocketError(.timedOut, operation: "send", bytesTransferred: sent)))
    pumpSends()
  }

  // MARK: Carrying out the queue's steps

  func pumpSends() {
    if !sends.beginPump(registration.tick) { return }
    defer {
      sends.endPump()
      settle()
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

  private func expireImmediateSend() -> Bool {
    guard let id = sends.takeImmediate() else { return false }
    expireSend(id)
    return true
  }

  /// Sends the first datagrams of the queue that use the same socket, with one system call.
  ///
  /// - Returns: The number of datagrams that were sent or have failed; 0 if nothing can be sent now.
  private func sendQueued(attempts: Int = 3) -> Int {
    guard let batch = registration.datagramBatch else {
      sends.queue.failed(SocketError(.system, operation: "send", errno: Errno.noMemory))
      return 1
    }
    batch.clear()
    var chosen: Int?
    var first: (address: SocketAddress?, count: Int) = (nil, 0)
    var passed: [(place: Int, descriptors: DescriptorBundle)] = []
    for datagram in sends.queue.unsent(atMost: DatagramBatch.capacity) {
      do throws(SocketError) {
        try checkSize(datagram.bytes.count)
        let (index, destination) = try route(datagram.remoteAddress)
        if let chosen, chosen != index { break }
        let address = destination?.unmapped ?? peer
        let metadata = datagram.metadata.flatMap { $0.isEmpty ? nil : $0 }
        let descriptors = try checked(datagram.descriptors, through: index)
        guard
          batch.add(
            datagram.bytes.span, to: destination, metadata, isIPv6: address?.isIPv6 == true, passing: descriptors)
        else {
          if chosen != nil { break }
          // It does not fit even into an empty batch.
          let error = SystemError(call: "sendmmsg", errno: Errno.messageTooLong)
          sends.queue.failed(failure(error, address, datagram.bytes.count))
          return 1
        }
        if chosen == nil { first = (address, datagram.bytes.count) }
        if let descriptors { passed.append((batch.count - 1, descriptors)) }
        chosen = index
      } catch {
        // Send the earlier datagrams first.
        if chosen != nil { break }
        sends.queue.failed(error)
        return 1
      }
    }
    guard let chosen else { return 0 }
    guard let socket = sockets[chosen].socket else {
      sends.queue.failed(lifecycle.failure?.during("send") ?? SocketError(.closed, operation: "send"))
      return 1
    }
    do throws(SystemError) {
      let sent = try batch.send(on: socket)
      if sent == 0 {
        waitToSend(chosen)
      } else {
        retryDelay = Self.firstRetryDelay
        sends.queue.sent(sent)
        counts.sent(sent, bytes: batch.bytes(ofFirst: sent))
        // The kernel has copies now. Close the descriptors here, because the entry may wait until its other datagrams are sent.
        for (place, descriptors) in passed where place < sent { descriptors.closeAll() }
      }
      return sent
    } catch {
      if error.isShortage {
        waitToSend(chosen)
        return 0
      }
      if takeReportedErrors() > 0 || attempts > 0 && isStale(error) {
        guard let reported = reportedError.take() else {
          // The call failed because of an error that was reported earlier. Only repeat the call.
          if attempts > 0 { return sendQueued(attempts: attempts - 1) }
          registration.reschedule()
          return 0
        }
        sends.queue.failed(reported.during("send"))
      } else {
        sends.queue.failed(failure(error, first.address, first.count))
      }
      return 1
    }
  }
}

extension SystemError {
  /// Whether there is temporarily no room, in a buffer or on an interface.
  fileprivate var isShortage: Bool { errno == Errno.noBuffers || errno == Errno.noMemory }
}
