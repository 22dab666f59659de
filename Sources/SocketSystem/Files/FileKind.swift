import Glibc

/// The kind of file that a path or a descriptor leads to: inode(7). It appears in error messages, and decides whether
/// something is a socket.
package enum FileKind: Hashable, Sendable, CustomStringConvertible {
  case socket, directory, regularFile, symbolicLink, pipe, device, other

  /// The kind with its article, for example "a directory".
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

  /// Creates the kind of the file at a path: stat(2), or lstat(2) for a link itself. Returns `nil` if the call fails.
  package init?(at path: UnixPath, followingLinks: Bool) {
    if let simulation = SimulatedDescriptors.system, simulation.hasSocketFiles {
      // A simulation has no other files.
      guard simulation.inode(of: path) != nil else { return nil }
      self = .socket
      return
    }
    self.init(ofFileAt: path, followingLinks: followingLinks)
  }

  /// Creates the kind of the file at a path as `init(at:followingLinks:)` does, of a file of Linux even in a simulation.
  init?(ofFileAt path: UnixPath, followingLinks: Bool) {
    var status = stat()
    // SAFETY: the path and `status` are valid for the call.
    let result = unsafe path.withFileName { unsafe followingLinks ? stat($0, &status) : lstat($0, &status) }
    if result != 0 { return nil }
    self.init(mode: status.st_mode)
  }

  /// Creates the kind of the file behind a descriptor: fstat(2).
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
