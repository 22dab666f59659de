public import SocketSystem

/// A datagram that arrived, or that is to be sent. Its bytes are delivered together, or not at all.
public struct Datagram: Sendable {
  /// The bytes. An empty array is a valid datagram.
  public var bytes: [UInt8]
  /// The address that it came from, or that it goes to. `nil` for a received datagram whose sender, a unix socket, has no name,
  /// and for a datagram that goes to the connected peer.
  public var remoteAddress: SocketAddress? { didSet { isReply = false } }
  /// Whether it goes back to the sender of a datagram: it is a reply, or it was received. Not if the program sets another address.
  private(set) var isReply = false
  /// Whether the datagram was longer than the endpoint's limit (``UDPEndpoint/Configuration/maximumReceiveSizeIPv4``). If so, `bytes` holds
  /// only its beginning.
  public internal(set) var isTruncated = false
  /// The properties that few datagrams have, out of line so that the other datagrams stay small.
  private var box: Box?

  private final class Box: Sendable {
    let metadata: DatagramMetadata
    let annotation: (any Sendable)?
    let descriptors: DescriptorBundle?
    let lacksDescriptors: Bool

    init(
      _ metadata: DatagramMetadata, _ annotation: (any Sendable)? = nil, _ descriptors: DescriptorBundle? = nil,
      lacksDescriptors: Bool = false
    ) {
      self.metadata = metadata
      self.annotation = annotation
      self.descriptors = descriptors
      self.lacksDescriptors = lacksDescriptors
    }
  }

  /// Creates a datagram to be sent.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - remoteAddress: The destination; `nil` for the connected peer.
  public init(_ bytes: [UInt8], to remoteAddress: SocketAddress? = nil) {
    self.bytes = bytes
    self.remoteAddress = remoteAddress
  }

  /// Creates a datagram to be sent, with text in UTF-8.
  ///
  /// - Parameters:
  ///   - text: The text.
  ///   - remoteAddress: The destination; `nil` for the connected peer.
  public init(utf8 text: String, to remoteAddress: SocketAddress? = nil) {
    self.init(Array(text.utf8), to: remoteAddress)
  }

  /// Creates a datagram to be sent, whose bytes are those of several pieces.
  ///
  /// - Parameters:
  ///   - pieces: The pieces, in order. They are joined.
  ///   - remoteAddress: The destination; `nil` for the connected peer.
  public init(contentsOf pieces: [[UInt8]], to remoteAddress: SocketAddress? = nil) {
    self.init(Array(pieces.joined()), to: remoteAddress)
  }

  /// Creates a datagram to be sent, with a copy of bytes.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - remoteAddress: The destination; `nil` for the connected peer.
  public init(_ bytes: Span<UInt8>, to remoteAddress: SocketAddress? = nil) {
    self.init([UInt8](copying: bytes), to: remoteAddress)
  }

  /// Creates a datagram to be sent, with the bytes of a sequence.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - remoteAddress: The destination; `nil` for the connected peer.
  public init(_ bytes: some Sequence<UInt8>, to remoteAddress: SocketAddress? = nil) {
    self.init(Array(bytes), to: remoteAddress)
  }

  init(
    received bytes: [UInt8], from address: SocketAddress?, isTruncated: Bool, _ metadata: DatagramMetadata?,
    _ descriptors: DescriptorBundle? = nil, lacksDescriptors: Bool = false
  ) {
    self.bytes = bytes
    remoteAddress = address
    isReply = true
    self.isTruncated = isTruncated
    if metadata != nil || descriptors != nil || lacksDescriptors {
      box = Box(metadata ?? DatagramMetadata(), nil, descriptors, lacksDescriptors: lacksDescriptors)
    }
  }

  var metadata: DatagramMetadata? { box?.metadata }

  /// Whether it has nothing to be sent but its bytes.
  var isPlain: Bool {
    guard let box else { return true }
    return box.metadata.isEmpty && box.descriptors == nil
  }

  private mutating func change(_ body: (inout DatagramMetadata) -> Void) {
    var metadata = box?.metadata ?? DatagramMetadata()
    body(&metadata)
    box = Box(metadata, box?.annotation, box?.descriptors, lacksDescriptors: lacksDescriptors)
  }

  /// All copies of a datagram share the descriptors.
  var descriptors: DescriptorBundle? {
    get { box?.descriptors }
    set {
      box = Box(box?.metadata ?? DatagramMetadata(), box?.annotation, newValue, lacksDescriptors: lacksDescriptors)
    }
  }

  /// The local address of the datagram. For a received datagram: the address that it was sent to, which may be a multicast group; `nil`
  /// unless ``UDPEndpoint/Configuration/metadata`` contains ``UDPEndpoint/Metadata/localAddress``. For one to be sent: the source address;
  /// `nil` for the one that the kernel chooses from the routing table.
  public var localAddress: IPAddress? {
    get { box?.metadata.localAddress }
    set { change { $0.localAddress = newValue } }
  }

  /// The index of the interface of the datagram. For a received datagram: the interface that it came through; 0 unless
  /// ``UDPEndpoint/Configuration/metadata`` contains ``UDPEndpoint/Metadata/localAddress``, which brings both. For one to be sent: the
  /// interface to send it through; 0 for any.
  public var interfaceIndex: UInt32 {
    get { box?.metadata.interface ?? 0 }
    set { change { $0.interface = newValue } }
  }

  /// The traffic class, which tells routers how to treat the datagram, and whether they were congested (ECN, RFC 3168).
  /// Received with ``UDPEndpoint/Metadata/trafficClass``.
  public var trafficClass: TrafficClass? {
    get { box?.metadata.trafficClass.map { TrafficClass(rawValue: $0) } }
    set { change { $0.trafficClass = newValue?.rawValue } }
  }

  /// The number of routers that the datagram may still pass: the time to live of IPv4, the hop limit of IPv6. Received with
  /// ``UDPEndpoint/Metadata/hopLimit``.
  public var hopLimit: UInt8? {
    get { box?.metadata.hopLimit }
    set { change { $0.hopLimit = newValue } }
  }

  /// When the kernel received the datagram, on the machine's clock. Received with ``UDPEndpoint/Metadata/timestamp``.
  public var timestamp: UnixTime? { box?.metadata.timestamp }

  /// The credentials of the sender on a unix socket: SCM_CREDENTIALS, unix(7). `nil` unless
  /// ``UDPEndpoint/Metadata/peerCredentials`` is requested.
  ///
  /// They are the process, its real user and its real group at the moment of sending. ``TCPConnection/peerCredentials()`` has
  /// the effective user and group instead. The kernel checks them: a process needs CAP_SYS_ADMIN, CAP_SETUID or CAP_SETGID to
  /// send other credentials than its own.
  public var peerCredentials: PeerCredentials? { box?.metadata.peerCredentials }

  /// Whether some of its descriptors were closed on arrival, because they exceeded
  /// ``UDPEndpoint/Configuration/descriptorsPerDatagram`` or the number that this process may have. The first ones are kept.
  public var lacksDescriptors: Bool { box?.lacksDescriptors ?? false }

  /// A value that a filter has attached to the datagram.
  public var annotation: (any Sendable)? {
    get { box?.annotation }
    set {
      box = Box(box?.metadata ?? DatagramMetadata(), newValue, box?.descriptors, lacksDescriptors: lacksDescriptors)
    }
  }

  /// Creates a datagram that replies to this one.
  ///
  /// The reply goes to the sender of this datagram, and comes from the address that this datagram was sent to. The sender expects that.
  /// The system chooses the reply's source address in two cases: the endpoint does not receive ``UDPEndpoint/Metadata/localAddress``, or
  /// this datagram was sent to a multicast group.
  ///
  /// A send does not throw if the reply cannot be delivered because of the peer: see
  /// ``UDPEndpoint/Configuration/throwsUndeliverableReplies``. A received datagram that is sent as it is counts as a reply, too. A
  /// datagram is no longer a reply once ``remoteAddress`` is set.
  ///
  /// - Parameter bytes: The bytes of the reply.
  /// - Returns: The reply.
  public func reply(_ bytes: [UInt8]) -> Datagram {
    var reply = Datagram(bytes, to: remoteAddress)
    reply.isReply = true
    guard let metadata = box?.metadata, metadata.localAddress != nil else { return reply }
    reply.localAddress = metadata.answerAddress
    if case .ipv6(let address) = metadata.answerAddress, address.isLinkLocal {
      reply.interfaceIndex = metadata.interface
    }
    return reply
  }

  /// Creates a reply of several pieces, which are joined: see ``reply(_:)-([UInt8])``.
  ///
  /// - Parameter pieces: The pieces of the reply, in order.
  /// - Returns: The reply.
  public func reply(contentsOf pieces: [[UInt8]]) -> Datagram { reply(Array(pieces.joined())) }

  /// Creates a reply with a copy of bytes: see ``reply(_:)-([UInt8])``.
  ///
  /// - Parameter bytes: The bytes of the reply.
  /// - Returns: The reply.
  public func reply(_ bytes: Span<UInt8>) -> Datagram { reply([UInt8](copying: bytes)) }

  /// Creates a reply with the bytes of a sequence: see ``reply(_:)-([UInt8])``.
  ///
  /// - Parameter bytes: The bytes of the reply.
  /// - Returns: The reply.
  public func reply(_ bytes: some Sequence<UInt8>) -> Datagram { reply(Array(bytes)) }

  /// Creates a reply with text in UTF-8: see ``reply(_:)-([UInt8])``.
  ///
  /// - Parameter text: The text.
  /// - Returns: The reply.
  public func reply(utf8 text: some StringProtocol) -> Datagram { reply(Array(text.utf8)) }
}

extension Datagram {
  /// The sender and the state of a datagram whose bytes are borrowed.
  public struct Header: Hashable, Sendable {
    /// The address that it came from; `nil` if the sender is a unix socket without a name.
    public let remoteAddress: SocketAddress?
    /// Whether the datagram was longer than the endpoint receives. If so, the borrowed bytes are only its beginning.
    public let isTruncated: Bool

    init(_ remoteAddress: SocketAddress?, isTruncated: Bool) {
      self.remoteAddress = remoteAddress
      self.isTruncated = isTruncated
    }
  }
}

extension Datagram: CustomStringConvertible {
  /// A description in one line, for logs, without the bytes.
  public var description: String {
    let peer = remoteAddress.map { " \($0)" } ?? ""
    return "\(bytes.count) byte\(bytes.count == 1 ? "" : "s")\(peer)\(isTruncated ? ", truncated" : "")"
  }
}
