import ActorSockets

/// Gives a lease to one client at a time.
actor LeaseKeeper {
  private let duration: Duration
  private var holder = ""
  private var end = ContinuousClock.now

  init(for duration: Duration) { self.duration = duration }

  /// Gives the lease to a client and returns `nil`. If another client has it, returns for how long.
  func give(to client: String) -> Duration? {
    let now = ContinuousClock.now
    if now < end, client != holder { return now.duration(to: end) }
    (holder, end) = (client, now + duration)
    return nil
  }
}

/// Serves a lease. Each line is the name of a client, which asks for it. The answer is 0, or for how many milliseconds another one has it.
func serve(_ keeper: LeaseKeeper, on listener: some StreamListener) async throws {
  _ = try await listener.serve { connection in
    for try await client in connection.lines(maximumLength: 100) {
      let left = await keeper.give(to: client).map { Int($0 / .milliseconds(1)) + 1 } ?? 0
      try await connection.write(utf8: "\(left)\n", timeout: .seconds(10))
    }
  }
}

/// A client that wants a lease.
struct LeaseClient {
  let name: String
  let connection: TCPConnection
  /// How long the lease lasts on the client's clock. This is less than on the keeper's: one clock may be faster than the other.
  let duration: Duration

  /// Waits for the lease.
  ///
  /// - Returns: When it ends.
  func acquire() async throws -> ContinuousClock.Instant {
    while true {
      // It counts from here, because the keeper gives it later than this.
      let asked = ContinuousClock.now
      try await connection.write(utf8: "\(name)\n", timeout: .seconds(10))
      let answer = String(decoding: try await connection.read(until: .lf, timeout: .seconds(10)), as: UTF8.self)
      if answer == "0\n" { return asked + duration }
      try await Task.sleep(for: .milliseconds(Int(answer.dropLast()) ?? 1_000))
    }
  }
}
