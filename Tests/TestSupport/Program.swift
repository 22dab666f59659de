package import Foundation

/// A program under test, or one that tests it: started, watched, and killed when it takes too long.
///
/// That it is killed is what gives every wait here its deadline: what waits for its output or its end then sees the end.
package actor Program: CustomStringConvertible {
  package enum Input {
    case nothing
    /// What ``send(_:)`` gives it, until ``finishInput()``.
    case pipe
    case file(URL)
  }

  package struct Disappointment: Error, CustomStringConvertible {
    package let description: String

    package init(description: String) { self.description = description }
  }

  /// How long a program may run: less than `within` waits, so that the sentence has what the program printed.
  package static let deadline = Duration.seconds(50 * patience)

  package nonisolated let description: String
  package nonisolated let output = Transcript()
  package nonisolated let errors = Transcript()

  private let process = Process()
  private let input: FileHandle?
  private var status: Int32?
  private var waiters: [CheckedContinuation<Void, Never>] = []
  private var watchdog: Task<Void, any Error>?

  /// Starts a program. Its standard output goes to ``output``, or to the file.
  package init(
    _ tool: Tool, _ arguments: [String], input: Input = .nothing, outputTo file: URL? = nil, in folder: URL? = nil
  ) async throws {
    description = ([tool.name] + arguments).joined(separator: " ")
    process.executableURL = tool.url
    process.arguments = arguments
    if let folder { process.currentDirectoryURL = folder }
    let pipe = Pipe()
    switch input {
    case .nothing: process.standardInput = FileHandle.nullDevice
    case .pipe: process.standardInput = pipe
    case .file(let url): process.standardInput = try FileHandle(forReadingFrom: url)
    }
    if case .pipe = input { self.input = pipe.fileHandleForWriting } else { self.input = nil }

    let errorPipe = Pipe()
    process.standardError = errorPipe
    let outputPipe = Pipe()
    if let file {
      try Data().write(to: file)
      process.standardOutput = try FileHandle(forWritingTo: file)
    } else {
      process.standardOutput = outputPipe
    }
    process.terminationHandler = { [weak self] process in
      let status = process.terminationStatus
      Task { await self?.ended(status) }
    }
    try process.run()
    errors.follow(errorPipe.fileHandleForReading)
    if file == nil { output.follow(outputPipe.fileHandleForReading) }
    watchdog = Task { [weak self] in
      try await Task.sleep(for: Self.deadline)
      await self?.kill(SIGKILL)
    }
  }

  deinit {
    watchdog?.cancel()
    if process.isRunning { Foundation.kill(process.processIdentifier, SIGKILL) }
  }

  // MARK: Driving it

  package func send(_ text: String) throws { try input?.write(contentsOf: Data(text.utf8)) }

  package func finishInput() throws { try input?.close() }

  package func kill(_ signal: Int32) {
    if process.isRunning { Foundation.kill(process.processIdentifier, signal) }
  }

  // MARK: Watching it

  package var processIdentifier: Int32 { process.processIdentifier }

  /// Waits for its end; throws if it had to be killed.
  @discardableResult
  package func exitStatus() async throws -> Int32 {
    while status == nil { await withCheckedContinuation { waiters.append($0) } }
    if process.terminationReason == .uncaughtSignal {
      throw Disappointment(description: "\(self) was ended by signal \(status ?? 0), after: \(await everything)")
    }
    return status ?? -1
  }

  package func waitForOutput(_ text: String) async throws { try await wait(for: text, in: output) }

  package func waitForError(_ text: String) async throws { try await wait(for: text, in: errors) }

  private var everything: String {
    get async { "\"\(await output.text)\" and \"\(await errors.text)\"" }
  }

  private func wait(for text: String, in transcript: Transcript) async throws {
    if await transcript.wait(until: { $0.contains(text) }) { return }
    throw Disappointment(description: "\(self) never printed \"\(text)\", but: \(await everything)")
  }

  private func ended(_ status: Int32) {
    self.status = status
    watchdog?.cancel()
    for waiter in waiters { waiter.resume() }
    waiters = []
  }
}

/// What a program prints, as it comes.
package actor Transcript {
  package private(set) var text = ""
  private var bytes: [UInt8] = []
  private var isEnded = false
  private var waiters: [CheckedContinuation<Void, Never>] = []

  /// Everything, when it has ended.
  package var whole: String {
    get async {
      _ = await wait { _ in false }
      return text
    }
  }

  package var lines: [String] {
    get async { await whole.split(separator: "\n").map(String.init) }
  }

  /// Waits until the text is as wanted; `false` if it ended before.
  package func wait(until isWanted: (String) -> Bool) async -> Bool {
    while !isWanted(text) {
      if isEnded { return false }
      await withCheckedContinuation { waiters.append($0) }
    }
    return true
  }

  /// Reads from a pipe on a thread of its own, until its end.
  package nonisolated func follow(_ pipe: FileHandle) {
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
