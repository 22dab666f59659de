import ActorSockets

/// Asks several time servers how much this machine's clock is off: RFC 5905, in its simple form (SNTP).
package struct NTPClient: Sendable {
  package struct Sample: Sendable {
    package let server: Endpoint
    /// What must be added to this machine's clock.
    package let offset: Duration
    /// How long question and answer were under way. The offset is wrong by at most half of it.
    package let delay: Duration
  }

  struct NoAnswer: Error, CustomStringConvertible {
    var description: String { "no server has answered" }
  }

  /// How often a server is asked, and how long the first answer may take. The time doubles with each question.
  package var attempts = 3
  package var patience: Duration = .seconds(1)

  package init() {}

  /// Asks all servers at the same time.
  ///
  /// - Returns: The offset in the middle of those that were answered, and all answers.
  package func run(_ servers: [Endpoint]) async throws -> (offset: Duration, samples: [Sample]) {
    let samples = try await withThrowingTaskGroup(of: Sample?.self) { group in
      // A server that cannot be reached counts as one that does not answer.
      for server in servers { group.addTask { try? await sample(of: server) } }
      return try await group.reduce(into: []) { $0 += [$1].compactMap { $0 } }.sorted { $0.offset < $1.offset }
    }
    try Task.checkCancellation()
    if samples.isEmpty { throw NoAnswer() }
    return (samples[samples.count / 2].offset, samples)
  }

  private func sample(of server: Endpoint) async throws -> Sample? {
    let configuration = UDPEndpoint.Configuration.with { $0.metadata = .timestamp }
    return try await UDPEndpoint.withEndpoint(connectedTo: server, configuration: configuration) { endpoint in
      var wait = patience
      for _ in 1...attempts {
        // The server repeats these bytes. Who does not see the question cannot guess them, and they do not tell this machine's time.
        let cookie = (0..<8).map { _ in UInt8.random(in: 0...255) }
        let sent = UnixTime.now
        try await endpoint.send([0x23] + Array(repeating: 0, count: 39) + cookie)
        let end = ContinuousClock.now + wait
        while let datagram = try await endpoint.receive(until: end) {
          guard let times = Self.times(datagram.bytes, cookie) else { continue }
          let received = datagram.timestamp ?? .now
          let (there, back) = (sent.duration(to: times.received), received.duration(to: times.sent))
          return Sample(server: server, offset: (there + back) / 2, delay: there - back)
        }
        wait *= 2
      }
      return nil
    }
  }

  /// Returns when the server has received the question, and when it has sent this answer; `nil` if it is no answer to the question.
  private static func times(_ bytes: [UInt8], _ cookie: [UInt8]) -> (received: UnixTime, sent: UnixTime)? {
    // The mode of a server; a stratum, which is 0 for a server that does not want to be asked; a clock that is set.
    guard bytes.count >= 48, bytes[0] & 7 == 4, 1...15 ~= bytes[1], bytes[0] >> 6 != 3,
      bytes[24..<32].elementsEqual(cookie)
    else { return nil }
    return (time(bytes[32..<40]), time(bytes[40..<48]))
  }

  /// Seconds since 1900, and their fraction. The era that began in 1968 ends in 2104.
  private static func time(_ bytes: ArraySlice<UInt8>) -> UnixTime {
    let value = bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    let (seconds, fraction) = (Int(value >> 32), value & 0xFFFF_FFFF)
    let era = seconds < 0x8000_0000 ? 1 << 32 : 0
    return UnixTime(
      durationSince1970: .seconds(seconds + era - 2_208_988_800) + .nanoseconds(Int64((fraction * 1_000_000_000) >> 32))
    )
  }
}
