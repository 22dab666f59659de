public import EpollReactor

extension TCPListener {
  /// Takes over the sockets that systemd listens on for this process: sd_listen_fds(3), systemd.socket(5).
  ///
  /// ```swift
  /// var listeners = try TCPListener.activated()
  /// if listeners.isEmpty { listeners = [try TCPListener.bind(to: .port(7777))] }
  /// ```
  ///
  /// Each socket is given out once. Sockets that do not listen are skipped; ``UDPEndpoint/activated(named:configuration:reactor:)`` takes the
  /// datagram sockets. The environment is read at the first call and never changed. Child processes inherit the variables but ignore them,
  /// because `LISTEN_PID` is the number of this process. They do not inherit the sockets.
  ///
  /// - Parameters:
  ///   - name: The name of the sockets (`FileDescriptorName=` in the unit); `nil` for all that were not given out yet.
  ///   - configuration: The settings; see ``adopt(fileDescriptor:configuration:reactor:)``.
  ///   - reactor: The reactor that runs the listeners and their connections.
  /// - Returns: A listener for each socket, in systemd's order; an empty array if systemd passed no sockets to this process, or if no name is
  ///   given and no listening socket is left.
  /// - Throws: ``SocketError``: `.invalidArgument` or `.notASocket` if no listening socket with the name is left; `.invalidArgument` if the
  ///   variables contradict each other; the errors of ``adopt(fileDescriptor:configuration:reactor:)`` if the configuration is refused. If
  ///   it throws, no socket is given out, and a later call can take them.
  public static func activated(
    named name: String? = nil, configuration: Configuration = .init(), reactor: Reactor = .shared
  ) throws -> [TCPListener] {
    try ActivatedSockets.ofThisProcess.take(named: name, as: .listener) { try prepare($0, configuration) }
      .map { adopted($0, configuration, reactor) }
  }
}
