/// What one end of a TCP connection knows of whether its peer still exists. All times are in nanoseconds.
struct TCPLiveness {
  struct KeepAlive {
    var idle: Int64
    var interval: Int64
    var count: Int
  }

  /// When something last arrived.
  private(set) var heardAt: Int64 = 0
  /// The probes of keep-alive since then.
  private(set) var probes = 0
  var keepAlive: KeepAlive?
  /// TCP_USER_TIMEOUT; 0 for the system's own limits.
  var userTimeout: Int64 = 0

  mutating func heard(at now: Int64) {
    heardAt = now
    probes = 0
  }

  /// When to give up a peer that has not answered since some time; `nil` for the system's own limits.
  func limit(since time: Int64) -> Int64? { userTimeout > 0 ? time + userTimeout : nil }

  var nextProbe: Int64? { keepAlive.map { heardAt + $0.idle + Int64(probes) * $0.interval } }

  mutating func probed() { probes += 1 }

  /// Whether there were enough probes without an answer.
  func isLost(at now: Int64) -> Bool {
    guard let keepAlive else { return false }
    if let limit = limit(since: heardAt) { return now >= limit && probes > 0 }
    return probes >= keepAlive.count
  }
}
