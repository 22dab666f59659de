internal import EpollReactor
public import SocketSystem

extension TCPConnection {
  /// Sets an option of the socket: setsockopt(2).
  ///
  /// *Ordering*: in the connection's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameters:
  ///   - option: The option.
  ///   - value: The new value.
  /// - Throws: ``SocketError``: `.closed` if the connection has no socket, because it is still connecting or already closed;
  ///   `.invalidArgument` if the option cannot have this value; otherwise the kernel's error.
  public func set<Value>(_ option: SocketOption<Value>, to value: Value) throws {
    core.sendGatheredNow()
    try openSocket("set \(option.name)", claimPlaceNow()).set(option, to: value)
  }

  /// Reads an option of the socket: getsockopt(2).
  ///
  /// *Ordering*: in the connection's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameter option: The option.
  /// - Returns: The current value.
  /// - Throws: ``SocketError``: `.closed` if the connection has no socket, because it is still connecting or already closed;
  ///   otherwise the kernel's error.
  public func get<Value>(_ option: SocketOption<Value>) throws -> Value {
    try openSocket("get \(option.name)", claimPlaceNow()).get(option)
  }

  /// On the reactor's thread only.
  package nonisolated func lendDescriptor<Value>(_ body: (Int32) throws -> sending Value) throws -> sending Value {
    let socket = try borrowSocket("withFileDescriptor")
    registration.isLent()
    let value: Value
    do {
      value = try body(socket.number)
    } catch {
      try socket.refuseBlockingClose("withFileDescriptor")
      throw error
    }
    try socket.refuseBlockingClose("withFileDescriptor")
    return value
  }
}

extension TCPListener {
  /// Sets an option of all the listener's sockets: setsockopt(2). Connections that are established from now on inherit most
  /// options.
  ///
  /// *Ordering*: in the listener's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameters:
  ///   - option: The option.
  ///   - value: The new value.
  /// - Throws: ``SocketError``: `.closed` if the listener is closed; `.invalidArgument` if the option cannot have this value;
  ///   otherwise the kernel's error.
  public func set<Value>(_ option: SocketOption<Value>, to value: Value) throws {
    for socket in try listeningSockets("set \(option.name)", claimPlaceNow()) { try socket.set(option, to: value) }
  }

  /// Reads an option of the listener's first socket: getsockopt(2).
  ///
  /// *Ordering*: in the listener's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameter option: The option.
  /// - Returns: The current value.
  /// - Throws: ``SocketError``: `.closed` if the listener is closed; otherwise the kernel's error.
  public func get<Value>(_ option: SocketOption<Value>) throws -> Value {
    try listeningSockets("get \(option.name)", claimPlaceNow())[0].get(option)
  }

  /// Calls a closure with the descriptor of the listener's first socket, on the reactor's thread.
  ///
  /// *Ordering*: in the listener's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameter body: Called with the descriptor, which is valid until the closure returns and must not be closed. A duplicate of it
  ///   goes on listening after the listener is closed.
  /// - Returns: The closure's result.
  /// - Throws: ``SocketError``: `.closed` if the listener is closed; the error of the closure.
  public func withFileDescriptor<Value>(_ body: (Int32) throws -> sending Value) throws -> sending Value {
    let socket = try listeningSockets("withFileDescriptor", claimPlaceNow())[0]
    sockets[0].isLent()
    return try body(socket.number)
  }

  private func listeningSockets(_ operation: String, _ place: Place) throws -> [BorrowedDescriptor] {
    let open = sockets.compactMap(\.socket)
    if open.isEmpty { throw SocketError(.closed, operation: operation, detail: "the listener is closed") }
    return open
  }
}
