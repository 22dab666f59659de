internal import EpollReactor
internal import SocketSystem

// The sizes of the kernel's buffers are options: `set(.receiveBufferSize, to:)` and `set(.sendBufferSize, to:)`.

extension UDPEndpoint {
  /// The largest number of bytes received of an IPv4 or unix datagram.
  ///
  /// *Ordering*: in the endpoint's isolation it is read at once, ahead of calls that wait in the queue.
  public var maximumReceiveSizeIPv4: Int {
    _ = claimPlaceNow()
    return core.sizes.receiveIPv4
  }

  /// The largest number of bytes received of an IPv6 datagram.
  ///
  /// *Ordering*: in the endpoint's isolation it is read at once, ahead of calls that wait in the queue.
  public var maximumReceiveSizeIPv6: Int {
    _ = claimPlaceNow()
    return core.sizes.receiveIPv6
  }

  /// The largest number of bytes of a datagram that is sent.
  ///
  /// *Ordering*: in the endpoint's isolation it is read at once, ahead of calls that wait in the queue.
  public var maximumSendSize: Int {
    _ = claimPlaceNow()
    return core.sizes.send
  }

  /// Changes the largest number of bytes received of an IPv4 or unix datagram
  /// (``Configuration/maximumReceiveSizeIPv4``).
  ///
  /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue. Datagrams that were already
  /// fetched from the kernel keep their size.
  ///
  /// - Parameter size: The size in bytes, 1 to 65,535. A longer datagram is cut off.
  /// - Throws: ``SocketError``: `.invalidArgument` if the size is out of range, `.closed` if the endpoint is closed.
  public func setMaximumReceiveSizeIPv4(_ size: Int) throws {
    try changeSizes("set maximumReceiveSizeIPv4", claimPlaceNow()) { $0.receiveIPv4 = size }
  }

  /// Changes the largest number of bytes received of an IPv6 datagram (``Configuration/maximumReceiveSizeIPv6``).
  ///
  /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue. Datagrams that were already
  /// fetched from the kernel keep their size.
  ///
  /// - Parameter size: The size in bytes, 1 to 65,535. A longer datagram is cut off.
  /// - Throws: ``SocketError``: `.invalidArgument` if the size is out of range, `.closed` if the endpoint is closed.
  public func setMaximumReceiveSizeIPv6(_ size: Int) throws {
    try changeSizes("set maximumReceiveSizeIPv6", claimPlaceNow()) { $0.receiveIPv6 = size }
  }

  /// Changes the largest number of bytes of a datagram that is sent (``Configuration/maximumSendSize``).
  ///
  /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue. Sends of longer datagrams
  /// that wait throw `.limitExceeded` when it is their turn.
  ///
  /// - Parameter size: The size in bytes, at least 0. A longer datagram is refused.
  /// - Throws: ``SocketError``: `.invalidArgument` if the size is negative, `.closed` if the endpoint is closed.
  public func setMaximumSendSize(_ size: Int) throws {
    try changeSizes("set maximumSendSize", claimPlaceNow()) { $0.send = size }
  }

  private func changeSizes(_ operation: String, _ place: Place, _ change: (inout DatagramSizes) -> Void) throws {
    _ = try openSocket(operation, place)
    var sizes = core.sizes
    change(&sizes)
    try sizes.check(operation)
    // Other threads must not send a datagram that is longer than the new size.
    closeGate()
    core.sizes = sizes
  }
}
