internal import SocketSystem

/// What travels from one host to another.
struct Packet: Sendable {
  /// What a packet carries.
  enum Content: Sendable {
    case segment(Segment)
    case datagram(UDPDatagram)
    case report(ICMPReport)
  }

  let source: SocketAddress
  let destination: SocketAddress
  let content: Content

  /// The bytes on the wire, with the headers of IP and of the protocol.
  var size: Int {
    let header = destination.isIPv4 ? 20 : 40
    return switch content {
    case .segment(let segment): header + 20 + segment.bytes.count
    case .datagram(let datagram): header + 8 + datagram.bytes.count
    // It contains the header of the packet that it is about.
    case .report: 2 * header + 16
    }
  }
}

extension SocketAddress {
  /// Whether packets to this address go to several hosts: a multicast group or a broadcast address.
  var isOfSeveral: Bool { isMulticast || isBroadcast }
  /// Whether this is the broadcast address of all networks, or that of the hosts' own network, 10.0.0.0/8.
  var isBroadcast: Bool {
    if case .ipv4(let address, _) = unmapped {
      address.rawValue == .max || address.rawValue == 0x0aff_ffff
    } else {
      false
    }
  }
}

/// A datagram of UDP, without addresses.
struct UDPDatagram: Sendable {
  let bytes: [UInt8]
  /// The time to live, or the hop limit.
  var hopLimit: UInt8 = 64
  /// The type of service, or the traffic class.
  var trafficClass: UInt8 = 0
  /// The interface on which it arrives. If it is not `lo`, it is the same on all hosts.
  var interface = SimulatedKernel.networkInterface
}

/// The two ends of a connection, as one of them sees it. Addresses are never IPv4-mapped.
struct Flow: Hashable, Sendable {
  let local: SocketAddress
  let remote: SocketAddress
}
