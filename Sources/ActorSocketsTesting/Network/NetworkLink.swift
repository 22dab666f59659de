/// How packets travel in one direction from one simulated host to another.
///
/// ```swift
/// simulation.setLink(NetworkLink(latency: .uniform(.milliseconds(20), .milliseconds(60)), loss: 0.01), between: client, and: server)
/// ```
///
/// Streams survive the loss of packets: TCP sends lost bytes again, and they arrive later. The packets of one connection keep their
/// order; connections do not wait for each other. Datagrams are lost, doubled and reordered, because UDP does not prevent it.
public struct NetworkLink: Hashable, Sendable {
  /// How long a packet travels.
  public enum Latency: Hashable, Sendable {
    /// Always the same time.
    case fixed(Duration)
    /// Any time between two, each equally likely.
    case uniform(Duration, Duration)
    /// A normal distribution around a mean, with a standard deviation; never less than zero.
    case normal(mean: Duration, deviation: Duration)
    /// At least `minimum`, mostly near it, and sometimes much longer: a Pareto distribution. The lower `shape` is, the heavier its tail;
    /// it is at least 1. No packet takes longer than a thousand times `minimum`.
    case heavyTail(minimum: Duration, shape: Double)
  }

  /// How long a packet travels; a millisecond by default.
  public var latency: Latency
  /// The bits per second that the link carries; `nil`, the default, for no limit. Packets that come faster wait in a queue.
  public var bandwidth: Int?
  /// The most bytes that wait while the link is busy, with the headers of all packets; `nil`, the default, for no limit. A packet for which
  /// there is no room is lost. It has an effect only with a ``bandwidth``.
  public var queue: Int?
  /// The fraction of packets that are lost, 0 to 1.
  public var loss: Double
  /// The fraction of datagrams that arrive twice, 0 to 1.
  public var duplication: Double
  /// The fraction of datagrams that arrive late, 0 to 1: two to six times the latency, and at least a millisecond more than it. With latencies
  /// that vary, others overtake each other, too.
  public var reordering: Double
  /// The largest packet in bytes, 576 to 65,535; 1,500 by default. Streams divide their bytes accordingly. A longer
  /// datagram is sent in fragments, and lost with any of them.
  public var mtu: Int
  /// Whether nothing arrives: the packets of a link that is cut are lost.
  public var isCut = false
  /// The report that a router halfway sends instead of forwarding packets; `nil`, the default, if it forwards them.
  ///
  /// ```swift
  /// var link = simulation.link(from: client, to: server)
  /// link.rejection = .hostUnreachable
  /// simulation.setLink(link, from: client, to: server)
  /// ```
  ///
  /// The report reaches the sender when the packet would have arrived. As on Linux, a connection that is being opened fails at once. An
  /// open connection tries again until it times out, and then fails with the error of the last report: tcp(7). For datagrams see ip(7),
  /// IP_RECVERR. Packets that the link loses, packets on a cut link, and packets for several hosts are not reported.
  public var rejection: Rejection?

  /// The report of a router that does not forward a packet: "destination unreachable" of ICMP, RFC 792 and RFC 4443.
  public enum Rejection: Hashable, Sendable {
    /// No route leads to the network: ENETUNREACH.
    case networkUnreachable
    /// The host cannot be reached: EHOSTUNREACH.
    case hostUnreachable
    /// A filter forbids it: EHOSTUNREACH, and EACCES with IPv6.
    case administrativelyProhibited
  }

  /// Creates a link.
  ///
  /// - Parameters:
  ///   - latency: How long a packet travels.
  ///   - bandwidth: The bits per second; `nil` for no limit.
  ///   - queue: The most bytes that wait while the link is busy; `nil` for no limit.
  ///   - loss: The fraction of packets that are lost, 0 to 1.
  ///   - duplication: The fraction of datagrams that arrive twice, 0 to 1.
  ///   - reordering: The fraction of datagrams that arrive late, 0 to 1.
  ///   - mtu: The largest packet in bytes, 576 to 65,535.
  public init(
    latency: Latency = .fixed(.milliseconds(1)), bandwidth: Int? = nil, queue: Int? = nil, loss: Double = 0,
    duplication: Double = 0, reordering: Double = 0, mtu: Int = 1_500
  ) {
    self.latency = latency
    self.bandwidth = bandwidth
    self.queue = queue
    self.loss = loss
    self.duplication = duplication
    self.reordering = reordering
    self.mtu = mtu
  }
}
