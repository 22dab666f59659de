// The links between the hosts of a simulation, with the middleboxes on them and what they have carried.

internal import SocketSystem

struct NetworkLinks {
  private struct Way: Hashable {
    let from: Int
    let to: Int
  }

  private struct Link {
    /// `nil` if the way has `defaultLink`.
    var own: NetworkLink?
    /// Whether the way is cut, whichever link it has.
    var isCut = false
    /// The faults of chaos that have not ended, each with its number.
    var disturbances: [(number: Int, disturbance: LinkDisturbance)] = []
    var state = LinkState()
    var counters = NetworkCounters()

    mutating func send(_ packet: Packet, over link: NetworkLink, at now: Int64, _ random: inout SplitMix)
      -> LinkState.Fate
    {
      let fate = state.send(packet, over: link, at: now, &random)
      counters.sent(packet, arrivals: fate.arrivals.count)
      return fate
    }
  }

  /// The link of all pairs of hosts that have no link of their own.
  var defaultLink = NetworkLink()
  private var links: [Way: Link] = [:]
  private var disturbances = 0
  /// The lower number of the two hosts is `from`.
  private var middleboxes: [Way: MiddleboxState] = [:]

  // MARK: Settings

  /// Also repairs a link that was cut.
  mutating func set(_ link: NetworkLink, from: Int, to: Int) {
    let way = Way(from: from, to: to)
    links[way, default: Link()].own = link
    links[way]?.isCut = false
  }

  /// Cuts the link from one host to another, or repairs it. A way with `defaultLink` keeps it.
  mutating func cut(_ isCut: Bool, from: Int, to: Int) {
    let way = Way(from: from, to: to)
    var known = links[way] ?? Link()
    known.isCut = isCut
    var link = known.own ?? defaultLink
    if !isCut, link.isCut {
      // The link itself was given as one that is cut.
      link.isCut = false
      known.own = link
    }
    links[way] = known
  }

  /// The link as the program has set it.
  func link(from: Int, to: Int) -> NetworkLink {
    links[Way(from: from, to: to)].map { setting(of: $0) } ?? defaultLink
  }

  private func setting(of known: Link) -> NetworkLink {
    var link = known.own ?? defaultLink
    if known.isCut { link.isCut = true }
    return link
  }

  /// Adds a fault of chaos to these ways. Returns its number.
  mutating func disturb(_ ways: [(from: Int, to: Int)], by disturbance: LinkDisturbance) -> Int {
    disturbances += 1
    for (from, to) in ways {
      links[Way(from: from, to: to), default: Link()].disturbances.append((disturbances, disturbance))
    }
    return disturbances
  }

  mutating func endDisturbance(_ number: Int, of ways: [(from: Int, to: Int)]) {
    for (from, to) in ways { links[Way(from: from, to: to)]?.disturbances.removeAll { $0.number == number } }
  }

  /// The link as packets find it: chaos can have changed it.
  func disturbedLink(from: Int, to: Int) -> NetworkLink {
    guard let known = links[Way(from: from, to: to)] else { return defaultLink }
    return known.disturbances.reduce(setting(of: known)) { $1.disturbance.applied(to: $0) }
  }

  /// The smaller MTU of the two directions.
  func mtu(between one: Int, and other: Int) -> Int {
    min(disturbedLink(from: one, to: other).mtu, disturbedLink(from: other, to: one).mtu)
  }

  mutating func setMiddlebox(_ middlebox: Middlebox?, between one: Int, and other: Int) {
    middleboxes[Way(from: min(one, other), to: max(one, other))] = middlebox.map { MiddleboxState($0) }
  }

  // MARK: Counters

  var counters: NetworkCounters { links.values.reduce(into: NetworkCounters()) { $0 += $1.counters } }

  func counters(from: Int, to: Int) -> NetworkCounters { links[Way(from: from, to: to)]?.counters ?? NetworkCounters() }

  mutating func droppedDatagram(from: Int, to: Int) {
    links[Way(from: from, to: to), default: Link()].counters.droppedDatagrams += 1
  }

  // MARK: Packets

  struct Passage {
    var fate: LinkState.Fate
    /// The decision of a middlebox. The fate has no arrivals if the packet does not pass.
    var verdict = MiddleboxState.Verdict.pass
    let mtu: Int
  }

  mutating func send(
    _ packet: Packet, from host: Int, to target: Int, passesMiddlebox: Bool, at now: Int64, _ random: inout SplitMix
  ) -> Passage {
    let way = Way(from: host, to: target)
    let link = disturbedLink(from: host, to: target)
    let fate = links[way, default: Link()].send(packet, over: link, at: now, &random)
    var passage = Passage(fate: fate, mtu: link.mtu)
    if middleboxes.isEmpty || !passesMiddlebox || fate.arrivals.isEmpty { return passage }
    let boxes = Way(from: min(host, target), to: max(host, target))
    passage.verdict = middleboxes[boxes]?.verdict(on: packet, at: now) ?? .pass
    if passage.verdict != .pass {
      passage.fate.arrivals = []
      links[way]?.counters.lostPackets += 1
    }
    return passage
  }
}
