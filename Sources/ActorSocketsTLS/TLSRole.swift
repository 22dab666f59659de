/// The side of the handshake that a connection takes.
public enum TLSRole: Sendable, Hashable {
  /// The side that begins the handshake and verifies the other side's certificate.
  ///
  /// - Parameter serverName: The name or the IP address that the server's certificate must be for. A name is also sent
  ///   to the server (RFC 6066, section 3), an address is not.
  case client(serverName: String)
  /// The side that waits for the handshake to begin and that has a certificate.
  case server
}
