import ActorSockets
import Glibc
import Synchronization

// The descriptors 0, 1 and 2 are shared with the process that started the program, and so is their blocking mode. So
// they are never made nonblocking. Standard input and standard output each have a thread of their own. Back-pressure
// needs no extra code: nothing is read before it is requested, and each write waits for the previous one.

/// Opens /dev/null for each standard stream that the program was started without. Otherwise the next descriptor would
/// get the stream's number.
func openMissingStreams() {
  while true {
    // SAFETY: the text is valid for the call.
    let number = unsafe open("/dev/null", O_RDWR)
    if number > STDERR_FILENO { _ = close(number) }
    if number < 0 || number > STDERR_FILENO { return }
  }
}

final class StandardInput: Sendable {
  private struct State {
    var isEnded = false
    var reading: Future<[UInt8]?>?
  }

  private let thread: BlockingThread
  private let state = Mutex(State())

  init() { thread = BlockingThread(name: "standard input") }

  var isTerminal: Bool { isatty(STDIN_FILENO) == 1 }

  /// Waits for at least one byte; returns `nil` at the end of input.
  ///
  /// *Cancellation* ends the wait. Bytes that arrive afterwards are lost: a program that no longer waits for its input
  /// is about to end.
  func read() async throws -> [UInt8]? {
    let reading = state.withLock { state in
      if !state.isEnded { state.reading = thread.start { try readSome(from: STDIN_FILENO) } }
      return state.isEnded ? nil : state.reading
    }
    return try await reading?.value()
  }

  /// Ends the current read and all later ones.
  func end() {
    let reading = state.withLock { state in
      state.isEnded = true
      return state.reading
    }
    reading?.complete(with: .success(nil))
  }
}

final class StandardOutput: Sendable {
  private let thread: BlockingThread

  init() { thread = BlockingThread(name: "standard output") }

  var isTerminal: Bool { isatty(STDOUT_FILENO) == 1 }

  /// *Cancellation* only ends the wait; the bytes are written when there is room.
  func write(_ bytes: [UInt8]) async throws {
    try await thread.start { try writeAll(bytes, to: STDOUT_FILENO) }.value()
  }

  func write(utf8 text: String) async throws { try await write(Array(text.utf8)) }
}

/// For short lines, which are written immediately.
enum StandardError {
  static func write(line: String) { try? writeAll(Array((line + "\n").utf8), to: STDERR_FILENO) }
}

/// `nil` at the end of the input.
private func readSome(from descriptor: Int32) throws -> [UInt8]? {
  var buffer = [UInt8](repeating: 0, count: 65_536)
  while true {
    // SAFETY: the array lends its storage for the call, and the count is the array's.
    let count = unsafe read(descriptor, &buffer, buffer.count)
    if count > 0 { return Array(buffer[..<count]) }
    if count == 0 { return nil }
    if errno == EAGAIN {
      try wait(for: POLLIN, of: descriptor)
    } else {
      try check(errno, "standard input cannot be read")
    }
  }
}

private func writeAll(_ bytes: [UInt8], to descriptor: Int32) throws {
  var done = 0
  while done < bytes.count {
    // SAFETY: the pointer is into the array's storage, and used only within the call; `done` is less than its count.
    let count = unsafe bytes.withUnsafeBytes { bytes in
      unsafe write(descriptor, bytes.baseAddress?.advanced(by: done), bytes.count - done)
    }
    if count >= 0 {
      done += count
    } else if errno == EAGAIN {
      try wait(for: POLLOUT, of: descriptor)
    } else {
      try check(errno, "standard output cannot be written")
    }
  }
}

/// Another program may have made the descriptor nonblocking.
private func wait(for events: Int32, of descriptor: Int32) throws {
  var entry = pollfd(fd: descriptor, events: Int16(events), revents: 0)
  // SAFETY: one entry, lent for the call.
  if unsafe poll(&entry, 1, -1) < 0 { try check(errno, "poll failed") }
}

/// Throws unless the call was only interrupted.
private func check(_ error: Int32, _ what: String) throws {
  if error == EINTR { return }
  // SAFETY: strerror(3) of glibc returns a text of this thread, or a constant.
  throw Failure(.inputOutput, "\(what): \(unsafe String(cString: strerror(error)))")
}
