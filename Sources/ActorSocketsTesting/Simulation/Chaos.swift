/// How often which faults happen while ``Simulation/withChaos(_:among:_:)`` runs.
///
/// ```swift
/// var chaos = Chaos()
/// chaos.weights[.crash] = 1
/// try await simulation.withChaos(chaos) { try await runClients() }
/// ```
public struct Chaos: Hashable, Sendable {
  /// The kinds of faults.
  public enum Fault: Hashable, Sendable, CaseIterable {
    /// Packets take much longer.
    case latency
    /// Packets are lost.
    case loss
    /// Datagrams arrive twice.
    case duplication
    /// Datagrams arrive in another order.
    case reordering
    /// Links are cut.
    case partition
    /// Links carry only packets of 576 bytes. It concerns datagrams, and streams that are opened meanwhile.
    case smallMTU
    /// A host stands still: ``SimulatedHost/pause()``.
    case pause
    /// A host crashes, in one of the two ways, and restarts: ``SimulatedHost/crash(_:)``. In one of them its disk loses what was not
    /// synchronized.
    case crash
  }

  /// How long it takes from one fault to the next. Each time between the two is equally likely.
  public var interval: ClosedRange<Duration>
  /// How long a fault lasts. It is repaired after the longer time at the latest.
  public var duration: ClosedRange<Duration>
  /// How likely each fault is, as a fraction of the sum of all weights. A fault without a weight does not happen.
  public var weights: [Fault: Double]
  /// The longest time that a packet takes while a link has the fault `.latency`; half of it at least.
  public var latency: Duration
  /// The fraction of packets that a link loses, doubles or reorders while it has one of these faults, 0 to 1.
  public var fraction: Double
  /// How many faults of a kind there can be at one time, from 1 on; 1 for kinds that are not in it. With `[.crash: 2]`, two hosts can be
  /// down, and they can crash at the same moment.
  public var mostAtOnce: [Fault: Int]
  /// How likely a fault begins where the program calls ``Simulation/point(_:)``, 0 to 1. Each seed chooses half of the names, and nothing
  /// happens at the others. The fault is a crash or a pause of the host, or a partition between it and all others, by their weights.
  public var pointChance: Double
  /// The faults that take place, by their numbers; all others are left out. `nil`, the default, for all. The error of
  /// ``Simulation/explore(seeds:order:timeLimit:timeOfDay:checksDeterminism:processes:_:)`` names those that a failure needs.
  public var onlyFaults: Set<Int>?

  /// Creates chaos. By default it has all faults except crashes, which only a program that stores its state survives.
  ///
  /// - Parameters:
  ///   - interval: How long it takes from one fault to the next, from zero on.
  ///   - duration: How long a fault lasts, from zero on.
  ///   - weights: How likely each fault is.
  ///   - latency: The longest time that a packet takes while a link has the fault `.latency`.
  ///   - fraction: The fraction of packets that a link loses, doubles or reorders while it has one of these faults, 0 to 1.
  ///   - mostAtOnce: How many faults of a kind there can be at one time, from 1 on.
  ///   - pointChance: How likely a fault begins at a point of the program, 0 to 1.
  ///   - onlyFaults: The numbers of the faults that take place; `nil` for all.
  public init(
    interval: ClosedRange<Duration> = .milliseconds(50)...(.seconds(1)),
    duration: ClosedRange<Duration> = .milliseconds(10)...(.seconds(2)),
    weights: [Fault: Double] = Chaos.withoutCrashes, latency: Duration = .milliseconds(500), fraction: Double = 0.3,
    mostAtOnce: [Fault: Int] = [:], pointChance: Double = 0.2, onlyFaults: Set<Int>? = nil
  ) {
    self.interval = interval
    self.duration = duration
    self.weights = weights
    self.latency = latency
    self.fraction = fraction
    self.mostAtOnce = mostAtOnce
    self.pointChance = pointChance
    self.onlyFaults = onlyFaults
  }

  /// All faults but crashes, each equally likely.
  public static let withoutCrashes: [Fault: Double] = [
    .latency: 1, .loss: 1, .duplication: 1, .reordering: 1, .partition: 1, .smallMTU: 1, .pause: 1,
  ]
}

/// The effect of chaos on a link for a while. The link that the program has set stays as it is.
struct LinkDisturbance: Hashable {
  var latency: NetworkLink.Latency?
  var loss = 0.0
  var duplication = 0.0
  var reordering = 0.0
  var mtu: Int?
  var isCut = false

  func applied(to link: NetworkLink) -> NetworkLink {
    var link = link
    if let latency { link.latency = latency }
    link.loss = max(link.loss, loss)
    link.duplication = max(link.duplication, duplication)
    link.reordering = max(link.reordering, reordering)
    if let mtu { link.mtu = min(link.mtu, mtu) }
    if isCut { link.isCut = true }
    return link
  }
}
