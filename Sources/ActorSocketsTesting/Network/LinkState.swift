// What happens to the packets of a link: a pure state machine.
//
// Invariants:
// - The packets of one connection arrive in the order in which they were sent. Connections do not wait for each other, and datagrams may
//   overtake each other.
// - A link with a bandwidth carries one packet at a time, in the order in which they were sent. The bytes that wait never exceed its
//   queue (`NetworkLink.queue`): a packet for which there is no room is lost.
// - `lastArrivals` has only connections with a packet on its way, and at most as many others.
// - A packet that a router rejects does not arrive. Its report does at that time, unless the packet was lost before.
// - Random numbers are drawn for each packet in the same way, whatever the outcome. So a change of one setting of a link changes the
//   fate of as few packets as possible.

internal import ActorSockets
internal import SocketSystem

/// One direction of the way between two hosts.
struct LinkState {
  private var busyUntil: Int64 = 0
  /// The arrivals of the last packets of connections, as their senders see them. Those of the past are forgotten from time to time.
  private var lastArrivals: [Flow: Int64] = [:]
  /// The size of `lastArrivals` at which the past is forgotten.
  private var manyArrivals = 16

  /// The connections that the link knows of.
  var connections: Int { lastArrivals.count }

  struct Fate {
    /// Empty if the packet is lost, two times if it is doubled.
    var arrivals: [Int64] = []
    /// When the link has sent the packet.
    let departure: Int64
    /// A router's report, and when it reaches the sender.
    var report: (content: ICMPReport, arrival: Int64)?
  }

  mutating func send(_ packet: Packet, over link: NetworkLink, at now: Int64, _ random: inout SplitMix) -> Fate {
    var fate = travel(packet, over: link, at: now, &random)
    guard let rejection = link.rejection, let arrival = fate.arrivals.first else { return fate }
    fate.arrivals = []
    fate.report = packet.report(of: rejection).map { ($0, arrival) }
    return fate
  }

  /// Like `send`, without the rejection by a router.
  private mutating func travel(
    _ packet: Packet, over link: NetworkLink, at now: Int64, _ random: inout SplitMix
  ) -> Fate {
    let chance = random.fraction()
    let delay = link.latency.draw(&random)
    let (departure, hasRoom) = depart(packet.size, over: link, at: now)
    if case .segment = packet.content {
      if link.isCut || !hasRoom || chance < link.loss { return Fate(departure: departure) }
      let arrival = keepOrder(Flow(local: packet.source, remote: packet.destination), departure + delay, at: now)
      return Fate(arrivals: [arrival], departure: departure)
    }
    let (late, double) = (random.fraction(), random.fraction())
    let copyDelay = link.latency.draw(&random)
    let isDelivered = chance < link.survival(of: packet)
    if link.isCut || !hasRoom || !isDelivered { return Fate(departure: departure) }
    var fate = Fate(arrivals: [departure + delay], departure: departure)
    // Its delay at least doubles, so that packets that are sent later can arrive first.
    if late < link.reordering { fate.arrivals[0] += max(delay, 1_000_000) * (1 + Int64(4 * late / link.reordering)) }
    if double < link.duplication { fate.arrivals.append(departure + copyDelay) }
    return fate
  }

  /// Returns when a packet arrives that would arrive at `arrival` without those before it.
  private mutating func keepOrder(_ flow: Flow, _ arrival: Int64, at now: Int64) -> Int64 {
    let ordered = max(arrival, lastArrivals[flow] ?? arrival)
    lastArrivals[flow] = ordered
    if lastArrivals.count > manyArrivals {
      lastArrivals = lastArrivals.filter { $0.value > now }
      manyArrivals = max(16, 2 * lastArrivals.count)
    }
    return ordered
  }

  /// Returns when the link has sent a packet, and whether the queue has room for it. A packet without room does not delay others.
  private mutating func depart(_ size: Int, over link: NetworkLink, at now: Int64) -> (departure: Int64, hasRoom: Bool)
  {
    guard let bandwidth = link.bandwidth else { return (now, true) }
    let rate = Double(max(1, bandwidth))
    if let queue = link.queue, busyUntil > now {
      let waiting = Double(busyUntil - now) * rate / 8e9
      if waiting + Double(size) > Double(queue) { return (now, false) }
    }
    let end = max(now, busyUntil) + Int64(Double(size * 8) / rate * 1e9)
    busyUntil = min(end, now + NetworkLink.Latency.longest)
    return (busyUntil, true)
  }
}

extension NetworkLink {
  /// The fraction of datagrams like this one that are not lost: each one needs all its fragments.
  func survival(of packet: Packet) -> Double {
    (0..<fragments(of: packet)).reduce(1) { fraction, _ in fraction * (1 - loss) }
  }

  /// All fragments but the last have a multiple of eight bytes: RFC 791, section 3.2. Those of IPv6 have one more header of eight bytes:
  /// RFC 8200, section 4.5.
  private func fragments(of packet: Packet) -> Int {
    if packet.size <= mtu { return 1 }
    let (header, more) = packet.destination.isIPv4 ? (20, 0) : (40, 8)
    let room = max(8, (mtu - header - more) / 8 * 8)
    return (packet.size - header + room - 1) / room
  }
}

extension NetworkLink.Latency {
  /// A year, in nanoseconds. Longer times count as a year, so that sums of times are never too large.
  static let longest: Int64 = 365 * 86_400 * 1_000_000_000

  private static func limited(_ time: Duration) -> Int64 { min(time.clampedNanoseconds, longest) }

  func draw(_ random: inout SplitMix) -> Int64 {
    let (one, other) = (random.fraction(), random.fraction())
    switch self {
    case .fixed(let time): return Self.limited(time)
    case .uniform(let least, let most):
      let (least, most) = (Self.limited(least), Self.limited(most))
      return least + Int64(one * Double(max(0, most - least)))
    case .normal(let mean, let deviation):
      // The sum of uniform numbers: close to normal, and the same on every machine.
      var sum = one + other
      for _ in 0..<10 { sum += random.fraction() }
      return max(0, Self.limited(mean) + Int64((sum - 6) * Double(Self.limited(deviation))))
    case .heavyTail(let minimum, let shape):
      let time = Double(Self.limited(minimum)) * min(1_000, power(1 / (1 - one), 1 / max(1, shape)))
      return Int64(min(time, Double(Self.longest)))
    }
  }
}

/// A power of a number from 1 on, by an exponent from 0 to 1: square roots for the bits of the exponent. The result of the C library's
/// function may differ from machine to machine.
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
  /// From 0 up to, but not including, 1.
  mutating func fraction() -> Double { Double(next() >> 11) * 0x1p-53 }
}
