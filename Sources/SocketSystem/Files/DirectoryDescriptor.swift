import Glibc

/// Whether a call that opens a file creates it.
public enum FileCreation: Hashable, Sendable {
  /// The file exists already.
  case never
  /// The file is created if it does not exist.
  case ifMissing
  /// The file must not exist, and is created: O_EXCL.
  case exclusive

  fileprivate var flags: Int32 {
    switch self {
    case .never: 0
    case .ifMissing: O_CREAT
    case .exclusive: O_CREAT | O_EXCL
    }
  }
}

/// The calls that find a file from an open directory: openat(2) and its relatives. A directory that is renamed stays the same directory.
extension OwnedDescriptor {
  package static func openDirectory(_ path: String) throws(SystemError) -> OwnedDescriptor {
    // SAFETY: the text is valid for the call.
    let result = Linux.retried { unsafe open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
    return try OwnedDescriptor(new: try check(result, "open"))
  }

  package borrowing func openDirectory(_ path: String) throws(SystemError) -> OwnedDescriptor {
    let number = self.number
    // SAFETY: the text is valid for the call.
    let result = Linux.retried { unsafe openat(number, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
    return try OwnedDescriptor(new: try check(result, "open"))
  }

  /// Opens a file for reading and writing. Opening a pipe does not wait.
  package borrowing func openFile(_ path: String, _ creation: FileCreation, permissions: UInt16)
    throws(SystemError) -> OwnedDescriptor
  {
    let flags = O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | creation.flags
    let number = self.number
    // SAFETY: the text is valid for the call.
    let result = Linux.retried { unsafe openat(number, path, flags, mode_t(permissions)) }
    return try OwnedDescriptor(new: try check(result, "open"))
  }

  /// renameat(2).
  package borrowing func rename(_ path: String, to new: String) throws(SystemError) {
    // SAFETY: both texts are valid for the call.
    _ = try check(Linux.result(unsafe renameat(number, path, number, new)), "rename")
  }

  /// Removes a file or an empty directory: unlinkat(2).
  package borrowing func remove(_ path: String) throws(SystemError) {
    // SAFETY: the text is valid for the call.
    let result = Linux.result(unsafe unlinkat(number, path, 0))
    if result != -EISDIR { return _ = try check(result, "unlink") }
    // SAFETY: the text is valid for the call.
    _ = try check(Linux.result(unsafe unlinkat(number, path, AT_REMOVEDIR)), "rmdir")
  }

  /// mkdirat(2).
  package borrowing func makeDirectory(_ path: String, permissions: UInt16) throws(SystemError) {
    // SAFETY: the text is valid for the call.
    _ = try check(Linux.result(unsafe mkdirat(number, path, mode_t(permissions))), "mkdir")
  }

  /// All entries except `.` and `..`, in the order of their bytes. It moves the position of this directory.
  package borrowing func names() throws(SystemError) -> [[UInt8]] {
    let copy = try OwnedDescriptor(duplicating: number)
    // SAFETY: the directory takes over the descriptor, and both are closed once.
    guard let directory = unsafe fdopendir(copy.number) else { throw SystemError(call: "fdopendir", errno: errno) }
    _ = copy.release()
    defer { unsafe closedir(directory) }
    return try unsafe Directory.names(of: directory).sorted { $0.lexicographicallyPrecedes($1) }
  }
}
