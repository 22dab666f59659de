import Glibc

package enum Directory {
  /// Does nothing if something exists at the path: mkdir(2).
  package static func make(_ path: String) throws(SystemError) {
    // SAFETY: the text is valid for the call.
    if unsafe mkdir(path, 0o777) != 0, errno != EEXIST { throw SystemError(call: "mkdir", errno: errno) }
  }

  /// All entries except `.` and `..`, sorted.
  package static func names(in path: String) throws(SystemError) -> [String] {
    // SAFETY: the text is valid for the call; the directory is closed once.
    guard let directory = unsafe opendir(path) else { throw SystemError(call: "opendir", errno: errno) }
    defer { unsafe closedir(directory) }
    return try unsafe names(of: directory).map { String(decoding: $0, as: UTF8.self) }.sorted()
  }

  /// In the order of the directory.
  static func names(of directory: OpaquePointer) throws(SystemError) -> [[UInt8]] {
    var names: [[UInt8]] = []
    // SAFETY: the caller closes the directory later, and each entry is copied before the next is read. Its name ends with a NUL.
    while true {
      errno = 0
      guard let entry = unsafe readdir(directory) else { break }
      let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in unsafe Array(bytes.prefix { $0 != 0 }) }
      if name.elementsEqual(".".utf8) || name.elementsEqual("..".utf8) { continue }
      names.append(name)
    }
    guard errno == 0 else { throw SystemError(call: "readdir", errno: errno) }
    return names
  }
}
