package import Glibc

// Converts addresses from and to the kernel's form: `sockaddr_in`, `sockaddr_in6` and `sockaddr_un`. Numbers in this form are big-endian.

extension SocketAddress {
  package var family: Int32 {
    switch self {
    case .ipv4: AF_INET
    case .ipv6: AF_INET6
    case .unix: AF_UNIX
    }
  }
}

// MARK: To the kernel

extension SocketAddress {
  /// The closure gets the address and its length in bytes. The pointer is valid until the closure returns.
  package func withKernelAddress<R: ~Copyable, E: Error>(
    _ body: (UnsafePointer<sockaddr>, socklen_t) throws(E) -> R
  ) throws(E) -> R {
    // SAFETY: each length is that of the form beside it; the closure guarantees not to keep the pointer.
    switch self {
    case .ipv4(let address, let port):
      return try unsafe Self.lend(
        Self.kernelForm(address, port: port), length: MemoryLayout<sockaddr_in>.size, to: body)
    case .ipv6(let address, let port):
      return try unsafe Self.lend(
        Self.kernelForm(address, port: port), length: MemoryLayout<sockaddr_in6>.size, to: body)
    case .unix(let path):
      let form = Self.kernelForm(path)
      return try unsafe Self.lend(form.storage, length: form.length, to: body)
    }
  }

  private static func lend<Form, R: ~Copyable, E: Error>(
    _ form: Form, length: Int, to body: (UnsafePointer<sockaddr>, socklen_t) throws(E) -> R
  ) throws(E) -> R {
    // SAFETY: every form is at least as large and as strictly aligned as sockaddr, begins with the family as it does,
    // and lives until the closure returns; the callers give the length of what they filled in.
    try unsafe withUnsafePointer(to: form) { (pointer) throws(E) -> R in
      try unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { (address) throws(E) -> R in
        try unsafe body(address, socklen_t(length))
      }
    }
  }

  private static func kernelForm(_ address: IPv4Address, port: UInt16) -> sockaddr_in {
    var form = sockaddr_in()
    form.sin_family = sa_family_t(AF_INET)
    form.sin_port = port.bigEndian
    form.sin_addr.s_addr = address.rawValue.bigEndian
    return form
  }

  private static func kernelForm(_ address: IPv6Address, port: UInt16) -> sockaddr_in6 {
    var form = sockaddr_in6()
    form.sin6_family = sa_family_t(AF_INET6)
    form.sin6_port = port.bigEndian
    form.sin6_scope_id = address.scopeID
    // SAFETY: in6_addr is 16 bytes, a union of integers of which any bits are a value; the stores are bounds-checked.
    unsafe withUnsafeMutableBytes(of: &form.sin6_addr) { bytes in
      unsafe bytes.storeBytes(of: address.high.bigEndian, toByteOffset: 0, as: UInt64.self)
      unsafe bytes.storeBytes(of: address.low.bigEndian, toByteOffset: 8, as: UInt64.self)
    }
    return form
  }

  /// The path followed by a NUL, the abstract name preceded by a NUL, or only the family, which means "unnamed". The form is a
  /// `sockaddr_storage`, which is larger than `sockaddr_un`: the kernel returns a path that fills `sun_path` with a NUL after it.
  private static func kernelForm(_ path: UnixPath) -> (storage: sockaddr_storage, length: Int) {
    var name = path.bytes
    if !path.isAbstract, !name.isEmpty, name.count <= UnixPath.maximumLength { name.append(0) }
    var form = sockaddr_storage()
    form.ss_family = sa_family_t(AF_UNIX)
    let room = MemoryLayout<sockaddr_storage>.size - pathOffset
    let fitting = name.prefix(room)
    // SAFETY: the name is cut to the room after the family; the copy is also bounds-checked.
    unsafe withUnsafeMutableBytes(of: &form) { bytes in
      unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[pathOffset...]).copyBytes(from: fitting)
    }
    return (form, pathOffset + fitting.count)
  }

  private static var pathOffset: Int { MemoryLayout<sa_family_t>.size }
}

// MARK: From the kernel

extension SocketAddress {
  /// Reads an address that the kernel filled in: accept(2), getsockname(2), recvfrom(2). The storage is initialised up to the length. A
  /// length greater than the storage counts as its size. Returns `nil` if the family is unknown, or if the length is too short for it. A
  /// peer without a name has length 0.
  package init?(storage: UnsafePointer<sockaddr_storage>, length: socklen_t) {
    let count = min(Int(length), MemoryLayout<sockaddr_storage>.size)
    // SAFETY: the caller guarantees the pointer and the length; no byte beyond them is read.
    unsafe self.init(kernelBytes: UnsafeRawBufferPointer(start: storage, count: count))
  }

  /// Reads an address from a list of the C library: getaddrinfo(3), getifaddrs(3). The caller guarantees that `length` bytes can be read.
  /// Returns `nil` if the pointer is nil, if the family is unknown, or if the length is too short for it.
  package init?(copying address: UnsafePointer<sockaddr>?, length: socklen_t) {
    // SAFETY: the caller guarantees the pointer and the length; a nil pointer has no bytes.
    guard let address = unsafe address else { return nil }
    unsafe self.init(kernelBytes: UnsafeRawBufferPointer(start: address, count: Int(length)))
  }

  /// The caller guarantees that the bytes can be read.
  private init?(kernelBytes bytes: UnsafeRawBufferPointer) {
    guard bytes.count >= MemoryLayout<sa_family_t>.size else { return nil }
    // SAFETY: loads and slices of the buffer are bounds-checked, and need no alignment.
    switch Int32(unsafe bytes.loadUnaligned(as: sa_family_t.self)) {
    case AF_INET:
      guard bytes.count >= MemoryLayout<sockaddr_in>.size else { return nil }
      let form = unsafe bytes.loadUnaligned(as: sockaddr_in.self)
      self = .ipv4(
        IPv4Address(rawValue: UInt32(bigEndian: form.sin_addr.s_addr)), port: UInt16(bigEndian: form.sin_port))
    case AF_INET6:
      guard bytes.count >= MemoryLayout<sockaddr_in6>.size else { return nil }
      let form = unsafe bytes.loadUnaligned(as: sockaddr_in6.self)
      self = .ipv6(Self.ipv6Address(form), port: UInt16(bigEndian: form.sin6_port))
    case AF_UNIX:
      self = .unix(Self.unixPath(unsafe bytes.dropFirst(Self.pathOffset).map { $0 }))
    default:
      return nil
    }
  }

  private static func ipv6Address(_ form: sockaddr_in6) -> IPv6Address {
    // SAFETY: in6_addr is 16 bytes, a union of integers of which any bits are a value; the loads are bounds-checked.
    unsafe withUnsafeBytes(of: form.sin6_addr) { bytes in
      IPv6Address(
        high: UInt64(bigEndian: unsafe bytes.loadUnaligned(fromByteOffset: 0, as: UInt64.self)),
        low: UInt64(bigEndian: unsafe bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)),
        scopeID: form.sin6_scope_id)
    }
  }

  /// Reads the content of `sun_path`: nothing, a NUL followed by an abstract name up to the end, or a path that may end with a NUL.
  private static func unixPath(_ bytes: [UInt8]) -> UnixPath {
    UnixPath(unchecked: bytes.first == 0 ? bytes : Array(bytes.prefix { $0 != 0 }))
  }
}
