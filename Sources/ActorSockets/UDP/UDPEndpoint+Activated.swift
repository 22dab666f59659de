public import EpollReactor

extension UDPEndpoint {
  /// Takes over the datagram sockets that systemd has bound for this process: `ListenDatagram=` of systemd.socket(5), sd_listen_fds(3).
  ///
  /// ```swift
  /// var endpoints = try UDPEndpoint.activated()
  /// if endpoints.isEmpty { endpoints = [try UDPEndpoint.bind(to: .port(5353))] }
  /// ```
  ///
  /// Each socket is given out once. Sockets that are not datagram sockets are skipped, and stay for
  /// ``TCPListener/activated(named:configuration:reactor:)``, which takes those that listen. The environment is read at the first call and
  /// never changed. Child processes inherit the variables but ignore them, because `LISTEN_PID` is the number of this process. They do not
  /// inherit the sockets.
  ///
  /// - Parameters:
  ///   - name: The name of the sockets (`FileDescriptorName=` in the unit); `nil` for all that were not given out yet.
  ///   - configuration: The settings; see ``adopt(fileDescriptor:configuration:reactor:)``.
  ///   - reactor: The reactor that runs the endpoints.
  /// - Returns: An endpoint for each socket, in systemd's order; an empty array if systemd passed no sockets to this process, or
  ///   if no name is given and no datagram socket is left.
  /// - Throws: ``SocketError``: `.invalidArgument` or `.notASocket` if no datagram socket with the name is left; `.invalidArgument` if the
  ///   variables contradict each other; the errors of ``adopt(fileDescriptor:configuration:reactor:)`` if the configuration is refused. If
  ///   it throws, no socket is given out, and a later call can take them.
  public static func activated(
    named name: String? = nil, configuration: Configuration = .init(), reactor: Reactor = .shared
  ) throws -> [UDPEndpoint] {
    try ActivatedSockets.ofThisProcess.take(named: name, as: .datagrams) { try prepare($0, configuration) }
      .map { adopted($0, configuration, reactor) }
  }
}
