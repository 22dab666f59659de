internal import CLinux
import Glibc

extension Linux {
  package func status(of path: UnixPath, followingLinks: Bool) -> FileStatus? {
    var status = stat()
    // SAFETY: the path and `status` are valid for the call.
    let result = unsafe path.withFileName { unsafe followingLinks ? stat($0, &status) : lstat($0, &status) }
    return result == 0 ? FileStatus(status) : nil
  }

  package func hold(_ path: UnixPath) throws(SystemError) -> HeldFile? {
    // SAFETY: the path is valid for the call.
    let number = unsafe path.withFileName { path in
      Int32(clamping: retryingInterrupts { Int(unsafe clinux_open_path(path)) })
    }
    if number == -ENOENT { return nil }
    let descriptor = try OwnedDescriptor(new: try check(number, "open"))
    let status = FileStatus(try status(of: descriptor.number))
    return HeldFile(descriptor: descriptor, status: status)
  }

  func status(of number: Int32) throws(SystemError) -> stat {
    var status = stat()
    // SAFETY: `status` is valid for the call.
    try check(Self.result(unsafe fstat(number, &status)), "fstat")
    return status
  }

  package func openDirectory(_ path: UnixPath) -> Int32 {
    // SAFETY: the path is valid for the call.
    let number = unsafe path.withFileName { path in
      retryingInterrupts { Int(Self.result(unsafe open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC))) }
    }
    return Self.aboveStandardStreams(Int32(clamping: number))
  }

  package func setPermissions(of number: Int32, to permissions: UInt16) -> Int32 {
    Self.result(fchmod(number, mode_t(permissions)))
  }

  package func probe(_ path: UnixPath) throws(SystemError) -> Int32 {
    let number = try check(socket(family: AF_UNIX, type: Int32(SOCK_DGRAM.rawValue)), "socket")
    defer { close(number) }
    return connect(number, to: .unix(path))
  }

  package func unlink(_ path: UnixPath) -> Int32 {
    // SAFETY: the path is valid for the call.
    Self.result(unsafe path.withFileName { unsafe Glibc.unlink($0) })
  }

  package func absolute(_ path: UnixPath) -> UnixPath { path.absolute }
}
