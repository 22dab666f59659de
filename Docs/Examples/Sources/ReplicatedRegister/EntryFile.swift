import ActorSockets
import ByteText

/// Keeps an entry in a file of a disk. A crash leaves the old entry or the new one.
struct EntryFile: Sendable {
  /// The file has something else than an entry in it. A replica must not begin with nothing then.
  struct Damaged: Error {
    let path: String
  }

  let disk: any Disk
  var path = "entry"

  /// Returns the entry that was saved last; `Entry.nothing` before the first. It is on the disk.
  func load() async throws -> Entry {
    let bytes: [UInt8]
    do {
      bytes = try await disk.read(path, maximumLength: Entry.longestLine)
      // If the program was killed while it saved, the name may not be on the disk yet, and a power failure could take the entry back.
      try await disk.synchronizeDirectory("")
    } catch let error as SocketError where error.code == .pathNotFound {
      return .nothing
    } catch let error as SocketError where error.code == .limitExceeded {
      throw Damaged(path: path)
    }
    guard let text = ByteText(validating: bytes), text.ends(with: "\n"), let entry = Entry(text.dropLast(1).description)
    else { throw Damaged(path: path) }
    return entry
  }

  /// Saves an entry. When this returns, it is on the disk. If it throws, the old one or the new one is. Make one call after the other.
  func save(_ entry: Entry) async throws { try await disk.replace(path, with: Array("\(entry)\n".utf8)) }
}
