internal import EpollReactor
internal import SocketSystem

struct BoundSocket: Sendable {
  let registration: Registration
  let address: SocketAddress
  let kind: Kind
  /// The longest datagram that may go to the kernel with others in one message (UDP_SEGMENT), in bytes; 0 without such messages.
  var segmentLimit = 0

  enum Kind {
    case ipv4
    case ipv6
    /// An IPv6 socket that also serves IPv4.
    case dual
    case unix

    init(_ address: SocketAddress, mayBeDual: Bool) {
      self =
        switch address {
        case .ipv4: .ipv4
        case .ipv6(.any, _) where mayBeDual: .dual
        case .ipv6: .ipv6
        case .unix: .unix
        }
    }

    /// After connect(2), the address no longer tells whether the socket was bound to all addresses. If it was not, the kernel refuses peers
    /// of the other family.
    init(ofAdopted socket: BorrowedDescriptor, at address: SocketAddress, isConnected: Bool) {
      let isOfOneAddress = !isConnected && address.unmapped.isIPv6 && !address.isUnspecified
      let servesBoth = address.isIPv6 && !isOfOneAddress && (try? socket.get(RawOption.ipv6Only)) == 0
      self = servesBoth ? .dual : Self(address, mayBeDual: false)
    }

    func reaches(_ address: SocketAddress) -> Bool {
      switch (self, address) {
      case (.ipv4, .ipv4), (.ipv6, .ipv6), (.dual, .ipv4), (.dual, .ipv6), (.unix, .unix): true
      default: false
      }
    }

    func serves(_ family: AddressFamily) -> Bool {
      switch self {
      case .dual: true
      case .ipv4: family == .ipv4
      case .ipv6: family == .ipv6
      case .unix: false
      }
    }
  }

  var socket: BorrowedDescriptor? { registration.socket }
}
