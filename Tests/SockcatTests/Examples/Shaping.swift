import ActorSockets

/// Limits the number of bytes that leave in a second to `rate`, except for a burst after a pause.
struct TokenBucket {
  /// Bytes a second.
  let rate: Double
  /// The bytes that may leave at once after a pause.
  let burst: Double
  private var tokens: Double
  private var last: ContinuousClock.Instant

  init(rate: Double, burst: Double, now: ContinuousClock.Instant = .now) {
    (self.rate, self.burst, tokens, last) = (rate, burst, burst, now)
  }

  /// Takes this number of bytes out of the bucket. Its contents may become negative.
  ///
  /// - Returns: How long to wait before they are sent.
  mutating func take(_ count: Int, now: ContinuousClock.Instant = .now) -> Duration {
    tokens = min(burst, tokens + last.duration(to: now) / .seconds(1) * rate) - Double(count)
    last = now
    return tokens < 0 ? .seconds(-tokens / rate) : .zero
  }
}

/// Forwards datagrams at the pace of a bucket.
///
/// While the loop sleeps, it receives nothing. The kernel drops the datagrams that do not fit into the socket's buffer, as on a slow line.
func shape(
  _ source: UDPEndpoint, to target: SocketAddress, through exit: UDPEndpoint, by bucket: TokenBucket
) async throws {
  var bucket = bucket
  for try await datagram in source.datagrams {
    let wait = bucket.take(datagram.bytes.count)
    if wait > .zero { try await Task.sleep(for: wait) }
    try await exit.send(datagram.bytes, to: target)
  }
}
