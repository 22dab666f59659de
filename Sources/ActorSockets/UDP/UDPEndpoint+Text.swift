extension UDPEndpoint {
  /// Sends text as UTF-8 to the connected peer. Returns when the kernel has taken the datagram.
  ///
  /// *Cancellation* and *ordering* are those of ``send(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - text: The text.
  ///   - timeout: How long it may wait for room, from the call on; `nil` for no limit.
  /// - Throws: The errors of ``send(_:timeout:)-([UInt8],_)``.
  @inlinable @inline(__always)
  public nonisolated func send(utf8 text: some StringProtocol, timeout: Timeout? = nil) async throws {
    try await send(Array(text.utf8), timeout: timeout)
  }

  /// Sends text as UTF-8 to an address. Returns when the kernel has taken the datagram.
  ///
  /// *Cancellation* and *ordering* are those of ``send(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - text: The text.
  ///   - address: The destination.
  ///   - timeout: How long it may wait for room; `nil` for no limit.
  /// - Throws: The errors of ``send(_:to:timeout:)-([UInt8],SocketAddress,_)``.
  @inlinable @inline(__always)
  public nonisolated func send(
    utf8 text: some StringProtocol, to address: SocketAddress, timeout: Timeout? = nil
  ) async throws {
    try await send(Array(text.utf8), to: address, timeout: timeout)
  }

  /// Sends text as UTF-8 to an endpoint, which may be a name. Returns when the kernel has taken the datagram.
  ///
  /// *Cancellation* and *ordering* are those of ``send(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - text: The text.
  ///   - endpoint: The destination. Of several addresses of a name, the first that this endpoint can reach is used.
  ///   - timeout: How long it may wait for the look-up and for room; `nil` for no limit.
  /// - Throws: The errors of ``send(_:to:timeout:)-([UInt8],Endpoint,_)``.
  @inlinable @inline(__always)
  public nonisolated func send(
    utf8 text: some StringProtocol, to endpoint: Endpoint, timeout: Timeout? = nil
  ) async throws {
    try await send(Array(text.utf8), to: endpoint, timeout: timeout)
  }
}
