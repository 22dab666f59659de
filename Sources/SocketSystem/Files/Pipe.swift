import Glibc

// Reads pipes that are opened like files: the standard input of a program, `<(…)` of a shell, named pipes.

extension OwnedDescriptor {
  package borrowing func isPipe() throws(SystemError) -> Bool { try FileKind(of: number) == .pipe }

  /// Returns an empty array if no writer has the pipe open; `nil` if there are no bytes now.
  package borrowing func readPipe(atMost count: Int) throws(SystemError) -> [UInt8]? {
    let number = self.number
    var result = 0
    // SAFETY: the memory has room for the count, and the number set is what the kernel wrote.
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: count) { memory, initialized in
      repeat { result = unsafe Glibc.read(number, memory.baseAddress, count) } while result < 0 && errno == EINTR
      if result < 0 { result = Int(-errno) }
      initialized = max(0, result)
    }
    if result == -Int(EAGAIN) { return nil }
    if result < 0 { throw SystemError(call: "read", errno: Int32(-result)) }
    return bytes
  }

  /// Blocks the thread until the descriptor has bytes or no writer any more: poll(2). Returns whether that happened. A signal may end the
  /// wait before its time.
  package borrowing func waitForInput(milliseconds: Int32) throws(SystemError) -> Bool {
    var entry = pollfd(fd: number, events: Int16(POLLIN), revents: 0)
    // SAFETY: the call reads and writes one entry.
    let count = unsafe poll(&entry, 1, milliseconds)
    if count < 0, errno != EINTR { throw SystemError(call: "poll", errno: errno) }
    return count > 0
  }
}
