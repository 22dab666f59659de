internal import EpollReactor
public import SocketSystem

/// A socket, lent to a closure that may look at it and change its options.
///
/// ```swift
/// configuration.prepare = { socket in
///   try socket.set(.typeOfService, to: .expeditedForwarding)
/// }
/// ```
///
/// It cannot be kept: the socket is its connection's again when the closure returns.
public struct SocketControl: ~Copyable {
  private let socket: BorrowedDescriptor

  init(_ socket: BorrowedDescriptor) { self.socket = socket }

  /// The descriptor, for what this type does not do. Do not close it, and do not change whether it blocks.
  public var fileDescriptor: Int32 { socket.number }

  /// Sets an option: setsockopt(2).
  ///
  /// - Parameters:
  ///   - option: Which one.
  ///   - value: Its new value.
  /// - Throws: `.invalidArgument` for a value that the option cannot have, and what the kernel reports.
  public func set<Value>(_ option: SocketOption<Value>, to value: Value) throws(SocketError) {
    try socket.set(option, to: value)
  }

  /// Reads an option: getsockopt(2).
  ///
  /// - Parameter option: Which one.
  /// - Returns: Its value.
  /// - Throws: What the kernel reports.
  public func get<Value>(_ option: SocketOption<Value>) throws(SocketError) -> Value { try socket.get(option) }
}

extension BorrowedDescriptor {
  package func set<Value>(_ option: SocketOption<Value>, to value: Value) throws(SocketError) {
    do throws(SocketOptionError) {
      try option.set(value, on: self)
    } catch {
      throw SocketError(error, operation: "set \(option.name)")
    }
  }

  package func get<Value>(_ option: SocketOption<Value>) throws(SocketError) -> Value {
    do throws(SocketOptionError) {
      return try option.value(on: self)
    } catch {
      throw SocketError(error, operation: "get \(option.name)")
    }
  }
}

extension SocketError {
  fileprivate init(_ error: SocketOptionError, operation: String) {
    switch error {
    case .outOfRange(let detail): self = .invalid(operation, detail)
    case .system(let error): self.init(error, operation: operation)
    }
  }
}

extension TCPConnection {
  /// Sets an option of the socket: setsockopt(2).
  ///
  /// *Ordering*: in the connection's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameters:
  ///   - option: Which one.
  ///   - value: Its new value.
  /// - Throws: `.closed` if there is no socket, not yet or not any more; `.invalidArgument` for a value that the option
  ///   cannot have; what the kernel reports.
  public func set<Value>(_ option: SocketOption<Value>, to value: Value) throws {
    try openSocket("set \(option.name)", claimPlaceNow()).set(option, to: value)
  }

  /// Reads an option of the socket: getsockopt(2).
  ///
  /// - Parameter option: Which one.
  /// - Returns: Its value.
  /// - Throws: `.closed` if there is no socket, not yet or not any more; what the kernel reports.
  public func get<Value>(_ option: SocketOption<Value>) throws -> Value {
    try openSocket("get \(option.name)", claimPlaceNow()).get(option)
  }
}

extension TCPListener {
  /// Sets an option of all its sockets: setsockopt(2). Connections that are made from now on begin with most of them.
  ///
  /// *Ordering*: in the listener's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameters:
  ///   - option: Which one.
  ///   - value: Its new value.
  /// - Throws: `.closed` if the listener is closed; `.invalidArgument` for a value that the option cannot have; what the
  ///   kernel reports.
  public func set<Value>(_ option: SocketOption<Value>, to value: Value) throws {
    for socket in try listeningSockets("set \(option.name)", claimPlaceNow()) { try socket.set(option, to: value) }
  }

  /// Reads an option of its first socket: getsockopt(2).
  ///
  /// - Parameter option: Which one.
  /// - Returns: Its value.
  /// - Throws: `.closed` if the listener is closed; what the kernel reports.
  public func get<Value>(_ option: SocketOption<Value>) throws -> Value {
    try listeningSockets("get \(option.name)", claimPlaceNow())[0].get(option)
  }

  private func listeningSockets(_ operation: String, _ place: Place) throws -> [BorrowedDescriptor] {
    let open = sockets.compactMap(\.socket)
    if open.isEmpty { throw SocketError(.closed, operation: operation, detail: "the listener is closed") }
    return open
  }
}
