import ActorSockets
import ByteText

/// Where a replica keeps its entry. A saved entry must survive a crash: the register counts on it.
protocol EntryStore: Sendable {
  /// Returns the entry that was saved last; `Entry.nothing` before the first.
  func load() throws -> Entry

  /// Saves an entry. When this returns, it is on the disk. If it throws, the old one or the new one is.
  func save(_ entry: Entry) throws
}

/// A copy of the register: the newest entry that it was given.
actor Replica {
  private let store: any EntryStore
  private var newest: Entry

  init(_ store: any EntryStore) throws {
    self.store = store
    newest = try store.load()
  }

  /// Answers a request: `get`, or `put ENTRY`. The answer is the newest entry. Returns `nil` if it is no request.
  func answer(_ request: String) throws -> Entry? {
    let request = ByteText(request)
    if request.equals("get") { return newest }
    guard request.begins(with: "put "), let entry = Entry(request.dropFirst(4).description) else { return nil }
    if entry.isNewer(than: newest) {
      // First on the disk: a replica that forgets an entry after it has answered breaks the register.
      try store.save(entry)
      newest = entry
    }
    return newest
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
