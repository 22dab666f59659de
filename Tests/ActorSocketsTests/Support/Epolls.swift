import Foundation
import Glibc
import Testing

/// The number of epoll instances of this process that watch the file of a descriptor: proc_pid_fdinfo(5).
func epollsWatching(_ number: Int32) throws -> Int { try epollEvents(of: number).count }

/// The events that each epoll of this process reports of the descriptor's file.
func epollEvents(of number: Int32) throws -> [UInt32] {
  var status = stat()
  // SAFETY: the call writes one struct.
  try #require(unsafe fstat(number, &status) == 0)
  let inode = "ino:" + String(status.st_ino, radix: 16)
  let folder = "/proc/self/fdinfo"
  return try FileManager.default.contentsOfDirectory(atPath: folder).compactMap { name in
    // A descriptor may have been closed meanwhile.
    let text = (try? String(contentsOfFile: "\(folder)/\(name)", encoding: .utf8)) ?? ""
    let words = text.split(separator: "\n").lazy.map { $0.split(separator: " ") }
    guard let words = words.first(where: { $0.first == "tfd:" && $0.contains(inode[...]) }),
      let index = words.firstIndex(of: "events:"), index + 1 < words.count
    else { return nil }
    return UInt32(words[index + 1], radix: 16)
  }
}
