internal import EpollReactor
public import SocketSystem

extension TCPConnection {
  /// Who is at the other end of a unix socket: SO_PEERCRED, unix(7).
  ///
  /// ```swift
  /// guard try await connection.peerCredentials().userID == 1000 else { return }
  /// ```
  ///
  /// They are those of the moment at which the peer connected, or began to listen.
  ///
  /// - Returns: The process, the user and the group.
  /// - Throws: ``SocketError``: `.invalidArgument` for a connection over TCP, which has none, `.closed` if there is no
  ///   descriptor.
  public func peerCredentials() throws -> PeerCredentials {
    try withFileDescriptor { number in
      do throws(SystemError) {
        if let credentials = try BorrowedDescriptor(number).peerCredentials() { return credentials }
      } catch {
        throw SocketError(error, operation: "peerCredentials", address: remoteAddress)
      }
      throw SocketError.invalid("peerCredentials", "only a connected unix socket has a peer with credentials")
    }
  }
}
