internal import SocketSystem

/// A file that records what connections carry, for Wireshark and tshark: pcapng.
///
/// ```swift
/// let capture = try PacketCapture(path: "trouble.pcapng")
/// configuration.capture = capture
/// …
/// try await capture.finish()
/// ```
///
/// Any number of connections can share a capture, on any reactors. The file holds the bytes of each connection as TCP packets with
/// real times and addresses. With TLS, it holds the bytes before encryption and after decryption: anyone who can read the file can
/// read everything, passwords included. Only the file's owner may read it.
///
/// A thread of its own writes the file, so a slow disk delays no connection. If the disk is too slow or fails, whole packets are
/// missing in the file, never bytes on the connection: see ``droppedPackets``. Connections and their configurations hold references
/// to the capture. Dropping the last reference also writes what remains and closes the file, but nothing waits for that.
public final class PacketCapture: Sendable {
  private let file: BackgroundFile
  private let path: String
  private let waiters = Locked(CaptureWaiters())

  private static let smallestFile = 4_096
  private static let smallestBuffer = 131_072

  /// Creates the file: open(2), which may block. Opening a named pipe waits for its reader.
  ///
  /// - Parameters:
  ///   - path: The path of the file. It gets the permissions 0600.
  ///   - replacing: Whether a file that exists is replaced by a new one; a pipe or device is opened as it is. Otherwise it is an
  ///     error. A symbolic link to a file is an error in either case, because another user may have put it there.
  ///   - maximumFileSize: The largest number of bytes of the file, at least 4,096. The packet that would exceed it, and all
  ///     later ones, are not recorded.
  ///   - bufferSize: The largest number of bytes that may wait for the disk, at least 131,072. A packet that does not fit is
  ///     dropped.
  /// - Throws: ``SocketError``: the error of open(2), `.pathExists` if the file exists; `.invalidArgument`.
  public init(
    path: String, replacing: Bool = false, maximumFileSize: Int = 1 << 30, bufferSize: Int = 8 << 20
  ) throws {
    if path.utf8.contains(0) { throw SocketError.invalid("capture", "a path has no NUL in it") }
    guard maximumFileSize >= Self.smallestFile, bufferSize >= Self.smallestBuffer else {
      throw SocketError.invalid(
        "capture", "a capture needs \(Self.smallestFile) bytes of a file and \(Self.smallestBuffer) bytes of a buffer")
    }
    self.path = path
    let trailer = CaptureBlock.statistics(recorded: 0, dropped: 0, at: 0)
    do throws(SystemError) {
      file = try BackgroundFile(
        path: path, replacing: replacing, bufferSize: bufferSize, fileSize: maximumFileSize - trailer.count,
        header: CaptureBlock.header,
        trailer: { CaptureBlock.statistics(recorded: $0.kept, dropped: $0.dropped, at: realtimeNanoseconds()) })
    } catch {
      throw Self.error(error, path)
    }
  }

  /// The number of packets that are in the file or wait to be written.
  public var recordedPackets: Int { file.report.kept }

  /// The number of packets that are not in the file, because the disk was too slow, the file had reached its largest size, or
  /// writing failed. A complete file has this number, too: isb_ifdrop.
  public var droppedPackets: Int { file.report.dropped }

  /// Whether the file has reached its largest size. Nothing more is recorded then.
  public var hasReachedMaximumSize: Bool { file.report.hasReachedFileSize }

  /// The first error of write(2), for example because the disk is full. Nothing more is recorded then. `nil` if no
  /// write has failed.
  public var error: SocketError? { file.report.failure.map { Self.error($0, path) } }

  /// Ends recording, waits until everything is written, and closes the file: close(2).
  ///
  /// Bytes that connections carry afterwards are neither recorded nor counted.
  ///
  /// *Cancellation* only stops the wait and throws `CancellationError`. *Ordering*: the file has the packets that were recorded before
  /// the call, except those that were dropped.
  ///
  /// - Throws: ``SocketError``: the ``error``, if there is one.
  public func finish() async throws {
    let id = waiters.withLock { $0.nextID() }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        waiters.withLock { $0.add(continuation, id) }
        file.close { [waiters] in waiters.withLock { $0.remove(id) }?.resume() }
        if Task.isCancelled { cancel(id) }
      }
    } onCancel: {
      cancel(id)
    }
    if let error { throw error }
  }

  private func cancel(_ id: UInt64) { waiters.withLock { $0.remove(id) }?.resume(throwing: CancellationError()) }

  private static func error(_ error: SystemError, _ path: String) -> SocketError {
    var failure = SocketError(error, operation: "capture to \(AddressError.quote(path))")
    if error.errno == Errno.symbolicLink {
      failure.detail = "a symbolic link to a file is not followed; give the file's own path"
    }
    return failure
  }

  func append(_ blocks: [[UInt8]]) { if !blocks.isEmpty { file.append(blocks) } }
}

private struct CaptureWaiters {
  private var last: UInt64 = 0
  private var waiting: [UInt64: CheckedContinuation<Void, any Error>] = [:]

  mutating func nextID() -> UInt64 {
    last += 1
    return last
  }

  mutating func add(_ continuation: CheckedContinuation<Void, any Error>, _ id: UInt64) { waiting[id] = continuation }

  mutating func remove(_ id: UInt64) -> CheckedContinuation<Void, any Error>? { waiting.removeValue(forKey: id) }
}
