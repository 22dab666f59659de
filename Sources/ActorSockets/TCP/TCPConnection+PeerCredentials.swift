internal import EpollReactor
public import SocketSystem

extension TCPConnection {
  /// Returns the process, user and group at the other end of a unix socket: SO_PEERCRED, unix(7).
  ///
  /// ```swift
  /// guard try await connection.peerCredentials().userID == 1000 else { return }
  /// ```
  ///
  /// The kernel recorded them when the peer called connect(2) or listen(2).
  ///
  /// *Ordering*: in the connection's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Returns: The credentials of the peer.
  /// - Throws: ``SocketError``: `.invalidArgument` for a connection over TCP, which has no credentials; `.closed` if the
  ///   connection has no descriptor.
  public func peerCredentials() throws -> PeerCredentials {
    let socket = try openSocket("peerCredentials", claimPlaceNow())
    do throws(SystemError) {
      if let credentials = try socket.peerCredentials() { return credentials }
    } catch {
      throw SocketError(error, operation: "peerCredentials", address: remoteAddress)
    }
    throw SocketError.invalid("peerCredentials", "only a connected unix socket has a peer with credentials")
  }
}
