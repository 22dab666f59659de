import ActorSockets
import Foundation
import Glibc

/// A file for one test, which goes when the test ends.
final class TemporaryFile: Sendable {
  let path: String

  init(_ bytes: [UInt8] = []) throws {
    let url = FileManager.default.temporaryDirectory.appendingPathComponent("sockets-\(UUID().uuidString)")
    try Data(bytes).write(to: url)
    path = url.path
  }

  // SAFETY (here and below): the text is valid for the call.
  deinit { unsafe unlink(path) }

  var source: FileSource { get throws { try FileSource(path: path) } }

  /// Makes it shorter, or longer by a hole.
  func truncate(to count: Int) { unsafe Glibc.truncate(path, count) }

  /// Writes in the middle.
  func write(_ bytes: [UInt8], at offset: Int) throws {
    let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
    try handle.seek(toOffset: UInt64(offset))
    try handle.write(contentsOf: Data(bytes))
    try handle.close()
  }
}
