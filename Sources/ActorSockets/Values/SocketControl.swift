internal import EpollReactor
public import SocketSystem

/// A socket that a closure borrows to inspect it and to change its options.
///
/// ```swift
/// configuration.prepare = { socket in
///   try socket.set(.typeOfService, to: .expeditedForwarding)
/// }
/// ```
///
/// The closure cannot keep it: the connection uses the socket again when the closure returns.
public struct SocketControl: ~Copyable {
  private let socket: BorrowedDescriptor

  init(_ socket: BorrowedDescriptor) { self.socket = socket }

  /// The descriptor, for system calls that this type does not offer. Do not close it or change its blocking mode. If the closure sets
  /// SO_LINGER to a time above 0, the socket is refused, as if the closure had thrown.
  ///
  /// A duplicate does not keep a connection: closing or aborting the connection ends it for every descriptor.
  public var fileDescriptor: Int32 { socket.number }

  /// Sets an option: setsockopt(2).
  ///
  /// - Parameters:
  ///   - option: The option.
  ///   - value: The new value.
  /// - Throws: ``SocketError``: `.invalidArgument` if the option cannot have this value; otherwise the kernel's error.
  public func set<Value>(_ option: SocketOption<Value>, to value: Value) throws(SocketError) {
    try socket.set(option, to: value)
  }

  /// Reads an option: getsockopt(2).
  ///
  /// - Parameter option: The option.
  /// - Returns: The current value.
  /// - Throws: ``SocketError``: the kernel's error.
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
