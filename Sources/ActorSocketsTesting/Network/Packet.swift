internal import SocketSystem

struct Packet: Sendable {
  enum Content: Sendable {
    case segment(Segment)
    case datagram(UDPDatagram)
    case report(ICMPReport)
  }

  let source: SocketAddress
  let destination: SocketAddress
  let content: Content

  /// In bytes, with the headers of IP and of the protocol.
  var size: Int {
    let header = destination.isIPv4 ? 20 : 40
    return switch content {
    case .segment(let segment): header + segment.headerSize + segment.bytes.count
    case .datagram(let datagram): header + 8 + datagram.bytes.count
    // It contains the header of the packet that it is about.
    case .report: 2 * header + 16
    }
  }
}

extension SocketAddress {
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

struct UDPDatagram: Sendable {
  let bytes: [UInt8]
  /// The time to live of IPv4, or the hop limit of IPv6.
  var hopLimit: UInt8 = 64
  /// The type of service of IPv4, or the traffic class of IPv6.
  var trafficClass: UInt8 = 0
  /// The interface on which it arrives. If it is not `lo`, it is the same on all hosts.
  var interface = SimulatedKernel.networkInterface
}

/// A connection, as one of its ends sees it. Addresses are never IPv4-mapped.
struct Flow: Hashable, Sendable {
  let local: SocketAddress
  let remote: SocketAddress
}
