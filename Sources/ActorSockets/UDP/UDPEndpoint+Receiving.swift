internal import EpollReactor
internal import SocketSystem

extension UDPEndpoint {
  /// The most datagrams that are fetched with one call.
  static var fetchSize: Int { 32 }
  // MARK: Calls

  /// Receives the next datagram: recvmmsg(2).
  ///
  /// *Cancellation* takes the call back; a datagram that would have been its goes to the next call.
  /// *Ordering*: the calls get the datagrams in the order in which they were made.
  ///
  /// - Parameter timeout: How long to wait.
  /// - Returns: The datagram; one without any bytes is one.
  /// - Throws: `.timedOut`, `.closed`, `.reactorShutDown`; when connected, also what was reported about the peer, for example
  ///   `.connectionRefused`, after which the endpoint lives on.
  public func receive(timeout: Timeout? = nil) async throws -> Datagram {
    let place = if let place = claimPlace() { place } else { await requeue() }
    if let datagram = try takeNow(hearsErrors: true, place) { return datagram }
    return try await receiveOne(begin(upTo: 1, timeout, hearsErrors: true, place))
  }

  /// Receives the next datagram of a loop, which does not hear of what is reported.
  func receiveNext() async throws -> Datagram {
    let place = if let place = claimPlace() { place } else { await requeue() }
    if let datagram = try takeNow(hearsErrors: false, place) { return datagram }
    return try await receiveOne(begin(upTo: 1, nil, hearsErrors: false, place))
  }

  /// Receives what there is, several datagrams at once.
  ///
  /// *Cancellation* and *Ordering* as ``receive(timeout:)``.
  ///
  /// - Parameters:
  ///   - limit: The most datagrams, at least 1.
  ///   - timeout: How long to wait for the first.
  /// - Returns: The datagrams, at least one, in the order in which they came.
  /// - Throws: What ``receive(timeout:)`` throws, `.invalidArgument` for a limit below 1.
  public func receive(upTo limit: Int, timeout: Timeout? = nil) async throws -> [Datagram] {
    if limit < 1 { throw SocketError.invalid("receive", "up to \(limit) datagrams is nothing, ask for at least one") }
    let place = if let place = claimPlace() { place } else { await requeue() }
    var datagrams = try takeNow(upTo: limit, hearsErrors: true, place)
    // What comes after the waiting is for those who have called meanwhile.
    if datagrams.isEmpty { return try await receive(begin(upTo: limit, timeout, hearsErrors: true, place)) }
    while datagrams.count < limit, let more = takeMore(upTo: limit - datagrams.count) { datagrams += more }
    return datagrams
  }

  // MARK: At once

  /// Takes a datagram that is there, if nobody waits before.
  private func takeNow(hearsErrors: Bool, _ place: Place) throws -> Datagram? {
    guard try mayTake(hearsErrors: hearsErrors) else { return nil }
    if let datagram = receives.queue.takeFetched() { return datagram }
    if let refusal { throw refusal.during("receive") }
    let datagrams = fetch(upTo: Self.fetchSize)
    receives.queue.arrived(datagrams.dropFirst())
    return datagrams.first
  }

  /// Takes datagrams that are there, if nobody waits before.
  private func takeNow(upTo limit: Int, hearsErrors: Bool, _ place: Place) throws -> [Datagram] {
    guard try mayTake(hearsErrors: hearsErrors) else { return [] }
    if receives.queue.fetchedCount > 0 { return receives.queue.takeFetched(upTo: limit) }
    if let refusal { throw refusal.during("receive") }
    return fetch(upTo: limit)
  }

  func mayTake(hearsErrors: Bool) throws -> Bool {
    try Task.checkCancellation()
    guard receives.queue.isFree else { return false }
    if hearsErrors { try throwReportedError() }
    return true
  }

  /// What more there is, if nobody waits for it; `nil` if there is none.
  private func takeMore(upTo limit: Int) -> [Datagram]? {
    guard receives.queue.isFree else { return nil }
    let datagrams =
      if receives.queue.fetchedCount > 0 {
        receives.queue.takeFetched(upTo: limit)
      } else if refusal == nil {
        fetch(upTo: limit)
      } else {
        [] as [Datagram]
      }
    return datagrams.isEmpty ? nil : datagrams
  }

  func throwReportedError() throws {
    if let error = reportedError.take() { throw error.during("receive") }
  }

  // MARK: Waiting

  func begin(upTo limit: Int, _ timeout: Timeout?, hearsErrors: Bool, _ place: Place) throws -> Operation {
    // What the fetch before has found.
    if hearsErrors { try throwReportedError() }
    if let refusal { throw refusal.during("receive") }
    let operation = Operation(
      .call, timeout: timeout, progress: nil, start: timeout?.start == .call ? registration.reactor.now : 0)
    operation.hearsErrors = hearsErrors
    operation.id = receives.queue.admit(upTo: limit, operation)
    operation.armIfWithin(registration, DatagramDeadline.receive(operation.id))
    pumpReceives()
    // What was reported before somebody wanted to hear of it, perhaps by the receiving just now.
    tellReceivers()
    prepareToSuspend(operation, place)
    return operation
  }

  /// Waits for the outcome of a receive that has begun.
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

  private func cancelReceive(_ id: UInt64) {
    // One that has the turn goes on with it.
    guard let operation = receives.queue.tag(of: id), operation.outcome == nil else { return }
    _ = receives.queue.remove(id)
    finish(operation, .failure(CancellationError()))
    pumpReceives()
  }

  func expireReceive(_ id: UInt64) {
    guard let operation = receives.queue.tag(of: id) else { return }
    // One that has the turn may still find something.
    operation.isOverdue = operation.outcome != nil
    if operation.isOverdue {
      operation.deadline = nil
      return
    }
    if operation.extend(registration, DatagramDeadline.receive(id), done: 0) { return }
    // The closure that was asked for more time may have closed the endpoint.
    guard receives.queue.remove(id) != nil else { return }
    finish(operation, .failure(SocketError(.timedOut, operation: "receive")))
    pumpReceives()
  }

  /// Nothing will be received any more, or nobody is to.
  func failReceives(_ error: SocketError) {
    for operation in receives.queue.removeAll() where operation.outcome == nil { finish(operation, .failure(error)) }
  }

  /// What was reported is for the first who wants to hear of it.
  func tellReceivers() {
    guard let error = reportedError else { return }
    for id in receives.queue.ids {
      guard let operation = receives.queue.tag(of: id), operation.hearsErrors, operation.outcome == nil else {
        continue
      }
      reportedError = nil
      _ = receives.queue.remove(id)
      finish(operation, .failure(error.during("receive")))
      return pumpReceives()
    }
  }

  // MARK: Carrying out what the queue says

  func pumpReceives() {
    if !receives.beginPump(registration.tick) { return }
    defer { receives.endPump() }
    while true {
      switch receives.queue.step(mayFetch: mayReceive.contains(true) && !lifecycle.isClosed) {
      case .idle:
        if !expireImmediateReceive() { return }
      case .begin(let id, let operation):
        receives.isImmediate = operation.begin(registration, DatagramDeadline.receive(id))
      case .fetch:
        let datagrams = fetch(upTo: Self.fetchSize)
        receives.queue.arrived(datagrams)
        if datagrams.isEmpty, !expireImmediateReceive(), mayReceive.contains(true) { return }
      case .finish(let operation, let datagrams):
        receives.isImmediate = false
        finish(operation, .success(.datagrams(datagrams)))
      case .look(_, let operation):
        operation.isOverdue = receives.isImmediate
        receives.isImmediate = false
        operation.outcome = .success(.datagrams([]))
        operation.suspension?.resume()
        return
      }
    }
  }

  /// Ends the first receive if it has no time to wait.
  ///
  /// - Returns: Whether it did. Then the receives behind it may begin.
  private func expireImmediateReceive() -> Bool {
    guard let id = receives.takeImmediate() else { return false }
    expireReceive(id)
    return true
  }
}
