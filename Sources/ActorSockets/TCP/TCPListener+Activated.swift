public import EpollReactor

extension TCPListener {
  /// Takes over the sockets that systemd listens on for this process: sd_listen_fds(3), systemd.socket(5).
  ///
  /// ```swift
  /// var listeners = try TCPListener.activated()
  /// if listeners.isEmpty { listeners = [try TCPListener.bind(to: .port(7777))] }
  /// ```
  ///
  /// Each socket is given out once. The environment is read at the first call and not changed: `LISTEN_PID` names this
  /// process, and so child processes have no use for it. Sockets that are not for streams, or do not listen, are passed
  /// over, and stay as they are, except that no child process inherits them.
  ///
  /// - Parameters:
  ///   - name: The name of the sockets (`FileDescriptorName=` in the unit); `nil` for all that were not given out yet.
  ///   - configuration: What to do differently; see ``adopt(fileDescriptor:configuration:reactor:)``.
  ///   - reactor: Where the listeners' code runs, and that of their connections.
  /// - Returns: A listener for each socket, in systemd's order; none if this process was not activated so.
  /// - Throws: ``SocketError``: `.invalidArgument` if no socket has the name, or one that has it was taken before or is
  ///   no listening stream socket, and if the environment contradicts itself.
  public static func activated(
    named name: String? = nil, configuration: Configuration = .init(), reactor: Reactor = .shared
  ) throws -> [TCPListener] {
    try ActivatedSockets.ofThisProcess.take(named: name).map { try adopt($0, configuration, reactor) }
  }
}
