public import SocketSystem

extension UDPEndpoint {
  /// The connected socket, or the first one.
  func openSocket(_ operation: String, _ place: Place) throws -> BorrowedDescriptor {
    if let failure = lifecycle.failure { throw failure.during(operation) }
    guard let socket = core.main.socket else {
      throw EndpointLifecycle.closed.during(operation)
    }
    return socket
  }

  /// Called before the first datagram is sent.
  func useOffloads() {
    for (index, bound) in core.routes.sockets.enumerated() where bound.kind != .unix {
      guard let socket = bound.socket else { continue }
      // A kernel without UDP_SEGMENT would ignore it and send all datagrams of a message as one, so it is asked.
      if configuration.segmentationOffload, (try? socket.get(RawOption.segmentSize)) != nil {
        core.dividesMessages(index)
      }
      if configuration.receiveOffload { try? socket.set(RawOption.joinsReceived, to: 1) }
      // Other code that had the socket may have turned it on, too.
      if configuration.receiveOffload || bound.registration.mayBeShared,
        let isOn = try? socket.get(RawOption.joinsReceived), isOn != 0
      {
        core.joinsReceived = true
      }
    }
  }

  func openSockets(_ operation: String, _ place: Place) throws -> [BorrowedDescriptor] {
    _ = try openSocket(operation, place)
    return core.routes.sockets.compactMap(\.socket)
  }

  /// Calls a closure with the descriptor, on the reactor's thread. If there are several, it is the connected or the first one.
  ///
  /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameter body: Called with the descriptor, which is valid until the closure returns and must not be closed. A duplicate of it
  ///   receives what arrives after the endpoint is closed.
  /// - Returns: The closure's result.
  /// - Throws: ``SocketError``: `.closed` if the endpoint is closed; the error of the closure.
  public func withFileDescriptor<Value>(_ body: (Int32) throws -> sending Value) throws -> sending Value {
    let socket = try openSocket("withFileDescriptor", claimPlaceNow())
    core.main.registration.isLent()
    return try body(socket.number)
  }

  /// Sets an option of all the endpoint's sockets: setsockopt(2).
  ///
  /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameters:
  ///   - option: The option.
  ///   - value: The new value.
  /// - Throws: ``SocketError``: `.closed` if the endpoint is closed; `.invalidArgument` if the option cannot have this value;
  ///   otherwise the kernel's error.
  public func set<Value>(_ option: SocketOption<Value>, to value: Value) throws {
    for socket in try openSockets("set \(option.name)", claimPlaceNow()) { try socket.set(option, to: value) }
  }

  /// Reads an option of the endpoint's connected or first socket: getsockopt(2).
  ///
  /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameter option: The option.
  /// - Returns: The current value.
  /// - Throws: ``SocketError``: `.closed` if the endpoint is closed; otherwise the kernel's error.
  public func get<Value>(_ option: SocketOption<Value>) throws -> Value {
    try openSocket("get \(option.name)", claimPlaceNow()).get(option)
  }

  /// Sets or removes the filter for datagrams that arrive from now on. It does not see datagrams that were already fetched.
  ///
  /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameter filter: The filter; `nil` for no filter.
  public func setReceiveFilter(_ filter: Filter?) {
    _ = claimPlaceNow()
    replaceFilters((filter, filters.send))
  }

  /// Sets or removes the filter for datagrams that are sent from now on.
  ///
  /// *Ordering*: in the endpoint's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameter filter: The filter; `nil` for no filter.
  public func setSendFilter(_ filter: Filter?) {
    _ = claimPlaceNow()
    closeGate()
    replaceFilters((filters.receive, filter))
  }
}
