public import SocketSystem

extension UDPEndpoint {
  /// The settings of an endpoint.
  public struct Configuration: Sendable, Configurable {
    /// A name for logs.
    public var label: String?
    /// Which address family to use where both are possible, and which addresses of a name to prefer. Both by default.
    ///
    /// Of the addresses of a name, the first to which the kernel has a route is used, in the order that RFC 8305 has for connections. An
    /// endpoint remembers the family that it used for a name, and does not wait for the other one the next time.
    public var addressPreference = AddressPreference.any
    /// Looks up the addresses of names. The system's resolver by default.
    public var resolver: any Resolver = SystemResolver()
    /// Whether several endpoints may use the same port: SO_REUSEADDR, socket(7). Multicast and broadcast datagrams go to all of
    /// them; other datagrams go to the endpoint that was bound last. Off by default.
    public var reuseAddress = false
    /// Whether several endpoints of the same user may share the port: SO_REUSEPORT, socket(7). All of them must turn this on.
    /// The kernel distributes the peers among them. Off by default.
    public var reusePort = false
    /// Whether an endpoint on all addresses uses IPv6 only: IPV6_V6ONLY. Off by default.
    public var ipv6Only = false
    /// Whether the endpoint may send to broadcast addresses: SO_BROADCAST. Off by default.
    public var broadcast = false
    /// The name of the interface that all datagrams use in both directions: SO_BINDTODEVICE, socket(7). Not set by default.
    public var device: String?
    /// The largest number of bytes received of an IPv4 or unix datagram, 1 to 65,535. A longer datagram is cut off, see
    /// ``Datagram/isTruncated``. 9,216 by default.
    public var maximumReceiveSizeIPv4 = 9216
    /// The largest number of bytes received of an IPv6 datagram, 1 to 65,535. A longer datagram is cut off. 9,216 by default.
    public var maximumReceiveSizeIPv6 = 9216
    /// The largest number of bytes of a datagram that is sent. A longer one is refused. The default, 65,535, is more than a datagram over
    /// IP can have. There the kernel's limit applies: it refuses a datagram that is too long for its path.
    public var maximumSendSize = 65_535
    /// The metadata to receive with each datagram. No metadata by default, because each item has a cost.
    public var metadata: Metadata = []
    /// The largest number of descriptors received with each datagram of a unix socket, 0 to 253; 0 by default. See
    /// ``Datagram/takeDescriptor()``. Further descriptors are closed, and ``Datagram/lacksDescriptors`` is then true. Up to 32
    /// datagrams are received ahead, each with its descriptors.
    public var descriptorsPerDatagram = 0
    /// The size in bytes of the kernel's buffer for datagrams that were not received yet: SO_RCVBUF. Datagrams that do not fit
    /// are dropped and counted. The kernel limits the number to `net.core.rmem_max` and then doubles it. With `nil`, the
    /// default, the system decides.
    public var receiveBufferSize: Int?
    /// The size in bytes of the kernel's buffer for datagrams on their way out: SO_SNDBUF. With `nil`, the default, the system
    /// decides.
    public var sendBufferSize: Int?
    /// The largest number of bytes that may wait to be sent before ``UDPEndpoint/enqueueSend(_:timeout:)`` refuses more. A
    /// datagram counts as at least 256 bytes. 1 MiB by default. Replies that wait for room have at most half of it.
    public var sendBudget = 1 << 20
    /// The treatment of a datagram whose destination has no room for it. It waits by default.
    public var fullDestination = FullDestination.wait
    /// Whether a send throws if it cannot deliver a reply because of the peer. Off by default, so that no peer can end a loop that replies
    /// (``Datagram/reply(_:)-([UInt8])``) to what it receives.
    ///
    /// If it is off, such a reply is dropped, counted in ``UDPEndpoint/Metrics/datagramsUndelivered``, and reported by
    /// ``UDPEndpoint/errors``. It cannot be delivered if its destination is port 0, a unix socket without a name, or an address that
    /// cannot be reached, does not exist or refuses it, or if the path to it takes only shorter datagrams. A reply to a destination without
    /// room waits in the endpoint for up to 5 seconds, and its call returns. The replies that wait have at most half of the
    /// ``sendBudget``, those to one destination a quarter; others are dropped. Errors of the program are thrown in any case: the reply is
    /// longer than any datagram, or the endpoint is closed. An error that was reported about an earlier datagram is left for the next
    /// receive, or for the next send of a datagram that is no reply.
    public var throwsUndeliverableReplies = false
    /// Whether consecutive datagrams with the same length and destination are passed to the kernel as one message, which the kernel
    /// divides: UDP_SEGMENT, udp(7), also called generic segmentation offload (GSO). On by default.
    ///
    /// It speeds up ``UDPEndpoint/send(_:timeout:)-([Datagram],_)``, and sends that had to wait. Receivers see separate datagrams. Two
    /// things change on the way: a full queue may drop the whole message, and `errors` may have one report for all of its datagrams. The
    /// datagrams are sent one by one if they are longer than a packet of their path, or if the kernel or the interface cannot divide
    /// messages.
    public var segmentationOffload = true
    /// Whether the kernel may join datagrams with the same length and sender as they arrive: UDP_GRO, udp(7), also called generic receive
    /// offload (GRO). Off by default.
    ///
    /// Each datagram is still received separately. Turn it on for an endpoint that receives many datagrams from few peers. One system call
    /// then fetches up to 8 messages with up to 64 datagrams each; without it, up to 32 datagrams. So it slows down an endpoint that
    /// receives from many peers. Joined datagrams have the metadata of the first one. Kernels before Linux 5.0 ignore it.
    public var receiveOffload = false
    /// The capture that records the datagrams of the endpoint, for Wireshark. Not set by default.
    ///
    /// An endpoint that is captured sends from its reactor's thread only.
    public var capture: PacketCapture?
    /// The permission bits of a unix socket's file, for example `0o660`. Sending to it requires write permission. With `nil`,
    /// the default, the umask decides.
    public var permissions: UInt16?
    /// Inspects each datagram that arrives, before it is given out. Not set by default; see ``UDPEndpoint/Filter``.
    public var receiveFilter: Filter?
    /// Inspects each datagram before it is sent. Not set by default; see ``UDPEndpoint/Filter``.
    public var sendFilter: Filter?
    /// Inspects each new socket before bind(2), changes its options, or refuses it by throwing. Not set by default.
    public var prepare: (@Sendable (borrowing SocketControl) throws -> Void)?

    /// Creates a configuration with the defaults.
    public init() {}
  }

  /// The treatment of a datagram whose destination has no room for it: a unix socket whose queue is full, or an interface whose queue is
  /// full (ENOBUFS).
  public enum FullDestination: Hashable, Sendable {
    /// It waits until there is room, and so do later datagrams to the same destination. Datagrams to other destinations do not wait for it.
    case wait
    /// It is dropped, counted in ``UDPEndpoint/Metrics/datagramsUndelivered`` and reported by ``UDPEndpoint/errors``. For the call it
    /// counts as sent.
    case drop
  }

  /// The metadata that the kernel can report with each datagram: ip(7), ipv6(7), socket(7).
  public struct Metadata: OptionSet, Sendable {
    /// The set as a bit mask.
    public let rawValue: Int

    /// Creates a set from a bit mask.
    ///
    /// - Parameter rawValue: The bit mask.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// ``Datagram/localAddress`` and ``Datagram/interfaceIndex``: IP_PKTINFO. A server with several addresses needs it, so that
    /// ``Datagram/reply(_:)-([UInt8])`` comes from the address that the request was sent to.
    public static let localAddress = Metadata(rawValue: 1)
    /// ``Datagram/trafficClass``, which includes the congestion bits (ECN): IP_RECVTOS.
    public static let trafficClass = Metadata(rawValue: 2)
    /// ``Datagram/hopLimit``: IP_RECVTTL.
    public static let hopLimit = Metadata(rawValue: 4)
    /// ``Datagram/timestamp``: SO_TIMESTAMPNS.
    public static let timestamp = Metadata(rawValue: 8)
    /// ``Datagram/peerCredentials`` of unix sockets: SO_PASSCRED, unix(7). Datagrams of other sockets have no credentials.
    public static let peerCredentials = Metadata(rawValue: 16)
  }

  /// A closure that inspects a datagram, and may change it, annotate it (``Datagram/annotation``) or drop it.
  ///
  /// It is called on the reactor's thread, so keep it short. Leave work that takes time to the code that receives. A datagram
  /// that is dropped before it is sent counts as sent.
  public typealias Filter = @Sendable (inout Datagram) -> FilterVerdict

  /// The decision of a filter about a datagram.
  public enum FilterVerdict: Hashable, Sendable {
    /// It is passed on as the filter left it.
    case pass
    /// It is dropped.
    case drop
  }
}

extension UDPEndpoint.Configuration {
  /// Whether code of the program gets the descriptor of each new socket, and may duplicate it.
  var lendsDescriptors: Bool { prepare != nil }

  var withoutClosures: UDPEndpoint.Configuration {
    var configuration = self
    configuration.receiveFilter = nil
    configuration.sendFilter = nil
    configuration.prepare = nil
    return configuration
  }

  /// Throws `.invalidArgument`, as an error of this operation.
  func check(_ operation: String) throws(SocketError) {
    try DatagramSizes(self).check(operation)
    guard (0...DatagramBatch.maximumDescriptors).contains(descriptorsPerDatagram) else {
      throw .invalid(
        operation,
        "\(descriptorsPerDatagram) descriptors cannot come with a datagram, only 0 to \(DatagramBatch.maximumDescriptors)"
      )
    }
  }

  /// Called before bind(2).
  func prepare(_ socket: BorrowedDescriptor, for address: SocketAddress, isDual: Bool) throws(SocketError) {
    if reuseAddress, !address.isUnix { try socket.set(.reuseAddress, to: true) }
    if reusePort { try socket.set(.reusePort, to: true) }
    if address.isIPv6 { try socket.set(.ipv6Only, to: !isDual) }
    if let device, !address.isUnix { try socket.set(.bindToDevice, to: device) }
    try setOptions(of: socket, isUnix: address.isUnix, isNew: true)
    guard let prepare else { return }
    do {
      try prepare(SocketControl(socket))
    } catch {
      throw .refused(byPrepare: error)
    }
  }

  /// Sets the options that may also be set after bind(2). A socket that is not new may have options that do not fit the endpoint.
  func setOptions(of socket: BorrowedDescriptor, isUnix: Bool, isNew: Bool) throws(SocketError) {
    if let receiveBufferSize { try socket.set(.receiveBufferSize, to: receiveBufferSize) }
    if let sendBufferSize { try socket.set(.sendBufferSize, to: sendBufferSize) }
    for (item, option) in Self.metadataOptions(isUnix: isUnix) {
      let isWanted = metadata.contains(item)
      if isWanted || !isNew { try socket.set(option, to: isWanted) }
    }
    if isUnix { return }
    if broadcast { try socket.set(.broadcast, to: true) }
    try socket.set(.receivesErrors, to: true)
    // By default, sockets also receive groups that other sockets of the machine have joined. Old kernels lack the option for IPv6.
    try? socket.set(.multicastAll, to: false)
    // The kernel would divide the datagrams of the program.
    if !isNew { try? socket.set(RawOption.segmentSize, to: 0) }
  }

  private static func metadataOptions(isUnix: Bool) -> [(UDPEndpoint.Metadata, SocketOption<Bool>)] {
    if isUnix { return [(.timestamp, .receivesTimestamp), (.peerCredentials, .receivesCredentials)] }
    return [
      (.timestamp, .receivesTimestamp), (.localAddress, .receivesLocalAddress),
      (.trafficClass, .receivesTrafficClass), (.hopLimit, .receivesHopLimit),
    ]
  }
}
