public import ActorSockets
public import SocketSystem

// Access to the socket beneath an encrypted connection, for what does not concern TLS.

extension TLSConnection {
  /// The address of the proxy or load balancer between this side and the peer: ``TCPConnection/proxyAddress``.
  public nonisolated var proxyAddress: SocketAddress? { tcpConnection?.proxyAddress }

  /// The header that a load balancer sent ahead of the TLS handshake: ``TCPConnection/proxyHeader``.
  public nonisolated var proxyHeader: ProxyHeader? { tcpConnection?.proxyHeader }

  /// Sets an option of the socket beneath: setsockopt(2).
  ///
  /// *Ordering*: in the connection's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameters:
  ///   - option: The option.
  ///   - value: Its new value.
  /// - Throws: ``SocketError``:
  ///   - `.notASocket` if there is no ``TCPConnection`` beneath, for example in memory
  ///   - `.closed` if that connection has no socket yet, or no longer
  ///   - `.invalidArgument` for a value out of the option's range
  ///   - the kernel's error
  public func set<Value>(_ option: SocketOption<Value>, to value: Value) throws {
    core.sendGatheredNow()
    try borrowSocket("set \(option.name)", claimPlaceNow()).set(option, to: value)
  }

  /// Returns the value of an option of the socket beneath: getsockopt(2).
  ///
  /// - Parameter option: The option.
  /// - Returns: Its value.
  /// - Throws: ``SocketError``:
  ///   - `.notASocket` if there is no ``TCPConnection`` beneath, for example in memory
  ///   - `.closed` if that connection has no socket yet, or no longer
  ///   - the kernel's error
  public func get<Value>(_ option: SocketOption<Value>) throws -> Value {
    try borrowSocket("get \(option.name)", claimPlaceNow()).get(option)
  }

  /// Lends the descriptor of the socket beneath, for what this package does not offer.
  ///
  /// Do not read from it or write to it: the bytes are TLS records, and a record that is missing or added makes the
  /// connection fail. Do not close it, and do not change whether it blocks.
  ///
  /// - Parameter body: Gets the descriptor's number, which is valid until the closure returns.
  /// - Returns: The result of the closure.
  /// - Throws: The error of the closure, or ``SocketError``:
  ///   - `.notASocket` if there is no ``TCPConnection`` beneath, for example in memory
  ///   - `.closed` if that connection has no socket yet, or no longer
  ///   - `.invalidArgument` if the closure set SO_LINGER to a time above 0, which is turned off
  public func withFileDescriptor<Value>(_ body: (Int32) throws -> sending Value) throws -> sending Value {
    _ = claimPlaceNow()
    core.sendGatheredNow()
    return try socketBeneath("withFileDescriptor").lendDescriptor(body)
  }

  private func borrowSocket(_ operation: String, _ place: Place) throws -> BorrowedDescriptor {
    try socketBeneath(operation).borrowSocket(operation)
  }

  private func socketBeneath(_ operation: String) throws -> TCPConnection {
    if let tcpConnection { return tcpConnection }
    throw SocketError(.notASocket, operation: operation, detail: "the connection is not over a socket")
  }
}

extension TLSConnection {
  /// Derives secret bytes that only the two ends of this connection know: RFC 5705, and RFC 8446, section 7.5.
  ///
  /// Both ends get the same bytes for the same arguments. The call waits until the handshake is done.
  ///
  /// *Cancellation* only stops the wait.
  ///
  /// *Ordering*: The call has no place in the queues of reads and writes.
  ///
  /// - Parameters:
  ///   - label: The purpose of the bytes, 1 to 249 bytes of UTF-8. Labels are registered with IANA, or begin with
  ///     `EXPERIMENTAL`.
  ///   - context: Data that the bytes also depend on, at most 65,535 bytes. With TLS 1.2, `nil` and an empty array give
  ///     different bytes.
  ///   - count: The number of bytes, 1 to 8,160.
  /// - Returns: The bytes.
  /// - Throws: ``SocketError``: `.invalidArgument` for arguments out of range, `.closed` when the connection has ended;
  ///   ``TLSError``: the errors of ``handshake()``, and `.exporterUnavailable` if the peers use TLS 1.2 without the
  ///   extended master secret.
  public func exportKeyingMaterial(label: String, context: [UInt8]? = nil, count: Int) async throws -> [UInt8] {
    let place = claimPlaceNow()
    guard (1...249).contains(label.utf8.count), (context?.count ?? 0) <= 65_535, (1...8_160).contains(count) else {
      throw SocketError(
        .invalidArgument, operation: "exportKeyingMaterial",
        detail: "a label has 1 to 249 bytes, a context at most 65535, and 1 to 8160 bytes can be exported")
    }
    try await waitForHandshake(place)
    return try transport.exportKeyingMaterial(label, context, count: count)
  }
}
