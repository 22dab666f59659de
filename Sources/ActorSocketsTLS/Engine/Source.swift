internal import SocketSystem

/// The origin of certificates and keys, as errors name it.
enum Source {
  case file(String)
  case bytes

  /// The name at the beginning of a sentence.
  var name: String {
    switch self {
    case .file(let path): AddressError.quote(path)
    case .bytes: "the bytes given"
    }
  }

  /// The most bytes to read from a file: more than any file of certificates has, and little enough to hold in memory.
  private static let limit = 32 << 20

  /// Returns the contents of the file.
  func read() throws(TLSError) -> [UInt8] {
    guard case .file(let path) = self else { return [] }
    guard !path.isEmpty, !path.utf8.contains(0) else { throw badFile("is not a path") }
    do throws(SystemError) {
      return try Self.contents(of: path)
    } catch {
      switch error.errno {
      case 0: throw badFile("is not a regular file")
      case Errno.messageTooLong: throw badFile("has more than \(Self.limit >> 20) MiB")
      default: throw badFile("cannot be read: \(SystemError.message(error.errno))")
      }
    }
  }

  /// Returns the contents of a file among others; `nil` if it cannot be read.
  ///
  /// - Throws: The error that no descriptor is free.
  func readIfPossible() throws(TLSError) -> [UInt8]? {
    guard case .file(let path) = self, !path.isEmpty, !path.utf8.contains(0) else { return nil }
    do throws(SystemError) {
      return try Self.contents(of: path)
    } catch {
      if error.isShortageOfDescriptors { throw badFile("cannot be read: \(SystemError.message(error.errno))") }
      return nil
    }
  }

  private static func contents(of path: String) throws(SystemError) -> [UInt8] {
    let file = try OwnedDescriptor.openForReading(path)
    guard let size = try file.fileSize() else { throw SystemError(call: "", errno: 0) }
    guard size <= limit else { throw SystemError(call: "", errno: Errno.messageTooLong) }
    var contents: [UInt8] = []
    while contents.count < limit {
      let piece = try file.read(from: contents.count, atMost: 65536)
      if piece.isEmpty { break }
      contents += piece
    }
    return contents
  }

  /// Makes the error of a directory that cannot be read.
  func unreadableDirectory(_ error: SystemError) -> TLSError {
    badFile("cannot be read as a directory: \(SystemError.message(error.errno))")
  }

  /// Makes an error about the source with the code `.badFile`.
  func badFile(_ clause: String, reason: String = "") -> TLSError {
    TLSError(.badFile, detail: "\(name) \(clause)", reason: reason)
  }
}
