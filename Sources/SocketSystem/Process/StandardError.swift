import Glibc

/// The program's standard error: stderr(3). No caller ever waits for its reader. A thread writes the lines, and ends when no line is
/// left. A pipe without a reader does not end the process by SIGPIPE.
///
/// Lines are dropped if descriptor 2 cannot be the standard error that the program was given, because the program has closed it and
/// something else has its number now.
package enum StandardError {
  private struct Queue {
    var lines: [[UInt8]] = []
    var isBeingWritten = false
  }

  private static let queue = Locked(Queue())
  private static var longestLine: Int { 1_000 }
  private static var longestQueue: Int { 100 }

  /// Writes one line soon, cut after 1,000 bytes. It is dropped if 100 lines wait already. ASCII control characters, such as line breaks,
  /// are replaced by spaces.
  package static func write(line: String) {
    var bytes = line.utf8.prefix(longestLine).map { $0 < 32 || $0 == 127 ? UInt8(ascii: " ") : $0 }
    bytes.append(UInt8(ascii: "\n"))
    let startsThread = queue.withLock { queue in
      if queue.lines.count >= longestQueue { return false }
      queue.lines.append(bytes)
      defer { queue.isBeingWritten = true }
      return !queue.isBeingWritten
    }
    if !startsThread { return }
    do {
      try startThread(name: "stderr") { while let line = next() { writeNow(line) } }
    } catch {
      queue.withLock { $0 = Queue() }
    }
  }

  /// When it returns `nil`, the thread ends.
  private static func next() -> [UInt8]? {
    queue.withLock { queue in
      if !queue.lines.isEmpty { return queue.lines.removeFirst() }
      queue.isBeingWritten = false
      return nil
    }
  }

  /// Whether descriptor 2 is a connection to another host, or an object of the kernel such as an epoll instance. It may be a unix socket,
  /// which leads to the system's log.
  private static var isSomethingElse: Bool {
    let kind = try? FileKind(of: STDERR_FILENO)
    if kind == .other { return true }
    let address = try? BorrowedDescriptor(STDERR_FILENO).localAddress()
    return kind == .socket && address?.isUnix != true
  }

  private static func writeNow(_ line: [UInt8]) {
    if isSomethingElse { return }
    var rest = line[...]
    while !rest.isEmpty {
      // SAFETY: write(2) reads the bytes during the call only.
      let count = unsafe rest.withUnsafeBytes { bytes in
        withoutBrokenPipeSignal(moving: bytes.count) {
          let result = unsafe Glibc.write(STDERR_FILENO, bytes.baseAddress, bytes.count)
          return result < 0 ? -Int(errno) : result
        }
      }
      if count <= 0 { return }
      rest = rest.dropFirst(count)
    }
  }
}
