extension ProxyHeader {
  /// Creates the header for a connection that forwards another one.
  ///
  /// The source is the peer of the other connection. The destination is the address that this peer connected to. If the other connection
  /// began with a header, that is the destination in it; otherwise it is the local address. If the source is an IP address and the
  /// destination a unix socket, or the reverse, the header contains no addresses.
  ///
  /// - Parameters:
  ///   - connection: The connection that is forwarded.
  ///   - version: The form of the header. Version 2 by default.
  public init(forwarding connection: TCPConnection, _ version: Version = .v2) {
    let source = connection.remoteAddress
    let destination = connection.proxyHeader?.destination ?? connection.localAddress
    self.init(version)
    if let source, let destination, source.isUnix == destination.isUnix, version == .v2 || !source.isUnix {
      (self.source, self.destination) = (source, destination)
    }
  }
}
