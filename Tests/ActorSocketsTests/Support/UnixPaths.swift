import ActorSockets
import Glibc
import SocketSystem
import TestSupport

/// A folder of its own for the unix sockets of a test, which goes with all that is in it.
final class SocketFolder: Sendable {
  let path: String

  init() throws {
    path = "/tmp/actorsockets-\(getpid())-\(UInt32.random(in: 0 ... .max))"
    // SAFETY: the text is valid for the call.
    if unsafe mkdir(path, 0o777) != 0 { throw SystemError(call: "mkdir", errno: errno) }
  }

  deinit {
    // SAFETY: the texts are valid for the calls.
    for name in names { if unsafe unlink("\(path)/\(name)") != 0 { unsafe rmdir("\(path)/\(name)") } }
    unsafe rmdir(path)
  }

  /// A path in it.
  func callAsFunction(_ name: String = "socket") -> String { "\(path)/\(name)" }

  /// The names of the files in it.
  var names: [String] {
    // SAFETY: the directory is used until it is closed, once; the names in entries end with a NUL.
    guard let directory = unsafe opendir(path) else { return [] }
    defer { unsafe closedir(directory) }
    var names: [String] = []
    while let entry = unsafe readdir(directory) {
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
        unsafe pointer.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      if name != ".", name != ".." { names.append(name) }
    }
    return names
  }
}

extension RawSocket {
  /// A socket of any kind that is bound to a path, and does nothing else.
  static func bound(to path: String, type: __socket_type = SOCK_STREAM) throws -> RawSocket {
    let raw = RawSocket(owning: socket(AF_UNIX, Int32(type.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0))
    try BorrowedDescriptor(raw.number).bind(to: .unix(UnixPath(parsing: path)))
    return raw
  }
}

/// What lstat(2) says of a path.
struct FileFacts: Equatable {
  let inode: UInt64
  let mode: UInt32

  /// `nil` if nothing is there.
  init?(_ path: String) {
    var status = stat()
    // SAFETY: the text and `status` are valid for the call.
    guard unsafe lstat(path, &status) == 0 else { return nil }
    inode = UInt64(status.st_ino)
    mode = status.st_mode
  }

  var permissions: UInt32 { mode & 0o7777 }
}
