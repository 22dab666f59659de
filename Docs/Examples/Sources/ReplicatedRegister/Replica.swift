import ActorSockets
import ByteText

/// A copy of the register: the newest entry that it was given.
actor Replica {
  private let file: EntryFile
  private var newest: Entry
  /// The entry that is on the disk.
  private var saved: Entry
  /// Only one call saves at a time. The others wait for it, and then see whether it has saved their entries, too.
  private var saving: Task<Void, any Error>?

  init(on disk: any Disk) async throws {
    file = EntryFile(disk: disk)
    saved = try await file.load()
    newest = saved
  }

  /// Answers a request: `get`, or `put ENTRY`. The answer is the newest entry. Returns `nil` if it is no request.
  func answer(_ request: String) async throws -> Entry? {
    let request = ByteText(request)
    if request.equals("get") { return saved }
    guard request.begins(with: "put "), let entry = Entry(request.dropFirst(4).description) else { return nil }
    if entry.isNewer(than: newest) { newest = entry }
    // First on the disk: a replica that forgets an entry after it has answered breaks the register.
    while entry.isNewer(than: saved) {
      let task = saving ?? Task { try await saveNewest() }
      saving = task
      try await task.value
    }
    return saved
  }

  private func saveNewest() async throws {
    defer { saving = nil }
    let entry = newest
    try await file.save(entry)
    saved = entry
  }
}

/// Serves a replica until a signal comes: one request in a line, one answer in a line, in the same order.
///
/// - Parameters:
///   - replica: The replica.
///   - listener: The listener.
///   - signals: The signals that stop it.
/// - Returns: What happened.
/// - Throws: `SocketError` if the listener breaks.
@discardableResult
func serve(
  _ replica: Replica, on listener: TCPListener, stopOn signals: Set<ProcessSignal> = []
) async throws -> ServeReport {
  try await listener.serve(
    .init(limits: .init(connections: 1000, connectionsPerPeer: 100), drain: .within(.seconds(5)), stopOn: signals)
  ) { connection in
    for try await line in connection.lines(maximumLength: Entry.longestLine + 4, timeout: .seconds(600)) {
      guard let answer = try await replica.answer(line) else {
        throw SocketError(.invalidMessage, operation: "read", detail: "not a request: \(line)")
      }
      try await connection.write(utf8: "\(answer)\n", timeout: .seconds(10))
    }
  }
}
