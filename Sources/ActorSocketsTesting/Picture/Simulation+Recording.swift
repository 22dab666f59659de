// Runs a failed seed once more, in a copy of the process, and records what it does.
//
// Invariants:
// - The copy sends each event at once. So also the events before a trap or a time-out are known.
// - Nothing else of the copy reaches the process: its failed expectations are events, and not issues of the test.
// - A seed is explained at most once. If the copy cannot be made, the seed fails with its trace.

internal import SocketSystem

package struct PictureSettings: Sendable {
  /// The name of the test that explores seeds.
  package var name = "simulation"
  /// Where the files are; `nil` for no pictures.
  package var folder = CurrentProcess.variable("ACTORSOCKETS_PICTURES").flatMap { $0.isEmpty ? nil : $0 }

  package init() {}
}

/// What a failed run did.
struct RunAccount: Sendable {
  /// Notes, faults and what waited, up to the first failure.
  let story: [String]
  /// The path of the picture; `nil` if the environment wants no pictures.
  var picture: String?
  /// Why the picture is missing, although it was wanted; or that the recorded run was another one.
  var remarks: [String] = []
  /// How the copy ended, if not by itself: for example "was ended by the signal 5".
  let abort: String?

  /// The story, and where the picture is.
  var text: String {
    var text = "What happened, without packets:" + story.map { "\n  \($0)" }.joined()
    for remark in remarks { text += "\n\(remark)" }
    if let picture {
      text += "\nA picture of the run: \(picture)"
    } else if Simulation.pictures.folder == nil {
      text += "\nTo get a picture of the run, set ACTORSOCKETS_PICTURES to a folder."
    }
    return text
  }
}

extension Simulation {
  /// How pictures are made in the current task.
  @TaskLocal package static var pictures = PictureSettings()

  /// Records that something failed, if this run is recorded, and returns whether it is. On the thread of the simulation only.
  package func recordFailure(_ text: @autoclosure () -> String) -> Bool {
    thread.failed(text())
    return thread.isRecorded
  }

  /// Runs the program in this simulation, in a copy of the process, and records it. `hash` is that of the trace of the run that failed.
  /// Without a `reason`, only a run that ends the process is a failure. Returns `nil` if it is not, or if the copy cannot be made. `seconds` is
  /// how long the failed run took.
  func account(
    reason: String?, hash: UInt64?, after seconds: Int64,
    _ body: @escaping @Sendable (Simulation) async throws -> Void
  ) async -> RunAccount? {
    let isCopy = Locked(false)
    let record = Locked(RunRecord())
    let splitter = Locked(LineSplitter())
    guard let program = try? prepare({ if isCopy.withLock({ $0 }) { try await body(self) } }) else { return nil }
    let answer = await ChildProcess.run(seconds: UInt32(clamping: 20 + 10 * seconds)) {
      program.run(watchdog: nil)
    } other: { send in
      isCopy.withLock { $0 = true }
      self.thread.trace.observer = { send($0.line + [LineSplitter.lineFeed]) }
      program.run(watchdog: nil)
      let end = RunEvent(time: self.elapsed, host: 0, content: .end(hash: self.traceHash))
      send(end.line + [LineSplitter.lineFeed])
    } receive: { bytes in
      splitter.withLock { splitter in
        splitter.add(bytes) { line in
          if let event = RunEvent(line: line) { record.withLock { $0.add(event) } }
        }
      }
    }
    return Self.account(record.withLock { $0 }, answer, reason, hash: hash, seed: seed)
  }

  /// If pictures are wanted of one chosen seed, and its run would end the process: makes the picture before.
  static func explainAbort(
    of make: () -> Simulation, _ body: @escaping @Sendable (Simulation) async throws -> Void
  ) async {
    if pictures.folder == nil || CurrentProcess.variable("ACTORSOCKETS_SEED") == nil { return }
    let simulation = make()
    guard let account = await simulation.account(reason: nil, hash: nil, after: 0, body),
      let abort = account.abort
    else { return }
    StandardError.write(line: "seed \(simulation.seed): the process \(abort). What happened, without packets:")
    for line in account.story { StandardError.write(line: "  \(line)") }
    if let picture = account.picture { StandardError.write(line: "A picture of the run: \(picture)") }
  }

  /// Runs a seed whose expectations were not met once more, and returns what happened, with the place of the picture. The first failure that
  /// is recorded is the reason that the picture shows; without any, it is `reason`. Returns `nil` if the run cannot be recorded.
  package static func account(
    reason: String, seed: UInt64, _ settings: Settings, _ body: @escaping @Sendable (Simulation) async throws -> Void
  ) async -> String? {
    await settings.simulation(seed).account(reason: reason, hash: nil, after: 4, body)?.text
  }

  private static func account(
    _ record: RunRecord, _ answer: ChildProcess.Answer, _ reason: String?, hash: UInt64?, seed: UInt64
  ) -> RunAccount? {
    var record = record
    var abort: String?
    if let sentence = answer.failure {
      abort = sentence
      record.add(
        RunEvent(time: record.end, host: record.lastHost, content: .failure("the process \(sentence)")))
    }
    if reason == nil, abort == nil { return nil }
    let repeats: Bool? = if let hash, let own = record.hash { hash == own } else { nil }
    var text = reason ?? "the process \(abort ?? "has ended")"
    if hash == nil, case .failure(let failure) = record.failure?.content { text = failure }
    let picture = RunPicture(record: record, seed: seed, name: pictures.name, reason: text, repeats: repeats)
    var account = RunAccount(story: RunStory(record).lines, abort: abort)
    if repeats == false {
      account.remarks.append(
        "This is a second run, which did not do the same as the one that failed: try checksDeterminism.")
    }
    if let folder = pictures.folder {
      do throws(SystemError) { account.picture = try picture.write(to: folder) } catch {
        account.remarks.append("The picture is missing: \(error)")
      }
    }
    return account
  }
}

/// Lines of bytes that come in pieces.
struct LineSplitter {
  static let lineFeed = UInt8(ascii: "\n")
  private var rest: [UInt8] = []

  /// `body` gets each line that is complete, without its end.
  mutating func add(_ bytes: [UInt8], _ body: (ArraySlice<UInt8>) -> Void) {
    var start = bytes.startIndex
    while let end = bytes[start...].firstIndex(of: Self.lineFeed) {
      rest += bytes[start..<end]
      body(rest[...])
      rest.removeAll(keepingCapacity: true)
      start = end + 1
    }
    rest += bytes[start...]
  }
}
