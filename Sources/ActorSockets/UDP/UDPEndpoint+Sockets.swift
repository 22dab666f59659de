public import SocketSystem

// The sockets of an endpoint: their descriptors, their options, and the filters in front of them.

extension UDPEndpoint {
  /// A socket that is there, or why there is none.
  func openSocket(_ operation: String, _ place: Place) throws -> BorrowedDescriptor {
    if let failure = lifecycle.failure { throw failure.during(operation) }
    guard let socket = sockets[connectedSocket ?? 0].socket else {
      throw EndpointLifecycle.closed.during(operation)
    }
    return socket
  }

  /// All sockets that are there.
  func openSockets(_ operation: String, _ place: Place) throws -> [BorrowedDescriptor] {
    _ = try openSocket(operation, place)
    return sockets.compactMap(\.socket)
  }

  /// Lends the descriptor to a closure, on the reactor's thread. Of several, the connected or the first one.
  ///
  /// - Parameter body: Gets the number; it must not close it, nor keep it.
  /// - Returns: What the closure returns.
  /// - Throws: What the closure throws, `.closed` if the endpoint is closed.
  public func withFileDescriptor<Value>(_ body: (Int32) throws -> sending Value) throws -> sending Value {
    try body(openSocket("withFileDescriptor", claimPlaceNow()).number)
  }

  /// Sets an option of all its sockets: setsockopt(2).
  ///
  /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameters:
  ///   - option: Which one.
  ///   - value: Its new value.
  /// - Throws: `.closed`; `.invalidArgument` for a value that the option cannot have; what the kernel reports.
  public func set<Value>(_ option: SocketOption<Value>, to value: Value) throws {
    for socket in try openSockets("set \(option.name)", claimPlaceNow()) { try socket.set(option, to: value) }
  }

  /// Reads an option of its first socket: getsockopt(2).
  ///
  /// - Parameter option: Which one.
  /// - Returns: Its value.
  /// - Throws: `.closed`; what the kernel reports.
  public func get<Value>(_ option: SocketOption<Value>) throws -> Value {
    try openSocket("get \(option.name)", claimPlaceNow()).get(option)
  }

  /// Sets what looks at datagrams that arrive from now on, or nothing. Those that were fetched already have been looked at.
  ///
  /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameter filter: The filter.
  public func setReceiveFilter(_ filter: Filter?) {
    _ = claimPlaceNow()
    receiveFilter = filter
  }

  /// Sets what looks at datagrams that are sent from now on, or nothing.
  ///
  /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameter filter: The filter.
  public func setSendFilter(_ filter: Filter?) {
    _ = claimPlaceNow()
    sendFilter = filter
  }
}
