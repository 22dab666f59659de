internal import EpollReactor
internal import SocketSystem

extension UDPEndpoint {
  /// The largest number of datagrams fetched by one system call.
  static var fetchSize: Int { 32 }
  /// The number of datagrams that a filter may drop before other sockets of the reactor run.
  private static var dropsPerTurn: Int { 256 }

  // MARK: Calls

  /// Receives the next datagram: recvmmsg(2).
  ///
  /// *Cancellation* takes back the call; the datagram that it would have returned goes to the next call. *Ordering*: calls get
  /// datagrams in the order in which the calls were made.
  ///
  /// - Parameter timeout: How long to wait; `nil` for no limit.
  /// - Returns: The datagram, which may be empty.
  /// - Throws: ``SocketError``: `.timedOut`, `.closed`, `.reactorShutDown`; when connected, also an error reported about the
  ///   peer, for example `.connectionRefused`, after which the endpoint stays usable; `CancellationError` when the task is
  ///   cancelled.
  public func receive(timeout: Timeout? = nil) async throws -> Datagram {
    let place = if let place = claimPlace() { place } else { await requeue() }
    if let datagram = try takeNow(hearsErrors: true, place) { return datagram }
    return try await receiveOne(begin(upTo: 1, timeout, hearsErrors: true, place))
  }

  /// Receives the next datagram for a loop, which does not get reported errors.
  func receiveNext() async throws -> Datagram {
    let place = if let place = claimPlace() { place } else { await requeue() }
    if let datagram = try takeNow(hearsErrors: false, place) { return datagram }
    return try await receiveOne(begin(upTo: 1, nil, hearsErrors: false, place))
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
    var datagrams = try takeNow(upTo: limit, hearsErrors: true, place)
    // A call that has waited takes no further datagrams: later calls may wait for them.
    if datagrams.isEmpty { return try await receive(begin(upTo: limit, timeout, hearsErrors: true, place)) }
    while datagrams.count < limit, let more = takeMore(upTo: limit - datagrams.count) { datagrams += more }
    return datagrams
  }

  /// Lends datagrams to a closure without copying them. The closure is called once for each datagram.
  ///
  /// The closure is called on the reactor's thread, so keep it short. A receive filter does not see these datagrams.
  /// Descriptors that came with them are closed.
  ///
  /// *Cancellation* and *ordering* are those of ``receive(timeout:)``.
  ///
  /// - Parameters:
  ///   - limit: The largest number of datagrams, 1 to 32.
  ///   - timeout: How long to wait for the first datagram; `nil` for no limit.
  ///   - body: Called with the bytes and the header of one datagram. If it throws, the datagrams after that one go to the next
  ///     call.
  /// - Returns: The number of datagrams that the closure was called with, at least one.
  /// - Throws: Whatever the closure throws; the errors of ``receive(timeout:)``; `.invalidArgument` for a limit below 1.
  @discardableResult
  public func withDatagrams(
    upTo limit: Int = 32, timeout: Timeout? = nil,
    _ body: (_ bytes: Span<UInt8>, _ header: Datagram.Header) throws -> Void
  ) async throws -> Int {
    let place = if let place = claimPlace() { place } else { await requeue() }
    switch try beginBorrow(upTo: limit, timeout, place, body) {
    case .done(let count): return count
    case .waiting(let operation): return try await look(operation, upTo: limit, place, body)
    }
  }

  /// Lends datagrams to a closure, which may answer them immediately.
  ///
  /// ```swift
  /// try await endpoint.withDatagrams { endpoint, bytes, header in
  ///   try endpoint.sendNow(bytes, to: header.remoteAddress)
  /// }
  /// ```
  ///
  /// Works like the other `withDatagrams`, except that the closure runs in the endpoint's isolation.
  ///
  /// *Cancellation* and *ordering* are those of ``receive(timeout:)``.
  ///
  /// - Parameters:
  ///   - limit: The largest number of datagrams, 1 to 32.
  ///   - timeout: How long to wait for the first datagram; `nil` for no limit.
  ///   - body: Called with the endpoint, and with the bytes and the header of one datagram.
  /// - Returns: The number of datagrams that the closure was called with, at least one.
  /// - Throws: The errors of the other `withDatagrams`.
  @discardableResult
  public func withDatagrams(
    upTo limit: Int = 32, timeout: Timeout? = nil,
    _ body: @Sendable (_ endpoint: isolated UDPEndpoint, _ bytes: Span<UInt8>, _ header: Datagram.Header) throws -> Void
  ) async throws -> Int {
    let place = if let place = claimPlace() { place } else { await requeue() }
    switch try beginBorrow(upTo: limit, timeout, place, { bytes, header in try body(self, bytes, header) }) {
    case .done(let count): return count
    case .waiting(let operation):
      return try await look(operation, upTo: limit, place) { bytes, header in try body(self, bytes, header) }
    }
  }

  // MARK: Without waiting

  /// Takes a datagram that is available, if no earlier call waits.
  private func takeNow(hearsErrors: Bool, _ place: Place) throws -> Datagram? {
    guard try mayTake(hearsErrors: hearsErrors) else { return nil }
    if let datagram = receives.queue.takeFetched() { return datagram }
    if let refusal { throw refusal.during("receive") }
    let datagrams = fetch(upTo: Self.fetchSize)
    receives.queue.arrived(datagrams.dropFirst())
    return datagrams.first
  }

  /// Takes datagrams that are available, if no earlier call waits.
  private func takeNow(upTo limit: Int, hearsErrors: Bool, _ place: Place) throws -> [Datagram] {
    guard try mayTake(hearsErrors: hearsErrors) else { return [] }
    if receives.queue.fetchedCount > 0 { return receives.queue.takeFetched(upTo: limit) }
    if let refusal { throw refusal.during("receive") }
    return fetch(upTo: limit)
  }

  private func mayTake(hearsErrors: Bool) throws -> Bool {
    try Task.checkCancellation()
    guard receives.queue.isFree else { return false }
    if hearsErrors { try throwReportedError() }
    return true
  }

  /// Returns further datagrams that are available, if no call waits for them; `nil` if there are none.
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

  private func begin(upTo limit: Int, _ timeout: Timeout?, hearsErrors: Bool, _ place: Place) throws -> Operation {
    // The preceding fetch may have found a reported error.
    if hearsErrors { try throwReportedError() }
    if let refusal { throw refusal.during("receive") }
    let operation = Operation(
      .call, timeout: timeout, progress: nil, start: timeout?.start == .call ? registration.now : 0)
    operation.hearsErrors = hearsErrors
    operation.id = receives.queue.admit(upTo: limit, operation)
    operation.armIfWithin(registration, DatagramDeadline.receive(operation.id))
    pumpReceives()
    // An error may have been reported before any call wanted it, possibly by the receive just now.
    tellReceivers()
    prepareToSuspend(operation, place)
    return operation
  }

  /// Waits for the outcome of a receive that has begun.
  private func receive(_ operation: Operation) async throws -> [Datagram] {
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
    if operation.extend(registration, DatagramDeadline.receive(id), done: 0) { return }
    // The timeout's closure may have closed the endpoint.
    guard receives.queue.remove(id) != nil else { return }
    finish(operation, .failure(SocketError(.timedOut, operation: "receive")))
    pumpReceives()
  }

  /// Fails all receives, because the endpoint no longer receives.
  func failReceives(_ error: SocketError) {
    for operation in receives.queue.removeAll() where operation.outcome == nil { finish(operation, .failure(error)) }
  }

  /// Gives a reported error to the first call that wants one.
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

  // MARK: Carrying out the queue's steps

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
  /// - Returns: Whether it did. Then later receives may begin.
  private func expireImmediateReceive() -> Bool {
    guard let id = receives.takeImmediate() else { return false }
    expireReceive(id)
    return true
  }

  /// Fetches a batch of at most 32 datagrams; empty if nothing is available, or if this share is used up.
  private func fetch(upTo limit: Int) -> [Datagram] {
    var dropped = 0
    var datagrams: [Datagram] = []
    for step in sockets.indices {
      // The sockets take turns, so that a flood of datagrams on one address does not starve the others.
      let index = (nextSocket + step) % sockets.count
      while mayReceive[index] {
        guard let (batch, count) = receiveBatch(index, upTo: min(limit, Self.fetchSize)) else { break }
        nextSocket = index + 1
        datagrams.reserveCapacity(count)
        registration.whileBatchIsRead {
          for number in 0..<count {
            if let datagram = datagram(number, of: batch) { datagrams.append(datagram) }
          }
        }
        if !datagrams.isEmpty { return datagrams }
        // A flood of dropped datagrams must not hold up other sockets.
        dropped += count
        if dropped >= Self.dropsPerTurn {
          registration.reschedule()
          return []
        }
      }
    }
    return []
  }

  /// Calls recvmmsg(2) on one socket; returns `nil` when nothing waits there.
  private func receiveBatch(_ index: Int, upTo limit: Int) -> (DatagramBatch, count: Int)? {
    // A reported error fails the next call on the socket, whichever it is. So the call is repeated.
    for _ in 0..<4 {
      guard let socket = sockets[index].socket, let batch = registration.datagramBatch else { break }
      let size = configuration.receiveSize
      do throws(SystemError) {
        let count = try batch.receive(
          from: socket, atMost: limit, size: size, withMetadata: !configuration.metadata.isEmpty,
          descriptors: configuration.descriptorsPerDatagram)
        if count < min(limit, DatagramBatch.capacity(forSize: size)) {
          // Fewer than there is room for: the socket is drained, and the next arrival raises an event.
          mayReceive[index] = false
        } else {
          registration.whileBatchIsRead { tellDropped() }
        }
        return count > 0 ? (batch, count) : nil
      } catch {
        if error.isOfSocket {
          end(SocketError(error, operation: "receive", address: localAddresses.first))
          return nil
        }
        if takeReportedErrors() == 0 { report(SocketError(error, operation: "receive"), from: nil) }
      }
    }
    mayReceive[index] = false
    return nil
  }

  /// Creates one datagram of a batch; `nil` if it is dropped.
  private func datagram(_ number: Int, of batch: DatagramBatch) -> Datagram? {
    let metadata = configuration.metadata.isEmpty ? nil : batch.metadata(number)
    let address = batch.address(number)?.unmapped
    let (descriptors, lacksDescriptors) = receivedDescriptors(number, of: batch)
    var datagram = Datagram(
      received: batch.bytes(number, atMost: maximumSize(from: address)), from: address,
      isTruncated: isTruncated(number, of: batch, from: address), metadata, descriptors,
      lacksDescriptors: lacksDescriptors)
    counts.received(batch.length(number), isTruncated: datagram.isTruncated)
    if isStranger(address) { return nil }
    if let receiveFilter, receiveFilter(&datagram) == .drop {
      counts.filtered += 1
      return nil
    }
    return datagram
  }

  private func maximumSize(from address: SocketAddress?) -> Int {
    address?.isIPv6 == true ? configuration.maximumReceiveSizeIPv6 : configuration.maximumReceiveSizeIPv4
  }

  /// Whether a datagram of a batch was longer than the configuration allows.
  private func isTruncated(_ number: Int, of batch: DatagramBatch, from address: SocketAddress?) -> Bool {
    batch.isTruncated(number) || batch.length(number) > maximumSize(from: address)
  }

  /// Whether the datagram arrived before the endpoint was connected, from a sender other than its peer.
  private func isStranger(_ address: SocketAddress?) -> Bool {
    peer != nil && address != peer
  }

  // MARK: Borrowing

  private enum Look {
    case done(Int)
    case waiting(Operation)
  }

  /// Borrows at once if no earlier call waits and a datagram is available; otherwise adds the call to the queue.
  private func beginBorrow(
    upTo limit: Int, _ timeout: Timeout?, _ place: Place, _ body: (Span<UInt8>, Datagram.Header) throws -> Void
  ) throws -> Look {
    if limit < 1 { throw SocketError.invalid("receive", "up to \(limit) datagrams is nothing, ask for at least one") }
    if try mayTake(hearsErrors: true) {
      receives.queue.beginBorrow()
      defer { endBorrow(nil, isDone: true) }
      if let count = try look(upTo: limit, body) { return .done(count) }
    }
    return .waiting(try begin(upTo: 0, timeout, hearsErrors: true, place))
  }

  /// Borrows as soon as the call is the first and a datagram is available.
  private func look(
    _ operation: Operation, upTo limit: Int, _ place: Place, _ body: (Span<UInt8>, Datagram.Header) throws -> Void
  ) async throws -> Int {
    while true {
      _ = try await receive(operation)
      // This call has exclusive access until the borrow ends, whatever happened meanwhile.
      var isDone = true
      defer { endBorrow(operation, isDone: isDone) }
      if let count = try look(upTo: limit, body) { return count }
      // Closing the endpoint has removed this call from the queue.
      if let refusal { throw refusal.during("receive") }
      try throwReportedError()
      isDone = false
      operation.outcome = nil
      prepareToSuspend(operation, place)
      if operation.isOverdue { expireReceive(operation.id) }
    }
  }

  /// Calls the closure with each available datagram; returns `nil` if there is none.
  private func look(
    upTo limit: Int, _ body: (Span<UInt8>, Datagram.Header) throws -> Void
  ) throws -> Int? {
    var count = 0
    while count < limit, let datagram = receives.queue.takeFetched() {
      count += 1
      try body(datagram.bytes.span, Datagram.Header(datagram.remoteAddress, isTruncated: datagram.isTruncated))
    }
    if count > 0 { return count }
    for step in sockets.indices {
      let index = (nextSocket + step) % sockets.count
      while refusal == nil, mayReceive[index] {
        guard let (batch, received) = receiveBatch(index, upTo: min(limit, Self.fetchSize)) else { break }
        nextSocket = index + 1
        try registration.whileBatchIsRead {
          for number in 0..<received {
            let address = batch.address(number)?.unmapped
            let header = Datagram.Header(address, isTruncated: isTruncated(number, of: batch, from: address))
            counts.received(batch.length(number), isTruncated: header.isTruncated)
            // The closure does not get the descriptors that came with the datagram: they are closed.
            _ = receivedDescriptors(number, of: batch)
            if isStranger(address) { continue }
            count += 1
            do {
              try batch.withBytes(number) { bytes in
                try body(bytes.extracting(first: maximumSize(from: address)), header)
              }
            } catch {
              receives.queue.arrived((number + 1..<received).compactMap { datagram($0, of: batch) })
              throw error
            }
          }
        }
        if count > 0 { return count }
      }
    }
    return nil
  }

  private func endBorrow(_ operation: Operation?, isDone: Bool) {
    if isDone, let deadline = operation?.deadline.take() { registration.disarm(deadline) }
    receives.queue.endBorrow(operation?.id ?? 0, isDone: isDone)
    pumpReceives()
  }
}

extension SystemError {
  /// The socket itself is unusable: every other call would fail, too.
  var isOfSocket: Bool {
    [Errno.badDescriptor, Errno.notSocket, Errno.invalidArgument, Errno.notConnected].contains(errno)
  }
}
