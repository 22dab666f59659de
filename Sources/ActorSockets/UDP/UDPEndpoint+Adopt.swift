public import EpollReactor
public import SocketSystem

extension UDPEndpoint {
  /// Takes ownership of a datagram socket over IPv4, IPv6 or both, or of a unix datagram socket. Closing the endpoint closes the socket.
  ///
  /// If the socket is connected, so is the endpoint: getpeername(2). An IP socket that is not bound gets a free port, as it would at its
  /// first send. Closing the endpoint does not remove the file of a unix socket, because the creator of the socket owns the file.
  ///
  /// The socket becomes nonblocking, also in other processes that share it. Each datagram is received by one of these processes.
  /// ``Metrics-swift.struct/datagramsDropped`` includes what the kernel dropped before.
  ///
  /// The configuration's settings apply as with ``bind(to:configuration:reactor:)``, except those that take effect before bind(2):
  /// ``Configuration/reuseAddress``, ``Configuration/reusePort``, ``Configuration/ipv6Only``, ``Configuration/device``,
  /// ``Configuration/permissions`` and ``Configuration/prepare``. They are ignored. SO_BROADCAST stays set
  /// if it was set. Metadata that is not in ``Configuration/metadata`` is turned off.
  ///
  /// - Parameters:
  ///   - fileDescriptor: The socket. Do not use or close it afterwards.
  ///   - configuration: The settings.
  ///   - reactor: The reactor that runs the endpoint.
  /// - Returns: The endpoint.
  /// - Throws: ``SocketError``: `.notASocket`, or `.invalidArgument` if the descriptor is closed, is not a datagram socket, or is of
  ///   another family; `.invalidArgument` for a size or number of the configuration that is out of range. The caller then still owns the
  ///   descriptor. If the socket itself is refused, it is unchanged. If an option or bind(2) fails, the error is the kernel's, and options
  ///   that were set before keep their new values.
  public static func adopt(
    fileDescriptor: Int32, configuration: Configuration = .init(), reactor: Reactor = .shared
  ) throws -> UDPEndpoint {
    let found = try AdoptableSocket(fileDescriptor, as: .datagrams)
    try prepare(found, configuration)
    return adopted(found, configuration, reactor)
  }

  /// Takes over a datagram socket: see ``adopt(fileDescriptor:configuration:reactor:)``.
  ///
  /// - Parameters:
  ///   - descriptor: The socket. It is closed if this throws.
  ///   - configuration: The settings.
  ///   - reactor: The reactor that runs the endpoint.
  /// - Returns: The endpoint.
  /// - Throws: The errors of ``adopt(fileDescriptor:configuration:reactor:)``.
  public static func adopt(
    _ descriptor: consuming OwnedDescriptor, configuration: Configuration = .init(), reactor: Reactor = .shared
  ) throws -> UDPEndpoint {
    try descriptor.handOver { try adopt(fileDescriptor: $0, configuration: configuration, reactor: reactor) }
  }

  /// If this throws, the caller still owns the socket.
  static func prepare(_ found: AdoptableSocket, _ configuration: Configuration) throws {
    try configuration.check("adopt")
    try configuration.setOptions(of: found.socket, isUnix: found.address?.isUnix == true, isNew: false)
    if let address = found.address, address.port == 0 {
      do throws(SystemError) {
        try found.socket.bind(to: address)
      } catch {
        throw SocketError(error, operation: "adopt", address: address)
      }
    }
    try found.makeNonblocking()
  }

  static func adopted(
    _ found: AdoptableSocket, _ configuration: Configuration, _ reactor: Reactor
  ) -> UDPEndpoint {
    var configuration = configuration
    configuration.device = try? found.socket.get(.bindToDevice)
    return UDPEndpoint(DatagramSockets(adopting: found, reactor), configuration, reactor)
  }
}
