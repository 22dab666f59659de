public import SocketSystem

/// An open file that ``ByteStream/sendFile(_:range:timeout:progress:)`` sends from.
///
/// It can be sent any number of times, also to several streams at once, because sending does not use the file's position. It is
/// closed when the last reference is dropped; a send in progress keeps a reference.
public final class FileSource: Sendable {
  let descriptor: OwnedDescriptor

  /// Opens a file: open(2), which may block.
  ///
  /// - Parameter path: The path of the file.
  /// - Throws: ``SocketError``: `.pathNotFound`, `.permissionDenied`, and other errors of open(2); `.invalidArgument` if it is not a
  ///   regular file, or if fstat(2) does not report the size of its contents, as for files in /proc and /sys.
  public convenience init(path: String) throws {
    try self.init(opening(path, OwnedDescriptor.openForReading))
  }

  /// Takes ownership of an open file.
  ///
  /// - Parameter descriptor: The file, open for reading. It is closed with this object, even if this initializer throws.
  /// - Throws: ``SocketError``: `.invalidArgument` if it is not a regular file, or if fstat(2) does not report the size of its contents, as
  ///   for files in /proc and /sys.
  public init(_ descriptor: consuming OwnedDescriptor) throws {
    self.descriptor = descriptor
    _ = try count
  }

  /// The current size of the file in bytes: fstat(2).
  ///
  /// Throws ``SocketError`` if fstat(2) fails or the file is not one that can be sent.
  public var count: Int {
    get throws {
      let size: ContentSize
      do throws(SystemError) {
        size = try descriptor.contentSize()
      } catch {
        throw SocketError(error, operation: "sendFile")
      }
      switch size {
      case .known(let count): return count
      case .notAFile: throw SocketError.invalid("sendFile", "only a regular file can be sent")
      case .unknown:
        throw SocketError.invalid(
          "sendFile",
          "only reading tells the size of this file, as of those in /proc and /sys; read it, and write its bytes")
      }
    }
  }

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

/// Opens a file of the program, for a `FileSource` or a `FileSink`.
func opening(_ path: String, _ open: (String) throws(SystemError) -> OwnedDescriptor) throws(SocketError)
  -> OwnedDescriptor
{
  if path.utf8.contains(0) { throw .invalid("open", "a path has no NUL in it") }
  do throws(SystemError) {
    return try open(path)
  } catch {
    throw SocketError(error, operation: "open \(AddressError.quote(path))")
  }
}
