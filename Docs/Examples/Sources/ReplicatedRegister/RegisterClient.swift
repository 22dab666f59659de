import ActorSockets

enum RegisterError: Error, Hashable, CustomStringConvertible {
  /// No majority of the replicas has answered in time. A write may have happened nevertheless, or may happen later.
  case noMajority(failures: [String])
  /// A value with a line break, or of more than 1,000 bytes.
  case unsuitableValue

  var description: String {
    switch self {
    case .noMajority(let failures): "no majority of the replicas has answered: \(failures.joined(separator: "; "))"
    case .unsuitableValue: "a value is one line of at most \(Entry.longestValue) bytes"
    }
  }
}

/// A client of the register, which lives as long as a majority of its replicas. Any number of tasks may use it at the same time.
///
/// This is the algorithm of Attiya, Bar-Noy and Dolev (1995), with several writers. Any two majorities have a replica in common. So a read
/// finds every write that has ended before it.
actor RegisterClient {
  /// No other client has this number.
  private let number: UInt64
  private let replicas: [ReplicaLink]
  private let timeout: Duration
  private var writes: UInt64 = 0

  /// Creates a client.
  ///
  /// - Parameters:
  ///   - number: A number that no other client has or had.
  ///   - replicas: The replicas, the same for all clients.
  ///   - timeout: How long a read or a write may take.
  init(number: UInt64 = .random(in: 0 ... .max), replicas: [ReplicaLink], timeout: Duration = .seconds(10)) {
    (self.number, self.replicas, self.timeout) = (number, replicas, timeout)
  }

  /// Writes a value.
  ///
  /// - Throws: `RegisterError`; `CancellationError`. In both cases it is not known whether the value is written.
  func write(_ value: String) async throws {
    guard Entry.isSuitable(value) else { throw RegisterError.unsuitableValue }
    writes += 1
    let write = writes
    let end = ContinuousClock.now + timeout
    let newest = try await newest(among: askMajority("get", until: end))
    try await store(Entry(number: newest.number + 1, client: number, write: write, value: value), until: end)
  }

  /// Reads the value; `nil` before the first write.
  ///
  /// - Throws: `RegisterError.noMajority`; `CancellationError`.
  func read() async throws -> String? {
    let end = ContinuousClock.now + timeout
    let entries = try await askMajority("get", until: end)
    let newest = newest(among: entries)
    // A later read must not find an older value. So a majority must have this one before it is returned.
    if !entries.allSatisfy({ $0 == newest }) { try await store(newest, until: end) }
    return newest == .nothing ? nil : newest.value
  }

  func close() async { for replica in replicas { await replica.close() } }

  private func store(_ entry: Entry, until end: ContinuousClock.Instant) async throws {
    for answer in try await askMajority("put \(entry)", until: end) where entry.isNewer(than: answer) {
      // It has an answer, but not the entry.
      throw RegisterError.noMajority(failures: ["a replica does not store"])
    }
  }

  private func newest(among entries: [Entry]) -> Entry { entries.reduce(.nothing) { $1.isNewer(than: $0) ? $1 : $0 } }

  /// Asks all replicas, and returns when a majority has answered.
  private func askMajority(_ request: String, until end: ContinuousClock.Instant) async throws -> [Entry] {
    var answers: [Entry] = []
    var failures: [String] = []
    await withTaskGroup(of: Result<Entry, any Error>.self) { group in
      for replica in replicas { group.addTask { await Result { try await replica.ask(request, until: end) } } }
      while answers.count <= replicas.count / 2, let answer = await group.next() {
        switch answer {
        case .success(let entry): answers.append(entry)
        case .failure(let error): failures.append("\(error)")
        }
      }
      group.cancelAll()
    }
    try Task.checkCancellation()
    guard answers.count > replicas.count / 2 else { throw RegisterError.noMajority(failures: failures) }
    return answers
  }
}

extension Result where Failure == any Error {
  /// Keeps the outcome of a call.
  fileprivate init(_ body: () async throws -> Success) async {
    do { self = .success(try await body()) } catch { self = .failure(error) }
  }
}
