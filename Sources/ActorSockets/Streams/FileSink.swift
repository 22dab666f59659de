public import SocketSystem

/// An open file that ``ByteStream/receiveFile(_:at:count:timeout:progress:)`` writes to.
///
/// ```swift
/// let file = try FileSink(path: "download.part")
/// let offset = try file.count  // what an earlier attempt has received
/// try await connection.write(utf8: "GET \(name) FROM \(offset)\n")
/// try await connection.receiveFile(file, at: offset)
/// try await file.synchronize()
/// ```
///
/// The file is closed when the last reference is dropped. Its position is not used, so several streams can write different parts of it.
public final class FileSink: Sendable {
  let descriptor: OwnedDescriptor

  /// Opens a file for writing: open(2), which may block. It is created if it does not exist. Its contents are kept.
  ///
  /// - Parameters:
  ///   - path: The path of the file.
  ///   - permissions: The permission bits of a new file, of which the umask removes some.
  /// - Throws: ``SocketError``: `.pathNotFound`, `.permissionDenied`, and other errors of open(2); `.invalidArgument` if it is not a
  ///   regular file.
  public convenience init(path: String, permissions: UInt16 = 0o644) throws {
    try self.init(
      opening(path) { path throws(SystemError) in
        try OwnedDescriptor.openForWriting(path, permissions: permissions)
      })
  }

  /// Takes ownership of an open file.
  ///
  /// - Parameter descriptor: The file, open for writing. It is closed with this object, even if this initializer throws.
  /// - Throws: ``SocketError``: `.invalidArgument` if it is not a regular file.
  public init(_ descriptor: consuming OwnedDescriptor) throws {
    self.descriptor = descriptor
    _ = try count
  }

  /// The current size of the file in bytes: fstat(2).
  ///
  /// Throws ``SocketError`` if fstat(2) fails.
  public var count: Int {
    get throws {
      let size: Int?
      do throws(SystemError) {
        size = try descriptor.fileSize()
      } catch {
        throw SocketError(error, operation: "receiveFile")
      }
      guard let size else { throw SocketError.invalid("receiveFile", "only a regular file can be written to") }
      return size
    }
  }

  /// Sets the size of the file: ftruncate(2), on a thread of Swift's pool.
  ///
  /// *Cancellation* has no effect.
  ///
  /// - Parameter size: The new size in bytes, at least 0. The file ends there; what is added is zero.
  /// - Throws: ``SocketError``.
  @concurrent
  public func truncate(to size: Int) async throws {
    do throws(SystemError) {
      try descriptor.truncate(to: size)
    } catch {
      throw SocketError(error, operation: "truncate")
    }
  }

  /// Waits until the contents are on the disk: fsync(2), on a thread of Swift's pool.
  ///
  /// *Cancellation* has no effect.
  ///
  /// - Throws: ``SocketError``. After an error, parts of the contents may be missing on the disk, even if a later call succeeds.
  @concurrent
  public func synchronize() async throws {
    do throws(SystemError) {
      try descriptor.synchronize()
    } catch {
      throw SocketError(error, operation: "synchronize")
    }
  }

  /// Not on the reactor's thread, because the disk may be slow. Cancellation has no effect. Returns how many bytes were written.
  @concurrent
  fileprivate func write(_ bytes: [UInt8], at offset: Int) async -> (count: Int, error: SystemError?) {
    descriptor.write(bytes, at: offset)
  }
}

extension ByteStream {
  /// Receives bytes into a file, without holding more than 256 KiB of them in memory.
  ///
  /// The file is written on a thread of Swift's pool. While the disk is slow, nothing is received, so the peer has to wait.
  ///
  /// *Errors*: ``SocketError/bytesTransferred`` of each error is the number of bytes that are in the file. If the stream ends before
  /// `count` bytes have arrived, the call throws `.endOfStream`. It throws the same, also without a `count`, if a drain has ended the idle
  /// reads (see ``Drain/IdleReads``), because the peer may have had more to send. If the file cannot be written, up to 256 KiB that were
  /// received for it are lost, so end the connection then.
  ///
  /// *Cancellation* and timeouts end the call; whatever has been received for the file is written to it before.
  ///
  /// *Ordering*: each piece is one read, in order with the other reads.
  ///
  /// - Parameters:
  ///   - file: The file.
  ///   - offset: Where the bytes go, counted from the beginning of the file; at least 0.
  ///   - count: The number of bytes, at least 0; `nil` to receive until the peer has finished.
  ///   - timeout: The longest time to wait for each piece, or with ``Timeout/until(_:)`` for all of them. `nil` means no limit.
  ///   - progress: Called with the number of bytes that are in the file, after each piece.
  /// - Returns: The number of bytes that were received.
  /// - Throws: ``SocketError``, and `CancellationError` if the task is cancelled.
  @discardableResult
  public nonisolated(nonsending) func receiveFile(
    _ file: FileSink, at offset: Int = 0, count: Int? = nil, timeout: Timeout? = nil,
    progress: ((_ count: Int) -> Void)? = nil
  ) async throws -> Int {
    guard offset >= 0, (count ?? 0) >= 0, !offset.addingReportingOverflow(count ?? 0).overflow else {
      throw SocketError.invalid("receiveFile", "\(count ?? 0) bytes at \(offset) are not a part of a file")
    }
    let piece = 1 << 18
    var received = 0
    do {
      while received < count ?? .max {
        let limit = min(piece, (count ?? .max) - received)
        guard let bytes = try await read(upTo: limit, timeout: timeout) else {
          try await checkEndIsOfPeer("receiveFile")
          if count == nil { break }
          throw SocketError(.endOfStream, operation: "receiveFile")
        }
        let (written, error) = await file.write(bytes, at: offset + received)
        received += written
        if let error { throw SocketError(error, operation: "receiveFile") }
        progress?(received)
      }
      return received
    } catch var error as SocketError {
      error.bytesTransferred = received
      throw error
    }
  }
}
