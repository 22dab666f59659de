internal import SocketSystem

extension UDPEndpoint {
  /// What an endpoint can be told to do differently.
  public struct Configuration: Sendable {
    /// A name for logs.
    public var label: String?
    /// Which family to use where both are possible, and which addresses of a name to send to first. Both by default.
    public var addressPreference = AddressPreference.any
    /// What finds the addresses of names. The system's by default.
    public var resolver: any Resolver = SystemResolver()
    /// Whether several endpoints may have the same port; groups and broadcasts come to all of them, anything else to the one
    /// that was bound last: SO_REUSEADDR, socket(7). Off by default.
    public var reuseAddress = false
    /// Whether several endpoints of the same user share the port, each of them with this on: SO_REUSEPORT, socket(7). The
    /// kernel spreads the peers over them. Off by default.
    public var reusePort = false
    /// Whether an endpoint for all addresses leaves IPv4 alone: IPV6_V6ONLY. Off by default.
    public var ipv6Only = false
    /// Whether it may send to broadcast addresses: SO_BROADCAST. Off by default.
    public var broadcast = false
    /// The name of the interface that everything goes and comes through: SO_BINDTODEVICE, socket(7). None by default.
    public var device: String?
    /// The most bytes of an IPv4 datagram that are received; of a longer one the first, see ``Datagram/isTruncated``. 9,216 by
    /// default, up to 65,535. Also of a unix datagram.
    public var maximumReceiveSizeIPv4 = 9216
    /// The same of an IPv6 datagram.
    public var maximumReceiveSizeIPv6 = 9216
    /// The most bytes of a datagram that is sent; a longer one is refused. 65,535 by default, which no datagram over IP reaches:
    /// what is too long for the way is refused by the kernel.
    public var maximumSendSize = 65_535
    /// What else is to be known of each datagram that arrives. Nothing by default, since each costs something.
    public var metadata: Metadata = []
    /// The most descriptors that are received with each datagram of a unix socket, 0 to 253; 0 by default. See
    /// ``Datagram/takeDescriptor()``. Further descriptors are closed, and ``Datagram/lacksDescriptors`` says so. Up to 32
    /// datagrams are received ahead, each with its descriptors.
    public var descriptorsPerDatagram = 0
    /// The bytes that the kernel keeps for datagrams that nobody has received yet: SO_RCVBUF; what comes beyond is dropped and
    /// counted. It doubles the number, within `net.core.rmem_max`. `nil`, the default, leaves it to the system.
    public var receiveBufferSize: Int?
    /// The bytes that the kernel keeps of those on their way out: SO_SNDBUF. `nil`, the default, leaves it to the system.
    public var sendBufferSize: Int?
    /// The bytes that may wait to be sent before ``UDPEndpoint/enqueueSend(_:timeout:)`` refuses more; a datagram counts
    /// at least 256. 1 MiB by default.
    public var sendBudget = 1 << 20
    /// The permission bits of the file of a unix socket, for example `0o660`; sending to it needs the right to write. `nil`
    /// leaves them to the umask, and is the default.
    public var permissions: UInt16?
    /// Looks at each datagram that arrives before anybody gets it. None by default; see ``UDPEndpoint/Filter``.
    public var receiveFilter: Filter?
    /// Looks at each datagram before it is sent. None by default; see ``UDPEndpoint/Filter``.
    public var sendFilter: Filter?
    /// Looks at each new socket before bind(2), changes its options, or refuses it by throwing. None by default.
    public var prepare: (@Sendable (borrowing SocketControl) throws -> Void)?

    /// The defaults.
    public init() {}
  }

  /// What the kernel can be asked to tell with each datagram: ip(7), ipv6(7), socket(7).
  public struct Metadata: OptionSet, Sendable {
    /// The set as a number.
    public let rawValue: Int

    /// A set from its number.
    ///
    /// - Parameter rawValue: The number.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// ``Datagram/localAddress`` and ``Datagram/interfaceIndex``: IP_PKTINFO. Servers with several addresses need it, so that
    /// ``Datagram/reply(_:)`` comes from the one that was asked.
    public static let localAddress = Metadata(rawValue: 1)
    /// ``Datagram/trafficClass``, with the bits of congestion (ECN): IP_RECVTOS.
    public static let trafficClass = Metadata(rawValue: 2)
    /// ``Datagram/hopLimit``: IP_RECVTTL.
    public static let hopLimit = Metadata(rawValue: 4)
    /// ``Datagram/timestamp``: SO_TIMESTAMPNS.
    public static let timestamp = Metadata(rawValue: 8)
    /// ``Datagram/peerCredentials`` of unix sockets: SO_PASSCRED, unix(7). Datagrams of other sockets have no credentials.
    public static let peerCredentials = Metadata(rawValue: 16)
  }

  /// Looks at a datagram, and may change it, annotate it (``Datagram/annotation``) or drop it.
  ///
  /// It is called on the reactor's thread, so keep it short. What takes time is better done by whoever receives.
  /// A datagram that is dropped on its way out counts as sent.
  public typealias Filter = @Sendable (inout Datagram) -> FilterVerdict

  /// What becomes of a datagram.
  public enum FilterVerdict: Hashable, Sendable {
    /// It goes on, as the filter left it.
    case pass
    /// Nobody gets it.
    case drop
  }
}

extension UDPEndpoint.Configuration {
  /// The most bytes that any datagram may have.
  var receiveSize: Int { min(max(1, maximumReceiveSizeIPv4, maximumReceiveSizeIPv6), 65_535) }

  /// What an endpoint keeps of it.
  var withoutClosures: UDPEndpoint.Configuration {
    var configuration = self
    configuration.receiveFilter = nil
    configuration.sendFilter = nil
    configuration.prepare = nil
    return configuration
  }

  /// Sets all that a fresh socket gets before bind(2).
  func prepare(_ socket: BorrowedDescriptor, for address: SocketAddress, isDual: Bool) throws(SocketError) {
    if reuseAddress, !address.isUnix { try socket.set(.reuseAddress, to: true) }
    if reusePort { try socket.set(.reusePort, to: true) }
    if let receiveBufferSize { try socket.set(.receiveBufferSize, to: receiveBufferSize) }
    if let sendBufferSize { try socket.set(.sendBufferSize, to: sendBufferSize) }
    if metadata.contains(.timestamp) { try socket.set(.receivesTimestamp, to: true) }
    if metadata.contains(.peerCredentials), address.isUnix { try socket.set(.receivesCredentials, to: true) }
    if !address.isUnix { try prepareIP(socket, for: address, isDual: isDual) }
    guard let prepare else { return }
    do {
      try prepare(SocketControl(socket))
    } catch {
      throw .refused(byPrepare: error)
    }
  }

  private func prepareIP(_ socket: BorrowedDescriptor, for address: SocketAddress, isDual: Bool) throws(SocketError) {
    if address.isIPv6 { try socket.set(.ipv6Only, to: !isDual) }
    if broadcast { try socket.set(.broadcast, to: true) }
    if let device { try socket.set(.bindToDevice, to: device) }
    try socket.set(.receivesErrors, to: true)
    // By themselves, sockets get what any other one of the machine has joined. Old kernels do it for IPv6 whatever is set.
    try? socket.set(.multicastAll, to: false)
    if metadata.contains(.localAddress) { try socket.set(.receivesLocalAddress, to: true) }
    if metadata.contains(.trafficClass) { try socket.set(.receivesTrafficClass, to: true) }
    if metadata.contains(.hopLimit) { try socket.set(.receivesHopLimit, to: true) }
  }
}
