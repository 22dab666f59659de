public import SocketSystem

// Sends of bytes that are not in one array, as streams have them. Joining pieces costs less than a second kind of content would cost each
// send: 150 instructions.

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

  /// Sends several pieces as one datagram to the connected peer. They are joined before the call suspends. Returns when the kernel has taken the datagram.
  ///
  /// *Cancellation* and *ordering* are those of ``send(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - pieces: The pieces, in order.
  ///   - timeout: How long it may wait for room, from the call on; `nil` for no limit.
  /// - Throws: The errors of ``send(_:timeout:)-([UInt8],_)``.
  @inlinable @inline(__always)
  public nonisolated func send(contentsOf pieces: [[UInt8]], timeout: Timeout? = nil) async throws {
    try await send(Array(pieces.joined()), timeout: timeout)
  }

  /// Sends several pieces as one datagram to an address. They are joined before the call suspends. Returns when the kernel has taken the datagram.
  ///
  /// *Cancellation* and *ordering* are those of ``send(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - pieces: The pieces, in order.
  ///   - address: The destination.
  ///   - timeout: How long it may wait for room; `nil` for no limit.
  /// - Throws: The errors of ``send(_:to:timeout:)-([UInt8],SocketAddress,_)``.
  @inlinable @inline(__always)
  public nonisolated func send(
    contentsOf pieces: [[UInt8]], to address: SocketAddress, timeout: Timeout? = nil
  ) async throws {
    try await send(Array(pieces.joined()), to: address, timeout: timeout)
  }

  /// Sends several pieces as one datagram to an endpoint, which may be a name. Returns when the kernel has taken the datagram.
  ///
  /// *Cancellation* and *ordering* are those of ``send(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - pieces: The pieces, in order.
  ///   - endpoint: The destination. Of several addresses of a name, the first that this endpoint can reach is used.
  ///   - timeout: How long it may wait for the look-up and for room; `nil` for no limit.
  /// - Throws: The errors of ``send(_:to:timeout:)-([UInt8],Endpoint,_)``.
  @inlinable @inline(__always)
  public nonisolated func send(
    contentsOf pieces: [[UInt8]], to endpoint: Endpoint, timeout: Timeout? = nil
  ) async throws {
    try await send(Array(pieces.joined()), to: endpoint, timeout: timeout)
  }
}
