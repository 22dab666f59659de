internal import SocketSystem

/// Where certificates and keys come from, for the sentences of errors.
enum Source {
  case file(String)
  case bytes

  /// What to call it in a sentence that begins with it.
  var name: String {
    switch self {
    case .file(let path): AddressError.quote(path)
    case .bytes: "the bytes given"
    }
  }

  /// More than any file of certificates has, less than would hurt.
  private static let limit = 32 << 20

  /// The contents of the file.
  func read() throws(TLSError) -> [UInt8] {
    guard case .file(let path) = self else { return [] }
    guard !path.isEmpty, !path.utf8.contains(0) else { throw badFile("is not a path") }
    do throws(SystemError) {
      let file = try Descriptor.openForReading(path)
      guard let size = try file.fileSize() else { throw SystemError(call: "", errno: 0) }
      guard size <= Self.limit else { throw SystemError(call: "", errno: Errno.messageTooLong) }
      var contents: [UInt8] = []
      while contents.count < Self.limit {
        let piece = try file.read(from: contents.count, atMost: 65536)
        if piece.isEmpty { break }
        contents += piece
      }
      return contents
    } catch {
      switch error.errno {
      case 0: throw badFile("is not a regular file")
      case Errno.messageTooLong: throw badFile("has more than \(Self.limit >> 20) MiB")
      default: throw badFile("cannot be read: \(SystemError.message(error.errno))")
      }
    }
  }

  /// An error of the code `.badFile` about it.
  func badFile(_ clause: String, reason: String = "") -> TLSError {
    TLSError(.badFile, detail: "\(name) \(clause)", reason: reason)
  }
}
