import ActorSockets

/// Answers questions from a cache, and asks other servers what it does not know.
actor DNSForwarder {
  struct Limits: Sendable {
    /// The largest number of clients that wait for an answer. Further ones get SERVFAIL at once.
    var waiting = 1000
    /// The largest number of answers in the cache.
    var cached = 10_000
    /// How long a TCP connection may be idle.
    var idle: Duration = .seconds(10)
  }

  private let upstream: DNSUpstream
  private nonisolated let limits: Limits
  private var cache: DNSCache
  /// The questions that are being asked. Clients with the same question wait for the same answer, so that an attacker gets no more
  /// chances to guess by asking more often.
  private var asked: [DNSQuestion: Task<DNSResponse, any Error>] = [:]
  /// The number of clients that wait for an answer.
  private(set) var waiting = 0

  init(upstream: DNSUpstream, limits: Limits = .init()) {
    self.upstream = upstream
    self.limits = limits
    cache = DNSCache(limit: limits.cached)
  }

  // MARK: Serving

  /// The settings of an endpoint for ``serve(_:)``: replies leave from the address to which the question was sent.
  nonisolated static var endpointConfiguration: UDPEndpoint.Configuration {
    var configuration = UDPEndpoint.Configuration()
    configuration.metadata = .localAddress
    return configuration
  }

  /// Answers the datagrams of an endpoint, until it is closed or the task is cancelled.
  nonisolated func serve(_ endpoint: UDPEndpoint) async throws {
    try await withThrowingDiscardingTaskGroup { group in
      for try await datagram in endpoint.datagrams {
        group.addTask {
          guard let answer = await self.answer(to: datagram.bytes, isDatagram: true) else { return }
          // A client that has gone is no reason to stop.
          try? await endpoint.send(datagram.reply(answer))
        }
      }
      group.cancelAll()
    }
  }

  /// Answers the messages on a connection: RFC 7766.
  nonisolated func serve(_ connection: some ByteStream) async throws {
    let idle = Timeout.after(limits.idle)
    for try await message in connection.messages(lengthPrefix: .uint16(.big), timeout: idle) {
      guard let answer = await answer(to: message, isDatagram: false) else { return }
      try await connection.write(message: answer, lengthPrefix: .uint16(.big), timeout: idle)
    }
  }

  // MARK: Answering

  /// Returns the answer to a client's message; `nil` if the client gets no answer.
  func answer(to message: [UInt8], isDatagram: Bool) async -> [UInt8]? {
    let query: DNSQuery
    do {
      query = try DNSQuery(parsing: message)
    } catch {
      return error.answer
    }
    let limit = isDatagram ? query.payloadSize : 65_535
    if let (response, age) = cache.answer(to: query.question, now: .now) {
      return response.message(to: query, age: age, limit: limit)
    }
    if waiting >= limits.waiting { return query.answer(.serverFailure) }
    waiting += 1
    defer { waiting -= 1 }
    do {
      return try await response(to: query.question).message(to: query, age: 0, limit: limit)
    } catch {
      return query.answer(.serverFailure)
    }
  }

  /// Asks a question, unless it is being asked already.
  private func response(to question: DNSQuestion) async throws -> DNSResponse {
    if let task = asked[question] { return try await task.value }
    let task = Task { try await upstream.ask(question) }
    asked[question] = task
    defer { asked[question] = nil }
    let response = try await task.value
    cache.keep(response, to: question, now: .now)
    return response
  }
}
