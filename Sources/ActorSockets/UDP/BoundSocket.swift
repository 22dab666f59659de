internal import EpollReactor
internal import SocketSystem

/// A socket of an endpoint.
struct BoundSocket: Sendable {
  let registration: Registration
  /// The address that it is bound to.
  let address: SocketAddress
  let kind: Kind
  /// The longest datagram that the kernel may get together with others in one message, in bytes: UDP_SEGMENT.
  var segmentLimit = 0

  /// The kind of a socket, by the addresses that it can reach.
  enum Kind {
    case ipv4
    case ipv6
    /// An IPv6 socket that also serves IPv4.
    case dual
    case unix

    /// The kind of a socket that is bound to an address.
    ///
    /// - Parameters:
    ///   - address: The address.
    ///   - mayBeDual: Whether an IPv6 socket for all addresses also serves IPv4.
    init(_ address: SocketAddress, mayBeDual: Bool) {
      self =
        switch address {
        case .ipv4: .ipv4
        case .ipv6(.any, _) where mayBeDual: .dual
        case .ipv6: .ipv6
        case .unix: .unix
        }
    }

    /// Whether a socket of this kind sends to an address.
    func reaches(_ address: SocketAddress) -> Bool {
      switch (self, address) {
      case (.ipv4, .ipv4), (.ipv6, .ipv6), (.dual, .ipv4), (.dual, .ipv6), (.unix, .unix): true
      default: false
      }
    }

    /// Whether a socket of this kind sends to addresses of a family.
    func serves(_ family: AddressFamily) -> Bool {
      switch self {
      case .dual: true
      case .ipv4: family == .ipv4
      case .ipv6: family == .ipv6
      case .unix: false
      }
    }
  }

  /// The descriptor, if it is open.
  var socket: BorrowedDescriptor? { registration.socket }
}
