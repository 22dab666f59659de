import ActorSocketsTLS
import ByteText
import Synchronization

/// Hands jobs of clients to workers, over TLS. A job is a line, and so is its result. Let the context require certificates of clients, unless
/// anyone may be a worker.
///
/// ```
/// worker   work                     client   submit
/// server   ready                    client   JOB
/// server   JOB                      server   ok RESULT, or: error REASON
/// worker   RESULT
/// ```
package struct JobServer: Sendable {
  package static let longest = 16_384

  package var options = ServeOptions(
    limits: .init(connections: 1_000, connectionsPerPeer: 100), stopOn: [.terminate, .interrupt])
  /// How long a worker may work on a job.
  package var timeLimit: Duration = .seconds(60)

  package init() {}

  /// Serves until a signal. Jobs that have begun then have the time of the drain.
  package func run(_ listener: some StreamListener, tls context: TLSContext) async throws -> ServeReport {
    let workers = Workers()
    return try await listener.serve(tls: context, options) { connection in
      let role = ByteText(try await connection.read(until: .lf, maximumLength: 10, timeout: .seconds(10)))
      if role.equals("work\n") {
        try await connection.write(utf8: "ready\n", timeout: .seconds(10))
        workers.add(connection)
        defer { workers.remove(connection) }
        try await withThrowingTaskGroup { group in
          group.addTask { try await connection.waitUntilDraining() }
          group.addTask { try await connection.peerFinishedWriting() }
          defer { group.cancelAll() }
          try await group.next()
        }
        workers.remove(connection)
        await connection.close(after: .pendingReadsAndWrites)
      } else if role.equals("submit\n") {
        for try await job in connection.lines(maximumLength: Self.longest, timeout: .sinceFirstByte(.seconds(30))) {
          try await connection.write(utf8: "\(await result(of: job, workers))\n", timeout: .seconds(30))
        }
      }
    }
  }

  private func result(of job: String, _ workers: Workers) async -> String {
    for _ in 1...3 {
      guard let worker = workers.take() else { return "error there is no worker" }
      defer { workers.giveBack(worker) }
      // If a worker fails, another one gets the job.
      let result = try? await worker.ask(
        utf8: "\(job)\n", for: .line(maximumLength: Self.longest), timeout: Timeout(timeLimit))
      if let result { return "ok \(result)" }
    }
    return "error three workers have failed"
  }
}

/// The workers, and how many jobs each has.
private final class Workers: Sendable {
  private let jobs = Mutex<[TLSConnection: Int]>([:])

  func add(_ worker: TLSConnection) { jobs.withLock { $0[worker] = 0 } }
  func remove(_ worker: TLSConnection) { jobs.withLock { $0[worker] = nil } }

  /// Returns the worker with the fewest jobs; `nil` if there is no worker, or if all have a hundred.
  func take() -> TLSConnection? {
    jobs.withLock { jobs in
      let least = jobs.filter { !$0.key.hasPeerFinished && $0.value < 100 }.min { $0.value < $1.value }?.key
      if let least { jobs[least, default: 0] += 1 }
      return least
    }
  }

  func giveBack(_ worker: TLSConnection) { jobs.withLock { jobs in jobs[worker] = jobs[worker].map { $0 - 1 } } }
}

/// Works for a server, and connects again whenever the connection has ended.
package struct JobWorker: Sendable {
  struct NotWelcome: Error {}

  private let pool: ConnectionPool<TLSConnection>

  package init(_ server: Endpoint, tls context: TLSContext) {
    // Pauses grow while the server cannot be reached, or accepts and says nothing.
    pool = ConnectionPool(.with { $0.connections = 1 }) {
      let connection = try await TLSConnection.connect(to: server, context: context)
      _ = try await connection.ask(utf8: "work\n", for: .until(.lf, maximumLength: 10), timeout: .within(.seconds(10)))
      return connection
    }
  }

  /// Works until the task is cancelled, or until an error that connecting again would only repeat.
  package func run(_ work: @Sendable (String) async -> String) async throws {
    while true {
      do {
        try await pool.withConnection(timeout: .within(.seconds(86_400))) { connection in
          for try await job in connection.lines(maximumLength: JobServer.longest) {
            try await connection.write(utf8: "\(await work(job))\n", timeout: .seconds(30))
          }
        }
      } catch let error as any NetworkError where error.isRetryable {
        // The server was lost, perhaps in the middle of a job.
      }
    }
  }
}

/// Submits jobs to a server.
package struct JobClient: Sendable {
  private let pool: ConnectionPool<TLSConnection>

  package init(_ server: Endpoint, tls context: TLSContext) {
    pool = ConnectionPool {
      let connection = try await TLSConnection.connect(to: server, context: context)
      try await connection.write(utf8: "submit\n", timeout: .seconds(10))
      return connection
    }
  }

  struct TwoJobs: Error {}

  /// Submits a job, which is one line, and returns the answer.
  package func run(_ job: String) async throws -> String {
    if job.utf8.contains(10) { throw TwoJobs() }
    return try await pool.withConnection { connection in
      let answer = try await connection.ask(
        utf8: "\(job)\n", for: .until(.lf, maximumLength: 2 * JobServer.longest), timeout: .within(.seconds(300)))
      return String(decoding: answer.dropLast(), as: UTF8.self)
    }
  }
}
