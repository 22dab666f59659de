public import EpollReactor
public import SocketSystem

extension TCPListener {
  /// Takes ownership of a stream socket that already listens. Closing the listener closes the socket.
  ///
  /// The socket becomes nonblocking, also in other processes that share it. Of the configuration, only the settings of
  /// connections apply, because the others were decided when the socket was created. Closing the listener does not remove the
  /// file of a unix socket, because the creator of the socket owns the file.
  ///
  /// - Parameters:
  ///   - fileDescriptor: The socket. Do not use or close it afterwards.
  ///   - configuration: The settings.
  ///   - reactor: The reactor that runs the listener and its connections.
  /// - Returns: The listener.
  /// - Throws: ``SocketError``: `.notASocket`, or `.invalidArgument` if the descriptor is closed, is not a stream socket, or
  ///   does not listen. The caller then still owns the descriptor. Its socket is unchanged, unless an option of the
  ///   configuration could not be set.
  public static func adopt(
    fileDescriptor: Int32, configuration: Configuration = .init(), reactor: Reactor = .shared
  ) throws -> TCPListener {
    let found = try AdoptableSocket(fileDescriptor, as: .listener)
    try prepare(found, configuration)
    return adopted(found, configuration, reactor)
  }

  /// Takes over a stream socket that already listens: see ``adopt(fileDescriptor:configuration:reactor:)``.
  ///
  /// - Parameters:
  ///   - descriptor: The socket. It is closed if this throws.
  ///   - configuration: The settings.
  ///   - reactor: The reactor that runs the listener and its connections.
  /// - Returns: The listener.
  /// - Throws: The errors of ``adopt(fileDescriptor:configuration:reactor:)``.
  public static func adopt(
    _ descriptor: consuming OwnedDescriptor, configuration: Configuration = .init(), reactor: Reactor = .shared
  ) throws -> TCPListener {
    try descriptor.handOver { try adopt(fileDescriptor: $0, configuration: configuration, reactor: reactor) }
  }

  /// If this throws, the caller still owns the socket.
  static func prepare(_ found: AdoptableSocket, _ configuration: Configuration) throws {
    try configuration.proxyProtocol?.check()
    try configuration.connection.check("adopt")
    if found.isTCP { try configuration.connection.setOptions(of: found.socket) }
    try found.makeNonblocking()
  }

  static func adopted(_ found: AdoptableSocket, _ configuration: Configuration, _ reactor: Reactor) -> TCPListener {
    TCPListener(
      [Registration(on: reactor, holding: found.takeOwnership(), mayBeShared: true)],
      [found.address].compactMap { $0 }, configuration, reactor, isTCP: found.isTCP, isAdopted: true)
  }
}
