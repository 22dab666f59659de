import Foundation

/// A program that a test starts, watches, and kills when it takes too long.
///
/// A program that is killed ends its output. So everything that waits for its output or its end has a deadline.
///
/// This is not Foundation's `Process`, which notices the end of a program by a socket that the program inherits. dnsmasq closes all
/// descriptors that it inherits; then `Process` waits for its end, and notices no end of other programs.
package actor Program: CustomStringConvertible {
  package nonisolated let description: String
  package nonisolated let processIdentifier: Int32
  package nonisolated let output = Transcript()
  package nonisolated let errors = Transcript()

  private var end: End?
  private var waiters: [CheckedContinuation<End, Never>] = []
  private var watchdog: Task<Void, any Error>?

  private enum End {
    case status(Int32)
    case signal(Int32)
  }

  /// Starts a program.
  package init(_ tool: Tool, _ arguments: [String]) throws {
    description = ([tool.name] + arguments).joined(separator: " ")
    let (outputPipe, errorPipe) = (Pipe(), Pipe())
    // Otherwise programs that start later would keep them open.
    for pipe in [outputPipe, errorPipe] {
      for handle in [pipe.fileHandleForReading, pipe.fileHandleForWriting] {
        _ = fcntl(handle.fileDescriptor, F_SETFD, FD_CLOEXEC)
      }
    }
    processIdentifier = try Self.spawn(
      [tool.url.path] + arguments, output: outputPipe.fileHandleForWriting,
      errors: errorPipe.fileHandleForWriting)
    try outputPipe.fileHandleForWriting.close()
    try errorPipe.fileHandleForWriting.close()
    output.follow(outputPipe.fileHandleForReading)
    errors.follow(errorPipe.fileHandleForReading)
    let processIdentifier = processIdentifier
    Thread.detachNewThread { [weak self] in
      // The process is only looked at here, so its number stays its own until it is collected.
      var information = siginfo_t()
      while waitid(P_PID, id_t(processIdentifier), &information, WEXITED | WNOWAIT) == -1, errno == EINTR {}
      Task { await self?.ended() }
    }
    Task { await self.watch() }
  }

  deinit {
    watchdog?.cancel()
    if end == nil { Foundation.kill(processIdentifier, SIGKILL) }
  }

  private func watch() {
    watchdog = Task { [weak self] in
      try await Task.sleep(for: .seconds(45 * patience))
      await self?.kill(SIGKILL)
    }
  }

  /// Starts a process without blocked signals, whatever this thread blocks: posix_spawn(3).
  private static func spawn(
    _ words: [String], output: FileHandle, errors: FileHandle
  ) throws -> Int32 {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_adddup2(&actions, output.fileDescriptor, 1)
    posix_spawn_file_actions_adddup2(&actions, errors.fileDescriptor, 2)
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var (no, all) = (sigset_t(), sigset_t())
    sigemptyset(&no)
    sigfillset(&all)
    posix_spawnattr_setsigmask(&attributes, &no)
    posix_spawnattr_setsigdefault(&attributes, &all)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
    let environment = ProcessInfo.processInfo.environment.map { "\($0.key)=\($0.value)" }
    let strings = (words.map { strdup($0) } + [nil], environment.map { strdup($0) } + [nil])
    defer { for string in strings.0 + strings.1 { free(string) } }
    var identifier: Int32 = 0
    let error = posix_spawn(&identifier, words[0], &actions, &attributes, strings.0, strings.1)
    if error == 0 { return identifier }
    throw Overdue(description: "\(words[0]) does not start: \(String(cString: strerror(error)))")
  }

  package func kill(_ signal: Int32) {
    if end == nil { Foundation.kill(processIdentifier, signal) }
  }

  /// Sends SIGTERM, and waits for the end.
  package func stop() async {
    kill(SIGTERM)
    _ = await waitForEnd()
  }

  /// Waits for the end. A program that a signal ends is an error.
  @discardableResult
  package func exitStatus() async throws -> Int32 {
    switch await waitForEnd() {
    case .status(let status): return status
    case .signal(let signal):
      throw Overdue(description: "\(self) was ended by signal \(signal), after: \(await everything)")
    }
  }

  /// Waits until standard output contains a text.
  package func waitForOutput(_ text: String) async throws { try await wait(for: text, in: output) }

  /// Waits until standard error contains a text.
  package func waitForError(_ text: String) async throws { try await wait(for: text, in: errors) }

  /// Runs a program to its end, and returns its output. A status other than 0 is an error.
  package static func run(_ tool: Tool, _ arguments: [String]) async throws -> String {
    let program = try Program(tool, arguments)
    let status = try await program.exitStatus()
    let text = await program.output.whole
    if status == 0 { return text }
    throw Overdue(description: "\(program) ended with status \(status), after: \(await program.everything)")
  }

  /// Everything that it printed.
  package var everything: String {
    get async { "\"\(await output.text)\" and \"\(await errors.text)\"" }
  }

  private func wait(for text: String, in transcript: Transcript) async throws {
    if await transcript.wait(until: { $0.contains(text) }) { return }
    throw Overdue(description: "\(self) never printed \"\(text)\", but: \(await everything)")
  }

  private func waitForEnd() async -> End {
    if let end { return end }
    return await withCheckedContinuation { waiters.append($0) }
  }

  private func ended() {
    var status: Int32 = 0
    while waitpid(processIdentifier, &status, 0) == -1, errno == EINTR {}
    let end: End = status & 0x7F == 0 ? .status(status >> 8 & 0xFF) : .signal(status & 0x7F)
    self.end = end
    watchdog?.cancel()
    for waiter in waiters { waiter.resume(returning: end) }
    waiters = []
  }
}

/// The output of a program, as it arrives.
package actor Transcript {
  package private(set) var text = ""
  private var bytes: [UInt8] = []
  private var isEnded = false
  private var waiters: [CheckedContinuation<Void, Never>] = []

  /// The whole output, after its end.
  package var whole: String {
    get async {
      _ = await wait { _ in false }
      return text
    }
  }

  /// Waits until the text is as wanted. Returns `false` if it ended before.
  package func wait(until isWanted: (String) -> Bool) async -> Bool {
    while !isWanted(text) {
      if isEnded { return false }
      await withCheckedContinuation { waiters.append($0) }
    }
    return true
  }

  /// Reads from a pipe on a thread of its own, until its end.
  nonisolated func follow(_ pipe: FileHandle) {
    let (stream, continuation) = AsyncStream.makeStream(of: Data.self)
    Thread.detachNewThread {
      while true {
        let data = pipe.availableData
        if data.isEmpty { break }
        continuation.yield(data)
      }
      continuation.finish()
    }
    Task {
      for await data in stream { await self.append(data) }
      await self.end()
    }
  }

  private func append(_ data: Data) {
    bytes += data
    text = String(decoding: bytes, as: UTF8.self)
    wake()
  }

  private func end() {
    isEnded = true
    wake()
  }

  private func wake() {
    for waiter in waiters { waiter.resume() }
    waiters = []
  }
}
