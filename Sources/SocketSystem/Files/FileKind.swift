import Glibc

/// What a path or a descriptor leads to, for sentences and for the decision whether it is a socket: inode(7).
package enum FileKind: Hashable, Sendable, CustomStringConvertible {
  case socket, directory, regularFile, symbolicLink, pipe, device, other

  /// With its article, as in "a directory".
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

  /// What a path leads to: stat(2), or lstat(2) for the last link itself; `nil` if that cannot be found out.
  package init?(at path: String, followingLinks: Bool) {
    var status = stat()
    // SAFETY: the text and `status` are valid for the call.
    let result = unsafe followingLinks ? stat(path, &status) : lstat(path, &status)
    if result != 0 { return nil }
    self.init(mode: status.st_mode)
  }

  /// What a descriptor leads to: fstat(2).
  package init(of number: Int32) throws(SystemError) {
    var status = stat()
    // SAFETY: `status` is valid for the call.
    _ = try check(unsafe fstat(number, &status), "fstat")
    self.init(mode: status.st_mode)
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
