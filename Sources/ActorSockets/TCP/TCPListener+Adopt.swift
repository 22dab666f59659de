public import EpollReactor
internal import SocketSystem

extension TCPListener {
  /// Takes over a stream socket that listens already, which is closed with the listener.
  ///
  /// It no longer blocks from here on, also in other processes that share it. Of the configuration, what is about
  /// connections counts; the rest was decided when the socket was made. The file of a unix socket is not removed on closing:
  /// it belongs to whoever made it.
  ///
  /// - Parameters:
  ///   - fileDescriptor: The socket; nobody else may use or close it afterwards.
  ///   - configuration: What to do differently.
  ///   - reactor: Where the listener's code runs, and that of its connections.
  /// - Returns: The listener.
  /// - Throws: ``SocketError``: `.notASocket`, and `.invalidArgument` if it is closed, for datagrams, or does not listen.
  ///   Then the descriptor stays the caller's. It is as it was, unless an option of the configuration could not be set.
  public static func adopt(
    fileDescriptor: Int32, configuration: Configuration = .init(), reactor: Reactor = .shared
  ) throws -> TCPListener {
    try adopt(AdoptableSocket(fileDescriptor, as: .listener), configuration, reactor)
  }

  /// Takes over a socket that was looked at.
  static func adopt(
    _ found: AdoptableSocket, _ configuration: Configuration, _ reactor: Reactor
  ) throws(SocketError) -> TCPListener {
    if found.isTCP { try configuration.connection.setOptions(of: found.socket) }
    return TCPListener(
      [Registration(on: reactor, holding: try found.take())], [found.address].compactMap { $0 }, configuration,
      ReactorExecutor(ofSocketOn: reactor), isTCP: found.isTCP, isAdopted: true)
  }
}
