import ActorSockets

/// A value of the register. A later write has a higher number; two clients that choose the same one differ as writers.
struct Entry: Equatable, Sendable {
  var number = 0
  var writer = 0
  var value = "nothing"

  func isNewer(than other: Entry) -> Bool { (number, writer) > (other.number, other.writer) }
}

extension Entry {
  /// The entry as the protocol has it: `7 2 hello`.
  var text: String { "\(number) \(writer) \(value)" }

  init?(_ text: some StringProtocol) {
    let parts = text.split(separator: " ", maxSplits: 2)
    guard parts.count == 3, let number = Int(parts[0]), let writer = Int(parts[1]) else { return nil }
    self.init(number: number, writer: writer, value: String(parts[2]))
  }
}

/// A copy of the register: the newest entry that it was given.
actor Replica {
  private var newest = Entry()

  /// Answers `get` with the entry, and `put ENTRY` with `stored`.
  func answer(_ request: some StringProtocol) -> String {
    if request == "get" { return newest.text }
    guard request.hasPrefix("put "), let entry = Entry(request.dropFirst(4)) else { return "what?" }
    if entry.isNewer(than: newest) { newest = entry }
    return "stored"
  }
}

/// Serves a replica. Each line is a number and a request, and the answer has the same number.
func serve(_ replica: Replica, on listener: some StreamListener) async throws {
  _ = try await listener.serve { connection in
    for try await line in connection.lines(maximumLength: 1_000) {
      let parts = line.split(separator: " ", maxSplits: 1)
      guard parts.count == 2 else { return }
      try await connection.write(utf8: "\(parts[0]) \(await replica.answer(parts[1]))\n", timeout: .seconds(10))
    }
  }
}

/// A client's connection to a replica. It asks one question at a time.
actor ReplicaLink {
  private let endpoint: Endpoint
  private var connection: TCPConnection?
  private var questions = 0

  init(to endpoint: Endpoint) { self.endpoint = endpoint }

  /// Sends a request until there is an answer. After a failure it connects anew.
  func ask(_ request: String) async throws -> String {
    questions += 1
    let number = questions
    var pause = Duration.milliseconds(50)
    while true {
      do {
        return try await ask(request, as: number)
      } catch is SocketError {
        await connection?.abort()
        connection = nil
        try await Task.sleep(for: pause)
        pause = min(pause * 2, .seconds(1))
      }
    }
  }

  private func ask(_ request: String, as number: Int) async throws -> String {
    let limit = Timeout.within(.milliseconds(500))
    let connection = try await connected()
    try await connection.write(utf8: "\(number) \(request)\n", timeout: limit)
    while true {
      let line = String(decoding: try await connection.read(until: .lf, timeout: limit).dropLast(), as: UTF8.self)
      // An earlier question that was cancelled may have its answer here.
      if line.hasPrefix("\(number) ") { return String(line.dropFirst("\(number) ".count)) }
    }
  }

  private func connected() async throws -> TCPConnection {
    if let connection { return connection }
    let new = try await TCPConnection.connect(to: endpoint, timeout: .milliseconds(500))
    connection = new
    return new
  }

  func close() async { await connection?.close() }
}

/// A client of the register, which lives as long as a majority of its replicas. It does one thing at a time.
///
/// This is the algorithm of Attiya, Bar-Noy and Dolev (1995).
struct RegisterClient {
  /// The number of this client. No other one has it.
  let number: Int
  let replicas: [ReplicaLink]
  /// Whether a read stores what it returns.
  var writesBack = true

  func write(_ value: String) async throws {
    let newest = try await newestOfMajority()
    try await store(Entry(number: newest.number + 1, writer: number, value: value))
  }

  func read() async throws -> String {
    let newest = try await newestOfMajority()
    // Without this, a later read by another client could find an older value.
    if writesBack { try await store(newest) }
    return newest.value
  }

  func close() async { for replica in replicas { await replica.close() } }

  private func store(_ entry: Entry) async throws { _ = try await askMajority("put \(entry.text)") }

  private func newestOfMajority() async throws -> Entry {
    try await askMajority("get").compactMap { Entry($0) }.reduce(Entry()) { $1.isNewer(than: $0) ? $1 : $0 }
  }

  /// Asks all replicas, and returns when a majority has answered.
  private func askMajority(_ request: String) async throws -> [String] {
    try await withThrowingTaskGroup { group in
      for replica in replicas { group.addTask { try await replica.ask(request) } }
      var answers: [String] = []
      while answers.count <= replicas.count / 2, let answer = try await group.next() { answers.append(answer) }
      group.cancelAll()
      return answers
    }
  }
}
