// What happens to the packets of a link: a pure state machine.
//
// Invariants:
// - The packets of streams arrive in the order in which they were sent.
// - A link with a bandwidth carries one packet at a time, in the order in which they were sent.
// - Random numbers are drawn for each packet in the same way, whatever the outcome. So a change of one setting of a link changes the
//   fate of as few packets as possible.

internal import ActorSockets
internal import SocketSystem

/// One direction of the way between two hosts.
struct LinkState {
  var link: NetworkLink
  /// When the link has sent what it has.
  private var busyUntil: Int64 = 0
  /// When the last packet of a stream arrives.
  private var lastArrival: Int64 = 0

  init(_ link: NetworkLink) { self.link = link }

  /// Sends a packet.
  ///
  /// - Parameters:
  ///   - size: Its bytes.
  ///   - now: The time, in nanoseconds.
  ///   - random: Decides what is random.
  /// - Returns: When the packet arrives; `nil` if it is lost.
  mutating func send(_ size: Int, at now: Int64, _ random: inout SplitMix) -> Int64? {
    let chance = random.fraction()
    let delay = link.latency.draw(&random)
    var start = max(now, busyUntil)
    if let bandwidth = link.bandwidth {
      start += Int64(Double(size * 8) / Double(max(1, bandwidth)) * 1e9)
      busyUntil = start
    } else {
      start = now
    }
    if link.isCut || chance < link.loss { return nil }
    lastArrival = max(lastArrival, start + delay)
    return lastArrival
  }
}

extension NetworkLink.Latency {
  /// A time from the distribution, in nanoseconds.
  func draw(_ random: inout SplitMix) -> Int64 {
    let (one, other) = (random.fraction(), random.fraction())
    switch self {
    case .fixed(let time): return max(0, time.clampedNanoseconds)
    case .uniform(let least, let most):
      let (least, most) = (max(0, least.clampedNanoseconds), max(0, most.clampedNanoseconds))
      return least + Int64(one * Double(max(0, most - least)))
    case .normal(let mean, let deviation):
      // The sum of uniform numbers: close to normal, and the same on every machine.
      var sum = one + other
      for _ in 0..<10 { sum += random.fraction() }
      return max(0, mean.clampedNanoseconds + Int64((sum - 6) * Double(deviation.clampedNanoseconds)))
    case .heavyTail(let minimum, let shape):
      let minimum = Double(max(0, minimum.clampedNanoseconds))
      return Int64(minimum * min(1_000, power(1 / (1 - one), 1 / max(1, shape))))
    }
  }
}

/// A power of a number from 1 on, by an exponent from 0 to 1: square roots for the bits of the exponent. The C library's function is
/// not used, because it may differ from machine to machine.
private func power(_ base: Double, _ exponent: Double) -> Double {
  if exponent >= 1 { return base }
  var (result, root, rest) = (1.0, base, exponent)
  for _ in 0..<30 {
    root = root.squareRoot()
    rest *= 2
    if rest >= 1 {
      result *= root
      rest -= 1
    }
  }
  return result
}

extension SplitMix {
  /// A number from 0 up to, but not including, 1.
  mutating func fraction() -> Double { Double(next() >> 11) * 0x1p-53 }
}
