internal import CLinux
import Glibc

/// A file that a thread of its own writes, so that no caller waits for the disk. `FileBacklog` decides what is written.
///
/// The thread ends when the file is closed. It retains the state, not this object, so dropping the last reference closes the file.
package final class BackgroundFile: Sendable {
  private struct State {
    var backlog: FileBacklog
    var isClosed = false
    var waiters: [@Sendable () -> Void] = []
  }

  private let state: Locked<State>
  private let condition = Condition()
  private let trailer: @Sendable (FileReport) -> [UInt8]

  /// Creates the file and starts its thread: open(2), pthread_create(3). `bufferSize` limits the bytes that wait to be written,
  /// `fileSize` those of the file without its trailer. `trailer` is called on any thread, with a lock held.
  ///
  /// open(2) of a named pipe waits for a reader. It throws EEXIST if the file exists and is not to be replaced, and ELOOP if a symbolic
  /// link to a regular file is at the path. See `openForWriting`.
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

  package var report: FileReport { state.withLock { $0.backlog.report } }

  /// Each unit is written whole or dropped.
  package func append(_ units: [[UInt8]]) {
    state.withLock { state in for unit in units { state.backlog.append(unit) } }
    condition.signal()
  }

  /// Accepts no more units, writes what waits and closes the file: close(2). Then calls `done`, on this thread or the file's.
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

  /// ftruncate(2). Does nothing for what is not a regular file.
  private static func removeEnd(of descriptor: borrowing OwnedDescriptor, _ count: Int) {
    guard count > 0, let size = try? descriptor.fileSize() else { return }
    _ = ftruncate(descriptor.number, size - count)
  }
}

extension OwnedDescriptor {
  /// Creates a file that only its owner may read and write: open(2). A regular file at the path is removed, not emptied: it may belong to
  /// another user, be open elsewhere, or have other names. A symbolic link that leads to a regular file is not followed, because another
  /// user may have put it there. Pipes and devices are opened as they are, by links too.
  static func openForWriting(_ path: String, replacing: Bool) throws(SystemError) -> OwnedDescriptor {
    let flags = O_WRONLY | O_CLOEXEC | O_NOCTTY
    // The file at the path may change between two calls. Then the loop tries again, but not for ever.
    for _ in 0..<10 {
      // SAFETY (here and below): the text is valid for the call.
      let created = unsafe open(path, flags | O_CREAT | O_EXCL, 0o600)
      if created >= 0 { return try OwnedDescriptor(new: created) }
      guard errno == EEXIST, replacing else { throw SystemError(call: "open", errno: errno) }
      switch Linux().status(of: UnixPath(unchecked: Array(path.utf8)), followingLinks: false)?.kind {
      case nil: continue
      case .regularFile:
        if unsafe unlink(path) != 0, errno != ENOENT { throw SystemError(call: "unlink", errno: errno) }
      default:
        let descriptor = try OwnedDescriptor(new: try check(Linux.result(unsafe open(path, flags)), "open"))
        if try FileKind(of: descriptor.number) == .regularFile { throw SystemError(call: "open", errno: ELOOP) }
        return descriptor
      }
    }
    throw SystemError(call: "open", errno: EEXIST)
  }

  fileprivate borrowing func write(_ bytes: [UInt8]) -> (count: Int, error: SystemError?) {
    let number = self.number
    var count = 0
    while count < bytes.count {
      // SAFETY: write(2) reads the bytes during the call only, from an offset within them.
      let result = unsafe bytes.withUnsafeBytes { memory in
        withoutBrokenPipeSignal(moving: memory.count - count) {
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
