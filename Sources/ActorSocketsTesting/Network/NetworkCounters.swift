internal import SocketSystem

/// The packets that one link, or all links together, have carried so far.
///
/// Packets that a host sends to itself do not pass a link, and do not count.
public struct NetworkCounters: Hashable, Sendable, CustomStringConvertible {
  /// The packets that were sent, also those that were lost.
  public var packets = 0
  /// Their bytes, with the headers of IP, TCP, UDP and ICMP.
  public var bytes = 0
  /// The packets that were lost: by chance, because the link was cut, because its ``NetworkLink/queue`` had no room, or because a router
  /// rejected or a middlebox dropped them.
  public var lostPackets = 0
  /// The packets that arrived twice.
  public var duplicatedPackets = 0
  /// The segments of TCP that were sent again, because no acknowledgement came in time, or the receiver reported that they are missing.
  public var retransmittedSegments = 0
  /// The connections that the sender has begun to open.
  public var openedConnections = 0
  /// The segments of TCP that reset a connection, or refuse one.
  public var resets = 0
  /// The datagrams that arrived, but found no room in the receive buffer of their socket.
  public var droppedDatagrams = 0

  /// Creates counters that are zero.
  public init() {}

  /// For example `12 packets (840 bytes), 1 lost, 1 retransmitted, 1 connection opened`. Counters that are zero are left out.
  public var description: String {
    var parts = ["\(packets) packets (\(bytes) bytes)"]
    for (count, name) in [
      (lostPackets, "lost"), (duplicatedPackets, "duplicated"), (retransmittedSegments, "retransmitted"),
      (openedConnections, openedConnections == 1 ? "connection opened" : "connections opened"),
      (resets, resets == 1 ? "reset" : "resets"), (droppedDatagrams, "dropped for lack of room"),
    ] where count > 0 { parts.append("\(count) \(name)") }
    return parts.joined(separator: ", ")
  }

  mutating func sent(_ packet: Packet, arrivals: Int) {
    packets += 1
    bytes += packet.size
    if arrivals == 0 { lostPackets += 1 }
    if arrivals > 1 { duplicatedPackets += 1 }
    guard case .segment(let segment) = packet.content else { return }
    if segment.isReset { resets += 1 }
    if segment.isRepeated {
      retransmittedSegments += 1
    } else if segment.isSyn, segment.acknowledged == nil {
      openedConnections += 1
    }
  }

  static func += (sum: inout NetworkCounters, other: NetworkCounters) {
    sum.packets += other.packets
    sum.bytes += other.bytes
    sum.lostPackets += other.lostPackets
    sum.duplicatedPackets += other.duplicatedPackets
    sum.retransmittedSegments += other.retransmittedSegments
    sum.openedConnections += other.openedConnections
    sum.resets += other.resets
    sum.droppedDatagrams += other.droppedDatagrams
  }
}

extension Simulation {
  /// The counters of all links together. Within the simulated program only.
  public var counters: NetworkCounters { VirtualThread.required.network.links.counters }

  /// Returns the counters of the link from one host to another. Within the simulated program only.
  ///
  /// - Parameters:
  ///   - sender: The host that sends.
  ///   - receiver: The host that receives.
  /// - Returns: The counters.
  public func counters(from sender: SimulatedHost, to receiver: SimulatedHost) -> NetworkCounters {
    VirtualThread.required.network.links.counters(from: sender.number, to: receiver.number)
  }
}
