internal import CLinux
import Glibc

/// A file that a thread of its own writes, so that no caller waits for the disk. `FileBacklog` decides what is written.
///
/// The thread ends when the file is closed. It retains the state, not this object, so dropping the last reference closes the file.
package final class BackgroundFile: Sendable {
  private struct State {
    var backlog: FileBacklog
    var isClosed = false
    /// Called when the file is closed.
    var waiters: [@Sendable () -> Void] = []
  }

  private let state: Locked<State>
  private let condition = Condition()
  private let trailer: @Sendable (FileReport) -> [UInt8]

  /// Creates the file and starts its thread: open(2), pthread_create(3).
  ///
  /// Only the file's owner may read and write it. open(2) of a named pipe waits for a reader.
  ///
  /// - Parameters:
  ///   - path: The path of the file.
  ///   - replacing: Whether a file that exists is emptied. Otherwise it is an error, EEXIST.
  ///   - bufferSize: The number of bytes that may wait to be written.
  ///   - fileSize: The number of bytes of the file without its trailer.
  ///   - header: The beginning of the file.
  ///   - trailer: Returns the end of the file. Called on any thread, with a lock held.
  /// - Throws: The error of a call: EEXIST of open(2) if the file exists and is not to be replaced.
  package init(
    path: String, replacing: Bool, bufferSize: Int, fileSize: Int, header: [UInt8],
    trailer: @escaping @Sendable (FileReport) -> [UInt8]
  ) throws(SystemError) {
    let descriptor = try OwnedDescriptor.openForWriting(path, replacing: replacing)
    let limits = FileBacklog.Limits(bufferSize: bufferSize, fileSize: fileSize)
    state = Locked(State(backlog: FileBacklog(header: header, limits)))
    self.trailer = trailer
    let number = descriptor.release()
    do throws(SystemError) {
      try startThread(name: "file writer") { [state, condition] in
        Self.run(OwnedDescriptor(owning: number), state, condition)
      }
    } catch {
      _ = OwnedDescriptor(owning: number)
      throw error
    }
  }

  deinit { close() }

  /// What has happened to the units so far.
  package var report: FileReport { state.withLock { $0.backlog.report } }

  /// Adds units, each of which is written whole or dropped.
  package func append(_ units: [[UInt8]]) {
    state.withLock { state in for unit in units { state.backlog.append(unit) } }
    condition.signal()
  }

  /// Accepts no more units, writes what waits and closes the file: close(2).
  ///
  /// - Parameter done: Called when the file is closed: at once, or on the file's thread.
  package func close(_ done: (@Sendable () -> Void)? = nil) {
    let isClosed = state.withLock { state in
      state.backlog.close(trailer: trailer)
      if !state.isClosed, let done { state.waiters.append(done) }
      return state.isClosed
    }
    condition.signal()
    if isClosed { done?() }
  }

  // MARK: The thread

  private static func run(_ descriptor: consuming OwnedDescriptor, _ state: Locked<State>, _ condition: Condition) {
    while case .write(let batch) = state.wait(for: condition, until: { $0.backlog.next() }) {
      let (count, error) = descriptor.write(batch.bytes)
      guard let error else { continue }
      // Readers of the file expect whole units.
      removeEnd(of: descriptor, count - batch.wholeBytes(in: count))
      state.withLock { $0.backlog.failed(error, writing: batch, after: count) }
    }
    _ = consume descriptor
    let waiters = state.withLock { state in
      state.isClosed = true
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter() }
  }

  /// Removes the last bytes of a file: ftruncate(2). Does nothing for what is not a regular file.
  private static func removeEnd(of descriptor: borrowing OwnedDescriptor, _ count: Int) {
    guard count > 0, let size = try? descriptor.fileSize() else { return }
    _ = ftruncate(descriptor.number, size - count)
  }
}

extension OwnedDescriptor {
  /// Creates a file that only its owner may read and write: open(2), fchmod(2), ftruncate(2).
  static func openForWriting(_ path: String, replacing: Bool) throws(SystemError) -> OwnedDescriptor {
    let flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | (replacing ? 0 : O_EXCL)
    // SAFETY: the text is valid for the call.
    let descriptor = try OwnedDescriptor(new: try check(unsafe open(path, flags, 0o600), "open"))
    // A file that existed may have other permissions. It is emptied only if it can have these. Pipes and devices keep theirs.
    if replacing, try FileKind(of: descriptor.number) == .regularFile {
      _ = try check(fchmod(descriptor.number, 0o600), "fchmod")
      _ = try check(ftruncate(descriptor.number, 0), "ftruncate")
    }
    return descriptor
  }

  /// Writes all bytes: write(2). Returns the number of bytes that were written, and the error if these are not all.
  fileprivate borrowing func write(_ bytes: [UInt8]) -> (count: Int, error: SystemError?) {
    let number = self.number
    var count = 0
    while count < bytes.count {
      // SAFETY: write(2) reads the bytes during the call only, from an offset within them.
      let result = unsafe bytes.withUnsafeBytes { memory in
        withoutBrokenPipeSignal {
          retryingInterrupts {
            let result = unsafe Glibc.write(number, memory.baseAddress?.advanced(by: count), memory.count - count)
            return result < 0 ? -Int(errno) : result
          }
        }
      }
      if result < 0 { return (count, SystemError(call: "write", errno: Int32(-result))) }
      count += result
    }
    return (count, nil)
  }
}
