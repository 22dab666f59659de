import Foundation
import Glibc
import Testing

/// The number of epoll instances of this process that watch the file of a descriptor: proc_pid_fdinfo(5).
func epollsWatching(_ number: Int32) throws -> Int {
  var status = stat()
  // SAFETY: the call writes one struct.
  try #require(unsafe fstat(number, &status) == 0)
  let inode = "ino:" + String(status.st_ino, radix: 16)
  let folder = "/proc/self/fdinfo"
  return try FileManager.default.contentsOfDirectory(atPath: folder).count { name in
    // A descriptor may have been closed meanwhile.
    let text = (try? String(contentsOfFile: "\(folder)/\(name)", encoding: .utf8)) ?? ""
    return text.split(separator: "\n").contains {
      $0.hasPrefix("tfd:") && $0.split(separator: " ").contains(inode[...])
    }
  }
}
