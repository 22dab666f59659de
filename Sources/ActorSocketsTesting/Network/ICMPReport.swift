// What a host or router says about a packet that it does not deliver: RFC 792, RFC 4443.
//
// Invariants:
// - A report has the same meaning as on Linux: `icmp_err_convert` for IPv4, `icmpv6_err_convert` for IPv6.
// - There is no report about a report or about a packet for several hosts: RFC 1122, section 3.2.2.

internal import SocketSystem

struct ICMPReport: Sendable {
  enum Kind: Hashable, Sendable {
    case portUnreachable
    case rejected(NetworkLink.Rejection)
  }

  let kind: Kind
  /// The addresses of the packet, as its sender sees them.
  let flow: Flow
  /// Of a TCP segment; `nil` for a datagram.
  var sequence: Int?

  private var isIPv4: Bool { flow.remote.isIPv4 }

  var wire: (type: UInt8, code: UInt8) {
    let code: UInt8 =
      switch kind {
      case .portUnreachable: isIPv4 ? 3 : 4
      case .rejected(.networkUnreachable): 0
      case .rejected(.hostUnreachable): isIPv4 ? 1 : 3
      case .rejected(.administrativelyProhibited): isIPv4 ? 13 : 1
      }
    return (isIPv4 ? 3 : 1, code)
  }

  var errno: Int32 {
    switch kind {
    case .portUnreachable: Errno.connectionRefused
    case .rejected(.networkUnreachable): Errno.networkUnreachable
    case .rejected(.hostUnreachable): Errno.hostUnreachable
    case .rejected(.administrativelyProhibited): isIPv4 ? Errno.hostUnreachable : Errno.permissionDenied
    }
  }

  /// Other errors may end by themselves, and only sockets with IP_RECVERR get them.
  var isFatal: Bool {
    switch kind {
    case .portUnreachable, .rejected(.administrativelyProhibited): true
    case .rejected(.networkUnreachable), .rejected(.hostUnreachable): false
    }
  }

  /// Whether it ends a handshake that a peer has begun. Linux looks at the code for IPv4, and at `isFatal` for IPv6.
  var endsHandshake: Bool {
    if !isIPv4 { return isFatal }
    return kind == .rejected(.networkUnreachable) || kind == .rejected(.hostUnreachable)
  }
}

extension Packet {
  /// The report of a router that does not forward the packet; `nil` if it may not report anything.
  func report(of rejection: NetworkLink.Rejection) -> ICMPReport? {
    if destination.isOfSeveral { return nil }
    let flow = Flow(local: source, remote: destination)
    return switch content {
    case .segment(let segment): ICMPReport(kind: .rejected(rejection), flow: flow, sequence: segment.sequence)
    case .datagram: ICMPReport(kind: .rejected(rejection), flow: flow)
    case .report: nil
    }
  }
}
