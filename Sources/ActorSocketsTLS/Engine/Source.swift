internal import ActorSockets
internal import EpollReactor
internal import SocketSystem

enum Source {
  case file(String)
  case bytes

  var name: String {
    switch self {
    case .file(let path): AddressError.quote(path)
    case .bytes: "the bytes given"
    }
  }

  /// More than any file of certificates has, and little enough to hold in memory.
  private static let limit = 32 << 20

  /// A pipe is read up to its end. The calling thread waits for it for up to `pipeTimeout`; a reactor's thread does not wait.
  func read(pipeTimeout: Duration = .seconds(10)) throws(TLSError) -> [UInt8] {
    guard case .file(let path) = self else { return [] }
    guard !path.isEmpty, !path.utf8.contains(0) else { throw badFile("is not a path") }
    do throws(SystemError) {
      return try Self.contents(of: path, pipeTimeout: pipeTimeout)
    } catch {
      switch error.errno {
      case 0: throw badFile("is not a regular file or a pipe")
      case Errno.messageTooLong: throw badFile("has more than \(Self.limit >> 20) MiB")
      case Errno.timedOut: throw badFile("is a pipe that did not end in \(pipeTimeout)")
      case Errno.wouldBlock:
        throw badFile("is a pipe that has not ended yet, and a reactor's thread must not wait for it")
      default: throw badFile("cannot be read: \(SystemError.message(error.errno))")
      }
    }
  }

  /// Returns `nil` if the file cannot be read; throws only if no descriptor is free.
  func readIfPossible() throws(TLSError) -> [UInt8]? {
    guard case .file(let path) = self, !path.isEmpty, !path.utf8.contains(0) else { return nil }
    do throws(SystemError) {
      return try Self.contents(of: path)
    } catch {
      if error.isShortageOfDescriptors { throw badFile("cannot be read: \(SystemError.message(error.errno))") }
      return nil
    }
  }

  private static func contents(of path: String, pipeTimeout: Duration? = nil) throws(SystemError) -> [UInt8] {
    let file = try OwnedDescriptor.openForReading(path)
    if let pipeTimeout, try file.isPipe() { return try readPipe(file, pipeTimeout) }
    guard let size = try file.fileSize() else { throw SystemError(call: "", errno: 0) }
    guard size <= limit else { throw SystemError(call: "", errno: Errno.messageTooLong) }
    var contents: [UInt8] = []
    // The file may have become longer, and those in /proc say that they are empty.
    while contents.count <= limit {
      let piece = try file.read(from: contents.count, atMost: 65536)
      if piece.isEmpty { return contents }
      contents += piece
    }
    throw SystemError(call: "", errno: Errno.messageTooLong)
  }

  func unreadableDirectory(_ error: SystemError) -> TLSError {
    badFile("cannot be read as a directory: \(SystemError.message(error.errno))")
  }

  private static func readPipe(_ file: borrowing OwnedDescriptor, _ timeout: Duration) throws(SystemError) -> [UInt8] {
    let end = instant(continuousNanoseconds(), plus: timeout.clampedNanoseconds)
    var contents: [UInt8] = []
    var hasWaited = false
    while contents.count <= limit {
      let piece = try file.readPipe(atMost: 65536)
      if let piece, !piece.isEmpty {
        contents += piece
        continue
      }
      // No bytes mean the end. There are also no bytes in a pipe that was opened by its name, until its writer has opened it.
      if piece != nil, hasWaited || !contents.isEmpty { return contents }
      guard !Reactor.isOnThread else { throw SystemError(call: "read", errno: Errno.wouldBlock) }
      let milliseconds = (end - continuousNanoseconds()) / 1_000_000
      guard milliseconds > 0 else { throw SystemError(call: "poll", errno: Errno.timedOut) }
      hasWaited = try file.waitForInput(milliseconds: Int32(clamping: milliseconds))
    }
    throw SystemError(call: "read", errno: Errno.messageTooLong)
  }

  func badFile(_ clause: String, reason: String = "") -> TLSError {
    TLSError(.badFile, detail: "\(name) \(clause)", reason: reason)
  }
}
