import Glibc

/// The program's standard error: stderr(3). No caller ever waits for its reader.
///
/// A thread writes the lines, and ends when no line is left. It blocks all signals, so that a pipe without a reader does not end
/// the process by SIGPIPE.
package enum StandardError {
  private struct Queue {
    var lines: [[UInt8]] = []
    var isBeingWritten = false
  }

  private static let queue = Locked(Queue())
  private static var longestLine: Int { 1_000 }
  private static var longestQueue: Int { 100 }

  /// Writes one line soon: write(2).
  ///
  /// The line is dropped if 100 lines wait already. Line breaks and other ASCII control characters within it are replaced by spaces.
  ///
  /// - Parameter line: The line. It is cut after 1,000 bytes.
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

  /// Takes the next line out; `nil` if no line is left, and then the thread ends.
  private static func next() -> [UInt8]? {
    queue.withLock { queue in
      if !queue.lines.isEmpty { return queue.lines.removeFirst() }
      queue.isBeingWritten = false
      return nil
    }
  }

  private static func writeNow(_ line: [UInt8]) {
    var rest = line[...]
    while !rest.isEmpty {
      // SAFETY: write(2) reads the bytes during the call only.
      let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
      if count <= 0 { return }
      rest = rest.dropFirst(count)
    }
  }
}
