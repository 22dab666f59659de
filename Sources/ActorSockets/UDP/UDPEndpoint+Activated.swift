public import EpollReactor

extension UDPEndpoint {
  /// Takes over the datagram sockets that systemd has bound for this process: `ListenDatagram=` of systemd.socket(5), sd_listen_fds(3).
  ///
  /// ```swift
  /// var endpoints = try UDPEndpoint.activated()
  /// if endpoints.isEmpty { endpoints = [try UDPEndpoint.bind(to: .port(5353))] }
  /// ```
  ///
  /// Each socket is given out once. The environment is read at the first call and is not changed: `LISTEN_PID` names this
  /// process, so child processes ignore it. A socket that is not a datagram socket is skipped. It is not changed, except that child
  /// processes do not inherit it. ``TCPListener/activated(named:configuration:reactor:)`` takes the stream sockets.
  ///
  /// - Parameters:
  ///   - name: The name of the sockets (`FileDescriptorName=` in the unit); `nil` for all that were not given out yet.
  ///   - configuration: The settings; see ``adopt(fileDescriptor:configuration:reactor:)``.
  ///   - reactor: The reactor that runs the endpoints.
  /// - Returns: An endpoint for each socket, in systemd's order; an empty array if systemd passed no sockets to this process.
  /// - Throws: ``SocketError``: `.invalidArgument` if no socket has the name, if a socket with the name was taken before or is
  ///   not a datagram socket, or if the variables contradict each other; the errors of
  ///   ``adopt(fileDescriptor:configuration:reactor:)`` if the configuration is refused. No socket is given out then, so another call
  ///   with a valid configuration gets them.
  public static func activated(
    named name: String? = nil, configuration: Configuration = .init(), reactor: Reactor = .shared
  ) throws -> [UDPEndpoint] {
    try ActivatedSockets.ofThisProcess.take(named: name, as: .datagrams) { try prepare($0, configuration) }
      .map { adopted($0, configuration, reactor) }
  }
}
