import ActorSockets

/// How long what is sent has to wait so that no more than `rate` bytes leave in a second, but for bursts.
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

  /// Takes `count` bytes out of the bucket, which may become less than empty.
  ///
  /// - Returns: How long to wait before they are sent.
  mutating func take(_ count: Int, now: ContinuousClock.Instant = .now) -> Duration {
    tokens = min(burst, tokens + last.duration(to: now) / .seconds(1) * rate) - Double(count)
    last = now
    return tokens < 0 ? .seconds(-tokens / rate) : .zero
  }
}

/// Passes datagrams on at the pace of a bucket: a filter that may take its time, as a loop.
///
/// While it waits nothing is received: more than fits into the socket's buffer is dropped there, as on a slow line.
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
