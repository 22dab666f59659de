import Glibc

/// The process, the user and the group at the other end of a unix socket: SO_PEERCRED, unix(7).
///
/// The kernel recorded them when the peer connected, listened or made the socket pair. Later changes do not show. So
/// the user and the group are reliable, but the process is not: it may have ended, another process may have its number
/// by now, or it may have passed its socket to another process.
public struct PeerCredentials: Hashable, Sendable {
  /// The process ID. It is 0 if this process's namespace does not contain the peer.
  public let processID: Int32
  /// The user ID of the peer at that time.
  public let userID: UInt32
  /// The group ID of the peer at that time.
  public let groupID: UInt32

  /// Creates credentials, for your own tests.
  ///
  /// - Parameters:
  ///   - processID: The process ID.
  ///   - userID: The user ID.
  ///   - groupID: The group ID.
  public init(processID: Int32, userID: UInt32, groupID: UInt32) {
    self.processID = processID
    self.userID = userID
    self.groupID = groupID
  }
}

extension BorrowedDescriptor {
  /// getsockopt(2) of SO_PEERCRED; `nil` if the socket is not a connected unix socket.
  package func peerCredentials() throws(SystemError) -> PeerCredentials? {
    guard try get(.domain) == AF_UNIX else { return nil }
    // The fields of struct ucred: pid_t, uid_t, gid_t.
    let fields = try get(.peerCredentials, atMost: 12)
    guard fields.count == 12 else { return nil }
    let user = UInt32(bitPattern: Int32(kernelBytes: Array(fields[4..<8])))
    if user == .max { return nil }
    return PeerCredentials(
      processID: Int32(kernelBytes: Array(fields[..<4])), userID: user,
      groupID: UInt32(bitPattern: Int32(kernelBytes: Array(fields[8...]))))
  }
}
