import Glibc

extension Linux {
  package func addresses(of name: String, isIPv4: Bool) throws(NameLookupError) -> [SocketAddress] {
    var hints = unsafe addrinfo()
    unsafe hints.ai_family = isIPv4 ? AF_INET : AF_INET6
    unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var list: UnsafeMutablePointer<addrinfo>?
    // SAFETY: `hints` and `list` are valid for the call; the list is freed once, below.
    let code = unsafe getaddrinfo(name, nil, &hints, &list)
    guard code == 0 else { throw NameLookupError(code: code, errno: errno) }
    defer { unsafe freeaddrinfo(list) }

    var addresses: [SocketAddress] = []
    var entry = unsafe list
    // SAFETY: getaddrinfo's list is well formed: each address is valid for its length.
    while let info = unsafe entry {
      if let address = unsafe SocketAddress(copying: info.pointee.ai_addr, length: info.pointee.ai_addrlen),
        !addresses.contains(address)
      {
        addresses.append(address)
      }
      unsafe entry = info.pointee.ai_next
    }
    return addresses
  }

  package func interfaces() throws(SystemError) -> [NetworkInterface] {
    var list: UnsafeMutablePointer<ifaddrs>?
    // SAFETY: `list` is valid for the call, and freed once, below.
    guard unsafe getifaddrs(&list) == 0 else { throw SystemError(call: "getifaddrs", errno: errno) }
    defer { unsafe freeifaddrs(list) }

    var interfaces: [[UInt8]: NetworkInterface] = [:]
    var entry = unsafe list
    // SAFETY: getifaddrs makes a well-formed list, names end with a NUL, and all of it lives until it is freed.
    while let pointer = unsafe entry {
      // An IPv4 address may be labelled "eth0:1", while the interface is "eth0".
      let name = unsafe String(cString: pointer.pointee.ifa_name).parts(at: ":")[0]
      if let index = unsafe Self.index(pointer.pointee.ifa_addr) {
        let flags = NetworkInterface.Flags(kernel: Int(unsafe pointer.pointee.ifa_flags))
        interfaces[Array(name.utf8)] = NetworkInterface(name: name, index: index, flags: flags, addresses: [])
      } else if let address = unsafe Self.address(pointer.pointee.ifa_addr) {
        // The kernel gives every address a mask, whose leading bits are set.
        let prefixLength = unsafe Self.address(pointer.pointee.ifa_netmask)?.setBits ?? 0
        interfaces[Array(name.utf8)]?.addresses.append(NetworkInterface.Address(address, prefixLength: prefixLength))
      }
      unsafe entry = pointer.pointee.ifa_next
    }
    return interfaces.values.sorted { $0.index < $1.index }
  }

  /// Every interface has one entry with its index, before those of its addresses: packet(7). if_nametoindex(3) would need a descriptor for
  /// each entry, and takes a shortage for a missing interface.
  private static func index(_ pointer: UnsafePointer<sockaddr>?) -> UInt32? {
    // SAFETY: getifaddrs gives nil, or an address that has the size of its family. The index is at byte 4 of a packet address.
    guard let pointer = unsafe pointer, Int32(unsafe pointer.pointee.sa_family) == AF_PACKET else { return nil }
    return unsafe UnsafeRawPointer(pointer).load(fromByteOffset: 4, as: UInt32.self)
  }

  /// `nil` for an entry without an IP address.
  private static func address(_ pointer: UnsafePointer<sockaddr>?) -> IPAddress? {
    // SAFETY: getifaddrs gives nil, or an address that has the size of its family.
    guard let pointer = unsafe pointer else { return nil }
    let length: Int
    switch Int32(unsafe pointer.pointee.sa_family) {
    case AF_INET: length = MemoryLayout<sockaddr_in>.size
    case AF_INET6: length = MemoryLayout<sockaddr_in6>.size
    default: return nil
    }
    return unsafe SocketAddress(copying: pointer, length: socklen_t(length)).flatMap { IPAddress($0) }
  }
}

extension IPAddress {
  fileprivate var setBits: Int {
    switch self {
    case .ipv4(let address): address.rawValue.nonzeroBitCount
    case .ipv6(let address): address.high.nonzeroBitCount + address.low.nonzeroBitCount
    }
  }
}

extension NetworkInterface.Flags {
  /// From the flags of netdevice(7).
  package init(kernel flags: Int) {
    let known: [(Int, Self)] = [
      (IFF_UP, .up), (IFF_RUNNING, .running), (IFF_LOOPBACK, .loopback), (IFF_POINTOPOINT, .pointToPoint),
      (IFF_MULTICAST, .multicast),
    ]
    self = known.reduce(into: []) { set, flag in if flags & flag.0 != 0 { set.insert(flag.1) } }
  }
}
