public import EpollReactor

extension TCPListener {
  /// Takes over the sockets that systemd listens on for this process: sd_listen_fds(3), systemd.socket(5).
  ///
  /// ```swift
  /// var listeners = try TCPListener.activated()
  /// if listeners.isEmpty { listeners = [try TCPListener.bind(to: .port(7777))] }
  /// ```
  ///
  /// Each socket is given out once. The environment is read at the first call and is not changed: `LISTEN_PID` names this
  /// process, so child processes ignore it. A socket that is not a stream socket or does not listen is skipped. It is not
  /// changed, except that child processes do not inherit it. ``UDPEndpoint/activated(named:configuration:reactor:)`` takes the datagram
  /// sockets.
  ///
  /// - Parameters:
  ///   - name: The name of the sockets (`FileDescriptorName=` in the unit); `nil` for all that were not given out yet.
  ///   - configuration: The settings; see ``adopt(fileDescriptor:configuration:reactor:)``.
  ///   - reactor: The reactor that runs the listeners and their connections.
  /// - Returns: A listener for each socket, in systemd's order; an empty array if systemd passed no sockets to this process.
  /// - Throws: ``SocketError``: `.invalidArgument` if no socket has the name, if a socket with the name was taken before or is
  ///   not a listening stream socket, or if the variables contradict each other; the errors of
  ///   ``adopt(fileDescriptor:configuration:reactor:)`` if the configuration is refused. No socket is given out then, so another call
  ///   with a valid configuration gets them.
  public static func activated(
    named name: String? = nil, configuration: Configuration = .init(), reactor: Reactor = .shared
  ) throws -> [TCPListener] {
    try ActivatedSockets.ofThisProcess.take(named: name, as: .listener) { try prepare($0, configuration) }
      .map { adopted($0, configuration, reactor) }
  }
}
