internal import CLinux

/// The metadata that the kernel reports or accepts with a datagram, besides its bytes and its address: cmsg(3), ip(7), ipv6(7). The
/// kernel reports a property only if an option of the socket asks for it.
package struct DatagramMetadata: Sendable, Hashable {
  /// Received: the address that the datagram was sent to. Sent: the address that the datagram comes from.
  package var localAddress: IPAddress?
  /// The interface that the datagram arrived on or leaves through; 0 for any interface.
  package var interface: UInt32 = 0
  /// The address of this machine to answer from. It differs from `localAddress` if that is a multicast group.
  package var answerAddress: IPAddress?
  package var trafficClass: UInt8?
  /// The time to live (IPv4) or the hop limit (IPv6).
  package var hopLimit: UInt8?
  package var timestamp: UnixTime?
  /// Only of a datagram that came through a unix socket.
  package var peerCredentials: PeerCredentials?

  package init() {}
}

extension DatagramMetadata {
  init(_ kernel: clinux_metadata) {
    func has(_ bit: Int) -> Bool { kernel.present & UInt32(bit) != 0 }
    if has(CLINUX_HAS_LOCAL) {
      interface = kernel.interface
      // SAFETY: the arrays are read while they live.
      localAddress = unsafe withUnsafeBytes(of: kernel.local) { unsafe Self.address(Array($0), kernel) }
      answerAddress = unsafe withUnsafeBytes(of: kernel.answer) { unsafe Self.address(Array($0), kernel) }
      if answerAddress?.isUnspecified == true { answerAddress = nil }
    }
    if has(CLINUX_HAS_TRAFFIC_CLASS) { trafficClass = kernel.traffic_class }
    if has(CLINUX_HAS_HOP_LIMIT) { hopLimit = kernel.hop_limit }
    if has(CLINUX_HAS_TIMESTAMP) {
      timestamp = UnixTime(durationSince1970: .seconds(kernel.seconds) + .nanoseconds(kernel.nanoseconds))
    }
    if has(CLINUX_HAS_CREDENTIALS) {
      peerCredentials = PeerCredentials(processID: kernel.process, userID: kernel.user, groupID: kernel.group)
    }
  }

  /// An IPv4 address is in the first four of the 16 bytes.
  private static func address(_ bytes: [UInt8], _ kernel: clinux_metadata) -> IPAddress? {
    if kernel.is_ipv6 == 0 { return .ipv4(IPv4Address(bytes[0], bytes[1], bytes[2], bytes[3])) }
    guard var address = IPv6Address(bytes: bytes) else { return nil }
    if address.isLinkLocal { address.scopeID = kernel.interface }
    return .ipv6(address)
  }

  /// `isIPv6` is about the datagram, whose family may differ from the socket's.
  func kernelForm(isIPv6: Bool) -> clinux_metadata {
    var kernel = clinux_metadata()
    kernel.is_ipv6 = isIPv6 ? 1 : 0
    if localAddress != nil || interface != 0 {
      kernel.present |= UInt32(CLINUX_HAS_LOCAL)
      kernel.interface = interface
      // SAFETY: the copies are bounds-checked.
      unsafe withUnsafeMutableBytes(of: &kernel.local) { local in
        switch localAddress {
        case .ipv4(let address):
          unsafe local.storeBytes(of: address.rawValue.bigEndian, as: UInt32.self)
        case .ipv6(let address): unsafe local.copyBytes(from: address.bytes)
        case nil: break
        }
      }
    }
    if let trafficClass {
      kernel.present |= UInt32(CLINUX_HAS_TRAFFIC_CLASS)
      kernel.traffic_class = trafficClass
    }
    if let hopLimit {
      kernel.present |= UInt32(CLINUX_HAS_HOP_LIMIT)
      kernel.hop_limit = hopLimit
    }
    return kernel
  }

  func receivedForm(isIPv6: Bool) -> clinux_metadata {
    var kernel = kernelForm(isIPv6: isIPv6)
    if case .ipv4(let address) = answerAddress {
      // SAFETY: the copy is bounds-checked.
      unsafe withUnsafeMutableBytes(of: &kernel.answer) { answer in
        unsafe answer.storeBytes(of: address.rawValue.bigEndian, as: UInt32.self)
      }
    }
    if let timestamp {
      kernel.present |= UInt32(CLINUX_HAS_TIMESTAMP)
      kernel.seconds = timestamp.durationSince1970.components.seconds
      kernel.nanoseconds = timestamp.durationSince1970.components.attoseconds / 1_000_000_000
    }
    if let peerCredentials {
      kernel.present |= UInt32(CLINUX_HAS_CREDENTIALS)
      kernel.process = peerCredentials.processID
      kernel.user = peerCredentials.userID
      kernel.group = peerCredentials.groupID
    }
    return kernel
  }

  package var isEmpty: Bool { localAddress == nil && interface == 0 && trafficClass == nil && hopLimit == nil }
}
