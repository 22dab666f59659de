public import SocketSystem

/// A datagram that arrived, or is to be sent: bytes that travel together, or not at all.
public struct Datagram: Sendable {
  /// The bytes; none is a datagram, too.
  public var bytes: [UInt8]
  /// Where it came from, or goes to. `nil` for one from a unix socket without a name, and for one that goes to the peer that
  /// the endpoint is connected to.
  public var remoteAddress: SocketAddress?
  /// Whether it was longer than the endpoint receives: then these are its first bytes.
  public internal(set) var isTruncated = false
  /// What few datagrams have.
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

  /// A datagram to be sent.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - remoteAddress: Where it goes; `nil` for the peer that the endpoint is connected to.
  public init(_ bytes: [UInt8], to remoteAddress: SocketAddress? = nil) {
    self.bytes = bytes
    self.remoteAddress = remoteAddress
  }

  /// A datagram to be sent, of text in UTF-8.
  ///
  /// - Parameters:
  ///   - text: The text.
  ///   - remoteAddress: Where it goes; `nil` for the peer that the endpoint is connected to.
  public init(utf8 text: String, to remoteAddress: SocketAddress? = nil) {
    self.init(Array(text.utf8), to: remoteAddress)
  }

  init(
    received bytes: [UInt8], from address: SocketAddress?, isTruncated: Bool, _ metadata: DatagramMetadata?,
    _ descriptors: DescriptorBundle? = nil, lacksDescriptors: Bool = false
  ) {
    self.bytes = bytes
    remoteAddress = address
    self.isTruncated = isTruncated
    if metadata != nil || descriptors != nil || lacksDescriptors {
      box = Box(metadata ?? DatagramMetadata(), nil, descriptors, lacksDescriptors: lacksDescriptors)
    }
  }

  /// What goes along with it, if anything does.
  var metadata: DatagramMetadata? { box?.metadata }

  private mutating func change(_ body: (inout DatagramMetadata) -> Void) {
    var metadata = box?.metadata ?? DatagramMetadata()
    body(&metadata)
    box = Box(metadata, box?.annotation, box?.descriptors, lacksDescriptors: lacksDescriptors)
  }

  /// The descriptors that the datagram passes, or that came with it. All copies of a datagram share them.
  var descriptors: DescriptorBundle? {
    get { box?.descriptors }
    set {
      box = Box(box?.metadata ?? DatagramMetadata(), box?.annotation, newValue, lacksDescriptors: lacksDescriptors)
    }
  }

  /// The address of this machine that it was sent to, perhaps a group's; of one to be sent, the address that it comes from,
  /// `nil` for the one that the routing table names. Received with ``UDPEndpoint/Metadata/localAddress``.
  public var localAddress: IPAddress? {
    get { box?.metadata.localAddress }
    set { change { $0.localAddress = newValue } }
  }

  /// The index of the interface that it came through, or is to go through; 0 for any. Received with
  /// ``UDPEndpoint/Metadata/localAddress``.
  public var interfaceIndex: UInt32 {
    get { box?.metadata.interface ?? 0 }
    set { change { $0.interface = newValue } }
  }

  /// How routers were asked to treat it, or are to be asked, and whether they were congested (ECN, RFC 3168). Received with
  /// ``UDPEndpoint/Metadata/trafficClass``.
  public var trafficClass: TrafficClass? {
    get { box?.metadata.trafficClass.map { TrafficClass(rawValue: $0) } }
    set { change { $0.trafficClass = newValue?.rawValue } }
  }

  /// How many routers it might still have passed, or may pass: the time to live of IPv4, the hop limit of IPv6. Received with
  /// ``UDPEndpoint/Metadata/hopLimit``.
  public var hopLimit: UInt8? {
    get { box?.metadata.hopLimit }
    set { change { $0.hopLimit = newValue } }
  }

  /// When the kernel received it, since 1970 began, on the clock of the machine. Received with
  /// ``UDPEndpoint/Metadata/timestamp``.
  public var timestamp: Duration? { box?.metadata.timestamp }

  /// Who sent it through a unix socket: SCM_CREDENTIALS, unix(7). `nil` unless ``UDPEndpoint/Metadata/peerCredentials`` is
  /// asked for.
  ///
  /// The credentials are the process, its real user and its real group at the moment of sending;
  /// ``TCPConnection/peerCredentials()`` has the effective user and group instead. The kernel vouches for them: a process needs
  /// CAP_SYS_ADMIN, CAP_SETUID or CAP_SETGID to send other credentials than its own.
  public var peerCredentials: PeerCredentials? { box?.metadata.peerCredentials }

  /// Whether some of its descriptors were closed on arrival, because they were more than
  /// ``UDPEndpoint/Configuration/descriptorsPerDatagram`` or more than this process may have. The first ones are kept.
  public var lacksDescriptors: Bool { box?.lacksDescriptors ?? false }

  /// What a filter has noted about it.
  public var annotation: (any Sendable)? {
    get { box?.annotation }
    set {
      box = Box(box?.metadata ?? DatagramMetadata(), newValue, box?.descriptors, lacksDescriptors: lacksDescriptors)
    }
  }

  /// A datagram back to where this one came from.
  ///
  /// It comes from the address that this one was sent to, if that is known (``UDPEndpoint/Metadata/localAddress``) and no
  /// group: on a machine with several addresses, the peer expects it from there.
  ///
  /// - Parameter bytes: Its bytes.
  /// - Returns: The datagram.
  public func reply(_ bytes: [UInt8]) -> Datagram {
    var reply = Datagram(bytes, to: remoteAddress)
    guard let metadata = box?.metadata, metadata.localAddress != nil else { return reply }
    reply.localAddress = metadata.answerAddress
    if case .ipv6(let address) = metadata.answerAddress, address.isLinkLocal {
      reply.interfaceIndex = metadata.interface
    }
    return reply
  }
}

extension Datagram {
  /// What belongs to a datagram that is looked at in place.
  public struct Header: Hashable, Sendable {
    /// Where it came from; `nil` for a unix socket without a name.
    public let remoteAddress: SocketAddress?
    /// Whether it was longer than the endpoint receives: then these are its first bytes.
    public let isTruncated: Bool

    init(_ remoteAddress: SocketAddress?, isTruncated: Bool) {
      self.remoteAddress = remoteAddress
      self.isTruncated = isTruncated
    }
  }
}

extension Datagram: CustomStringConvertible {
  /// One line for logs, without the bytes.
  public var description: String {
    let peer = remoteAddress.map { " \($0)" } ?? ""
    return "\(bytes.count) byte\(bytes.count == 1 ? "" : "s")\(peer)\(isTruncated ? ", truncated" : "")"
  }
}
