public import SocketSystem

// Sends of bytes that are in no array, as streams have them.

extension UDPEndpoint {
  /// Sends a datagram to the connected peer: the bytes are copied before the call suspends. Returns when the kernel has taken the datagram.
  ///
  /// *Cancellation* and *ordering* are those of ``send(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - timeout: How long it may wait for room, from the call on; `nil` for no limit.
  /// - Throws: The errors of ``send(_:timeout:)-([UInt8],_)``.
  @inlinable @inline(__always)
  public nonisolated func send(_ bytes: Span<UInt8>, timeout: Timeout? = nil) async throws {
    try await send([UInt8](copying: bytes), timeout: timeout)
  }

  /// Sends a datagram to an address: the bytes are copied before the call suspends. Returns when the kernel has taken the datagram.
  ///
  /// *Cancellation* and *ordering* are those of ``send(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - address: The destination.
  ///   - timeout: How long it may wait for room; `nil` for no limit.
  /// - Throws: The errors of ``send(_:to:timeout:)-([UInt8],SocketAddress,_)``.
  @inlinable @inline(__always)
  public nonisolated func send(_ bytes: Span<UInt8>, to address: SocketAddress, timeout: Timeout? = nil) async throws {
    try await send([UInt8](copying: bytes), to: address, timeout: timeout)
  }

  /// Sends a datagram to an endpoint, which may be a name: the bytes are copied before the call suspends.
  /// Returns when the kernel has taken the datagram.
  ///
  /// *Cancellation* and *ordering* are those of ``send(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - endpoint: The destination. Of several addresses of a name, the first that this endpoint can reach is used.
  ///   - timeout: How long it may wait for the look-up and for room; `nil` for no limit.
  /// - Throws: The errors of ``send(_:to:timeout:)-([UInt8],Endpoint,_)``.
  @inlinable @inline(__always)
  public nonisolated func send(_ bytes: Span<UInt8>, to endpoint: Endpoint, timeout: Timeout? = nil) async throws {
    try await send([UInt8](copying: bytes), to: endpoint, timeout: timeout)
  }

  /// Sends the bytes of a sequence as a datagram to the connected peer. Returns when the kernel has taken the datagram.
  ///
  /// *Cancellation* and *ordering* are those of ``send(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes. They are copied before the call suspends.
  ///   - timeout: How long it may wait for room, from the call on; `nil` for no limit.
  /// - Throws: The errors of ``send(_:timeout:)-([UInt8],_)``.
  @inlinable @inline(__always)
  public nonisolated func send(_ bytes: some Sequence<UInt8>, timeout: Timeout? = nil) async throws {
    let copy = Array(bytes)
    try await send(copy, timeout: timeout)
  }

  /// Sends the bytes of a sequence as a datagram to an address. Returns when the kernel has taken the datagram.
  ///
  /// *Cancellation* and *ordering* are those of ``send(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes. They are copied before the call suspends.
  ///   - address: The destination.
  ///   - timeout: How long it may wait for room; `nil` for no limit.
  /// - Throws: The errors of ``send(_:to:timeout:)-([UInt8],SocketAddress,_)``.
  @inlinable @inline(__always)
  public nonisolated func send(
    _ bytes: some Sequence<UInt8>, to address: SocketAddress, timeout: Timeout? = nil
  ) async throws {
    let copy = Array(bytes)
    try await send(copy, to: address, timeout: timeout)
  }

  /// Sends the bytes of a sequence as a datagram to an endpoint, which may be a name. Returns when the kernel has taken the datagram.
  ///
  /// *Cancellation* and *ordering* are those of ``send(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes. They are copied before the call suspends.
  ///   - endpoint: The destination. Of several addresses of a name, the first that this endpoint can reach is used.
  ///   - timeout: How long it may wait for the look-up and for room; `nil` for no limit.
  /// - Throws: The errors of ``send(_:to:timeout:)-([UInt8],Endpoint,_)``.
  @inlinable @inline(__always)
  public nonisolated func send(
    _ bytes: some Sequence<UInt8>, to endpoint: Endpoint, timeout: Timeout? = nil
  ) async throws {
    let copy = Array(bytes)
    try await send(copy, to: endpoint, timeout: timeout)
  }
}
