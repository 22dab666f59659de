import Glibc

/// The file that bind(2) made for a unix socket, told from a later one of the same path: stat(2).
package struct UnixSocketFile: Sendable {
  private let path: String
  private let device: UInt64
  private let inode: UInt64

  /// The file of a socket that was just bound; `nil` for other addresses and abstract names.
  package init?(_ address: SocketAddress) {
    guard case .unix(let path) = address, !path.isAbstract, !path.isUnnamed else { return nil }
    self.path = path.description
    guard let (device, inode) = Self.identify(self.path) else { return nil }
    self.device = device
    self.inode = inode
  }

  /// unlink(2), unless the path is another socket's by now.
  package func remove() {
    guard let (device, inode) = Self.identify(path), device == self.device, inode == self.inode else { return }
    // SAFETY: the text is valid for the call.
    _ = unsafe unlink(path)
  }

  private static func identify(_ path: String) -> (device: UInt64, inode: UInt64)? {
    var status = stat()
    // SAFETY: `status` is valid for the call.
    guard unsafe lstat(path, &status) == 0 else { return nil }
    return (UInt64(status.st_dev), UInt64(status.st_ino))
  }
}
