public import EpollReactor
public import SocketSystem

extension TCPConnection {
  /// Takes ownership of a connected stream socket. Closing the connection closes the socket.
  ///
  /// - Parameters:
  ///   - fileDescriptor: The socket. Do not use or close it afterwards.
  ///   - configuration: The settings.
  ///   - reactor: The reactor that runs the connection.
  /// - Returns: The connection.
  /// - Throws: ``SocketError``: `.notASocket`, or `.invalidArgument` if the descriptor is closed, is not a stream socket, is
  ///   not connected, or listens. The caller then still owns the descriptor. Its socket is unchanged, unless an option of the
  ///   configuration could not be set.
  public static func adopt(
    fileDescriptor: Int32, configuration: Configuration = .init(), reactor: Reactor = .shared
  ) throws -> TCPConnection {
    try configuration.check("adopt")
    let found = try AdoptableSocket(fileDescriptor, as: .connection)
    if found.isTCP { try configuration.setOptions(of: BorrowedDescriptor(fileDescriptor)) }
    return TCPConnection(
      try found.take(), remote: found.address, isTCP: found.isTCP, isAdopted: true, configuration: configuration,
      reactor: reactor)
  }

  /// Takes over a connected stream socket: see ``adopt(fileDescriptor:configuration:reactor:)``.
  ///
  /// - Parameters:
  ///   - descriptor: The socket, for example one that ``takeDescriptor()`` has returned. It is closed if this throws.
  ///   - configuration: The settings.
  ///   - reactor: The reactor that runs the connection.
  /// - Returns: The connection.
  /// - Throws: The errors of ``adopt(fileDescriptor:configuration:reactor:)``.
  public static func adopt(
    _ descriptor: consuming OwnedDescriptor, configuration: Configuration = .init(), reactor: Reactor = .shared
  ) throws -> TCPConnection {
    try descriptor.handOver { try adopt(fileDescriptor: $0, configuration: configuration, reactor: reactor) }
  }
}
