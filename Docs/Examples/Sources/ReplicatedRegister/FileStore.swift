import ByteText
import Foundation

/// Keeps an entry in a file.
struct FileStore: EntryStore {
  /// The file has something else than an entry in it. A replica must not begin with nothing then.
  struct Damaged: Error {
    let path: String
  }

  let path: String

  func load() throws -> Entry {
    guard FileManager.default.fileExists(atPath: path) else { return .nothing }
    let text = ByteText(try String(contentsOfFile: path, encoding: .utf8))
    guard text.ends(with: "\n"), let entry = Entry(text.dropLast(1).description) else { throw Damaged(path: path) }
    return entry
  }

  /// Writes another file and gives it the name of the old one, so that a crash leaves one of the two: rename(2).
  func save(_ entry: Entry) throws {
    let new = path + ".new"
    try Data("\(entry)\n".utf8).write(to: URL(fileURLWithPath: new))
    try synchronize(new)
    guard rename(new, path) == 0 else { throw CocoaError(.fileWriteUnknown) }
    // The new name is on the disk when the folder is.
    try synchronize(URL(fileURLWithPath: path).deletingLastPathComponent().path)
  }

  /// Waits until a file or a folder is on the disk: fsync(2).
  private func synchronize(_ path: String) throws {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw CocoaError(.fileWriteUnknown) }
    defer { close(descriptor) }
    if fsync(descriptor) != 0 { throw CocoaError(.fileWriteUnknown) }
  }
}
