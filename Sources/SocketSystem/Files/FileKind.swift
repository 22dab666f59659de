import Glibc

/// The kind of file that a path or a descriptor leads to: inode(7).
package enum FileKind: Hashable, Sendable, CustomStringConvertible {
  case socket, directory, regularFile, symbolicLink, pipe, device, other

  package var description: String {
    switch self {
    case .socket: "a socket"
    case .directory: "a directory"
    case .regularFile: "a regular file"
    case .symbolicLink: "a symbolic link"
    case .pipe: "a pipe"
    case .device: "a device"
    // For example an eventfd or an epoll instance.
    case .other: "something else"
    }
  }

  /// stat(2), or lstat(2) for a link itself; `nil` if the call fails.
  package init?(at path: UnixPath, followingLinks: Bool) {
    guard let status = CurrentSystem.calls.status(of: path, followingLinks: followingLinks) else { return nil }
    self = status.kind
  }

  package init(of number: Int32) throws(SystemError) {
    self.init(mode: try Linux().status(of: number).st_mode)
  }

  init(mode: mode_t) {
    self =
      switch mode & S_IFMT {
      case S_IFSOCK: .socket
      case S_IFDIR: .directory
      case S_IFREG: .regularFile
      case S_IFLNK: .symbolicLink
      case S_IFIFO: .pipe
      case S_IFCHR, S_IFBLK: .device
      default: .other
      }
  }
}
