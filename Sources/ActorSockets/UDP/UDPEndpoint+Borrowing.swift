internal import EpollReactor
internal import SocketSystem

extension UDPEndpoint {
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
  /// - Throws: The error of the closure; the errors of ``receive(timeout:)``; `.invalidArgument` for a limit below 1.
  @discardableResult
  public func withDatagrams(
    upTo limit: Int = 32, timeout: Timeout? = nil,
    _ body: (_ bytes: Span<UInt8>, _ header: Datagram.Header) throws -> Void
  ) async throws -> Int {
    let place = if let place = claimPlace() { place } else { await requeue() }
    switch try beginBorrow(upTo: limit, timeout, place, body) {
    case .done(let count): return count
    case .waiting(let operation): return try await borrow(operation, upTo: limit, place, body)
    }
  }

  /// Lends datagrams to a closure, which may answer them immediately.
  ///
  /// ```swift
  /// try await endpoint.withDatagrams { endpoint, bytes, header in
  ///   try endpoint.sendNow(bytes, inReplyTo: header)
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
      return try await borrow(operation, upTo: limit, place) { bytes, header in try body(self, bytes, header) }
    }
  }

  // MARK: Looking

  private enum BorrowStart {
    case done(Int)
    case waiting(Operation)
  }

  private func beginBorrow(
    upTo limit: Int, _ timeout: Timeout?, _ place: Place, _ body: (Span<UInt8>, Datagram.Header) throws -> Void
  ) throws -> BorrowStart {
    if limit < 1 { throw SocketError.invalid("receive", "up to \(limit) datagrams is nothing, ask for at least one") }
    if try mayTake(reportsErrors: true) {
      receives.queue.beginBorrow()
      defer { endBorrow(nil, isDone: true) }
      if let count = try borrow(upTo: limit, body) { return .done(count) }
    }
    return .waiting(try begin(upTo: 0, timeout, reportsErrors: true, place))
  }

  private func borrow(
    _ operation: Operation, upTo limit: Int, _ place: Place, _ body: (Span<UInt8>, Datagram.Header) throws -> Void
  ) async throws -> Int {
    while true {
      _ = try await receive(operation)
      // This call has exclusive access until the borrow ends, whatever happened meanwhile.
      var isDone = true
      defer { endBorrow(operation, isDone: isDone) }
      if let count = try borrow(upTo: limit, body) { return count }
      // Closing the endpoint has removed this call from the queue.
      if let refusal { throw refusal.during("receive") }
      try throwReportedError()
      isDone = false
      operation.outcome = nil
      prepareToSuspend(operation, place)
      if operation.isOverdue { expireReceive(operation.id) }
    }
  }

  private func borrow(
    upTo limit: Int, _ body: (Span<UInt8>, Datagram.Header) throws -> Void
  ) throws -> Int? {
    var count = 0
    while count < limit, let datagram = receives.queue.takeFetched() {
      count += 1
      try body(datagram.bytes.span, Datagram.Header(datagram.remoteAddress, isTruncated: datagram.isTruncated))
    }
    if count > 0 { return count }
    return try receiveBatches(upTo: limit) { batch, received in
      for number in 0..<received {
        if count == limit {
          // The kernel has joined datagrams, so there are more than this call asked for.
          receives.queue.arrived((number..<received).compactMap { datagram($0, of: batch) })
          break
        }
        guard let arrival = arrival(number, of: batch) else { continue }
        // The closure does not get the descriptors that came with the datagram.
        arrival.descriptors?.closeAll()
        count += 1
        do {
          try batch.withBytes(number) { bytes in
            let header = Datagram.Header(arrival.address, isTruncated: arrival.isTruncated)
            try body(bytes.extracting(first: arrival.size), header)
          }
        } catch {
          receives.queue.arrived((number + 1..<received).compactMap { datagram($0, of: batch) })
          throw error
        }
      }
      return count > 0 ? count : nil
    }
  }

  private func endBorrow(_ operation: Operation?, isDone: Bool) {
    if isDone, let deadline = operation?.deadline.take() { registration.disarm(deadline) }
    receives.queue.endBorrow(operation?.id ?? 0, isDone: isDone)
    pumpReceives()
  }
}
