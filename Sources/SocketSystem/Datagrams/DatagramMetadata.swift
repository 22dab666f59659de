internal import CLinux

/// What the kernel knows of a datagram beside its bytes and its address, as far as it was asked for: cmsg(3), ip(7), ipv6(7).
package struct DatagramMetadata: Sendable, Hashable {
  /// The address that a received datagram was sent to; the address that one to be sent comes from.
  package var localAddress: IPAddress?
  /// The index of the interface that it came or goes through; 0 for any.
  package var interface: UInt32 = 0
  /// The address of this machine to answer from, where `localAddress` may be a group.
  package var answerAddress: IPAddress?
  /// The type of service, or the traffic class.
  package var trafficClass: UInt8?
  /// The routers that it may still pass: the time to live, or the hop limit.
  package var hopLimit: UInt8?
  /// When it arrived, since 1970: clock_gettime(2) of CLOCK_REALTIME.
  package var timestamp: Duration?
  /// Who sent it through a unix socket.
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
      timestamp = .seconds(kernel.seconds) + .nanoseconds(kernel.nanoseconds)
    }
    if has(CLINUX_HAS_CREDENTIALS) {
      peerCredentials = PeerCredentials(processID: kernel.process, userID: kernel.user, groupID: kernel.group)
    }
  }

  /// An address of 16 bytes, of which an IPv4 one has the first four.
  private static func address(_ bytes: [UInt8], _ kernel: clinux_metadata) -> IPAddress? {
    if kernel.is_ipv6 == 0 { return .ipv4(IPv4Address(bytes[0], bytes[1], bytes[2], bytes[3])) }
    guard var address = IPv6Address(bytes: bytes) else { return nil }
    if address.isLinkLocal { address.scopeID = kernel.interface }
    return .ipv6(address)
  }

  /// The kernel's form of what is to be sent along.
  ///
  /// - Parameter isIPv6: The family of the datagram, which may be the other one than the socket's.
  /// - Returns: The form.
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

  /// Nothing that would be sent along.
  package var isEmpty: Bool { localAddress == nil && interface == 0 && trafficClass == nil && hopLimit == nil }
}
