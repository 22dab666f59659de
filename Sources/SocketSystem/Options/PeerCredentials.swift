import Glibc

/// Who is at the other end of a unix socket: SO_PEERCRED, unix(7).
///
/// The kernel took them down when the peer connected, listened or made the pair; what became of the peer since does not
/// show. So the user and the group can be relied on, while the process may have ended, another one may have its number by
/// now, and it may have given its end to another.
public struct PeerCredentials: Hashable, Sendable {
  /// The process; 0 if it is not in a process namespace that this one can see.
  public let processID: Int32
  /// The user that it acted as.
  public let userID: UInt32
  /// The group that it acted as.
  public let groupID: UInt32

  /// Credentials, for tests of one's own.
  ///
  /// - Parameters:
  ///   - processID: The process.
  ///   - userID: The user that it acts as.
  ///   - groupID: The group that it acts as.
  public init(processID: Int32, userID: UInt32, groupID: UInt32) {
    self.processID = processID
    self.userID = userID
    self.groupID = groupID
  }
}

extension Socket {
  /// getsockopt(2) SO_PEERCRED; `nil` for a socket that is not a connected unix socket.
  package func peerCredentials() throws(SystemError) -> PeerCredentials? {
    guard try get(.domain) == AF_UNIX else { return nil }
    // struct ucred: pid_t, uid_t, gid_t.
    var credentials: (Int32, UInt32, UInt32) = (0, .max, .max)
    var size = socklen_t(MemoryLayout.size(ofValue: credentials))
    // SAFETY: the option writes a struct ucred, which has the layout of `credentials`, and no more than `size`.
    _ = try check(unsafe getsockopt(number, SOL_SOCKET, SO_PEERCRED, &credentials, &size), "getsockopt")
    if credentials.1 == .max { return nil }
    return PeerCredentials(processID: credentials.0, userID: credentials.1, groupID: credentials.2)
  }
}
