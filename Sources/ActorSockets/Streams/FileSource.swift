public import SocketSystem

/// An open file that ``ByteStream/sendFile(_:range:timeout:progress:)`` sends from.
///
/// It can be sent any number of times, to several streams at once, for its position is not used. It is closed when nobody
/// holds it any more; a send that is under way does.
public final class FileSource: Sendable {
  let descriptor: OwnedDescriptor

  /// Opens a file: open(2), which may block.
  ///
  /// - Parameter path: Where it is.
  /// - Throws: ``SocketError``: what open(2) reports, `.invalidArgument` if it is no regular file.
  public convenience init(path: String) throws {
    if path.utf8.contains(0) { throw SocketError.invalid("open", "a path has no NUL in it") }
    let descriptor: OwnedDescriptor
    do throws(SystemError) {
      descriptor = try OwnedDescriptor.openForReading(path)
    } catch {
      throw SocketError(error, operation: "open \(AddressError.quote(path))")
    }
    try self.init(descriptor)
  }

  /// Takes an open file over.
  ///
  /// - Parameter descriptor: The file, open for reading.
  /// - Throws: ``SocketError``: `.invalidArgument` if it is no regular file; it is closed then.
  public init(_ descriptor: consuming OwnedDescriptor) throws {
    self.descriptor = descriptor
    _ = try count
  }

  /// The number of bytes that the file has now: fstat(2).
  ///
  /// Throws ``SocketError`` if the file cannot be asked, or is no regular file.
  public var count: Int {
    get throws {
      do throws(SystemError) {
        if let count = try descriptor.fileSize() { return count }
      } catch {
        throw SocketError(error, operation: "sendFile")
      }
      throw SocketError.invalid("sendFile", "only a regular file can be sent")
    }
  }

  /// The range if the file has it, or all there is.
  func checked(_ range: Range<Int>?) throws -> Range<Int> {
    let count = try count
    guard let range else { return 0..<count }
    if range.lowerBound < 0 || range.upperBound > count {
      throw SocketError.invalid(
        "sendFile", "the bytes from \(range.lowerBound) to \(range.upperBound) of a file that has \(count)")
    }
    return range
  }
}

extension StreamCore {
  /// Sends a part of a file; false when nothing can be sent now.
  func send(_ file: FileSource, from offset: Int, count: Int) -> Bool {
    // One share at a time, because reading the file may block.
    switch transport.send(file: file, from: offset, count: min(count, writes.share.bytes)) {
    case .transfer(let result): return note(sent: result)
    case .unreadable(let error): fileFailed(error)
    }
    return true
  }

  /// The first write is of a file that cannot be read any more.
  private func fileFailed(_ cause: SystemError?) {
    let error =
      cause.map { SocketError($0, operation: "sendFile") }
      ?? SocketError(.system, operation: "sendFile", detail: "the file has become shorter than what was to be sent")
    // If nothing of it is sent, nothing is torn.
    if let first = writes.queue.first, first.sent == 0, let (write, _) = writes.queue.remove(first.id) {
      return finish(write, .failure(error))
    }
    terminate(error, .error(error))
  }
}
