internal import EpollReactor
internal import SocketSystem

// Looking at datagrams where they were received, without copies: `withDatagrams`.

extension UDPEndpoint {
  /// Looks at datagrams where they were received, without copies: the closure is called once for each.
  ///
  /// It is called on the reactor's thread, so keep it short. A receive filter does not see these datagrams. Descriptors that
  /// came with them are closed.
  ///
  /// *Cancellation* and *Ordering* as ``receive(timeout:)``.
  ///
  /// - Parameters:
  ///   - limit: The most datagrams, 1 to 32.
  ///   - timeout: How long to wait for the first.
  ///   - body: Looks at the bytes of one, and hears what belongs to it. If it throws, the datagrams behind the one that it was
  ///     called for go to the next call.
  /// - Returns: How many it has looked at, at least one.
  /// - Throws: What the closure throws, what ``receive(timeout:)`` throws, `.invalidArgument` for a limit below 1.
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

  /// Looks at datagrams where they were received, and may answer them on the spot.
  ///
  /// ```swift
  /// try await endpoint.withDatagrams { endpoint, bytes, header in
  ///   try endpoint.sendNow(bytes, to: header.remoteAddress)
  /// }
  /// ```
  ///
  /// As `withDatagrams`, but that the closure is in the endpoint's isolation.
  ///
  /// - Parameters:
  ///   - limit: The most datagrams, 1 to 32.
  ///   - timeout: How long to wait for the first.
  ///   - body: Gets the endpoint, looks at the bytes of one datagram, and hears what belongs to it.
  /// - Returns: How many it has looked at, at least one.
  /// - Throws: What `withDatagrams` throws.
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

  // MARK: Looking

  private enum Look {
    case done(Int)
    case waiting(Operation)
  }

  /// Looks at once, if nobody waits before and something is there; otherwise the call waits from now on.
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

  /// Looks as soon as it is the call's turn and something is there.
  private func look(
    _ operation: Operation, upTo limit: Int, _ place: Place, _ body: (Span<UInt8>, Datagram.Header) throws -> Void
  ) async throws -> Int {
    while true {
      _ = try await receive(operation)
      // The turn is ours until the look is over, whatever happened meanwhile.
      var isDone = true
      defer { endBorrow(operation, isDone: isDone) }
      if let count = try look(upTo: limit, body) { return count }
      // Who closed it has taken the call out of the queue.
      if let refusal { throw refusal.during("receive") }
      try throwReportedError()
      isDone = false
      operation.outcome = nil
      prepareToSuspend(operation, place)
      if operation.isOverdue { expireReceive(operation.id) }
    }
  }

  /// Calls the closure for what is there; `nil` if nothing is.
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
        try registration.reactor.whileBatchIsRead {
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
