public import SocketSystem

extension UDPEndpoint {
  /// Sends several pieces as one datagram to the connected peer, without joining them first: sendmsg(2).
  /// Returns when the kernel has taken the datagram.
  ///
  /// *Cancellation* and *ordering* are those of ``send(_:timeout:)-([UInt8],_)``.
  ///
  /// - Parameters:
  ///   - pieces: The pieces, in order.
  ///   - timeout: How long it may wait for room, from the call on; `nil` for no limit.
  /// - Throws: The errors of ``send(_:timeout:)-([UInt8],_)``.
  @inlinable @inline(__always)
  public nonisolated func send(contentsOf pieces: [[UInt8]], timeout: Timeout? = nil) async throws {
    let attempt = try sendWithoutHop(contentsOf: pieces, to: nil, timeout)
    if attempt == .sent { return }
    try await sendInTurn(Datagram(contentsOf: pieces), timeout, attempt)
  }

  /// Sends several pieces as one datagram to an address, without joining them first: sendmsg(2).
  /// Returns when the kernel has taken the datagram.
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
    let attempt = try sendWithoutHop(contentsOf: pieces, to: address, timeout)
    if attempt == .sent { return }
    try await sendInTurn(Datagram(contentsOf: pieces, to: address), timeout, attempt)
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

  @usableFromInline
  nonisolated func sendWithoutHop(
    contentsOf pieces: [[UInt8]], to address: SocketAddress?, _ timeout: Timeout?
  ) throws -> SendAttempt {
    try sendWithoutHop(DatagramContent(pieces), to: address, timeout, isReply: false)
  }
}
