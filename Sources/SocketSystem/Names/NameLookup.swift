import Glibc

/// A look-up that brought no address.
package struct NameLookupError: Error, Hashable, Sendable {
  /// What it comes to.
  package enum Cause: Hashable, Sendable {
    /// The name has no address, or none of the family.
    case noAddress
    /// Who should know did not answer.
    case noAnswer
    /// It could not be tried; the error number, or 0.
    case system(Int32)
  }

  package let cause: Cause
  /// What gai_strerror(3) says about it.
  package let message: String

  /// What a result of getaddrinfo(3) means.
  package init(code: Int32, errno: Int32) {
    // EAI_NODATA and EAI_ADDRFAMILY are hidden from those who do not ask for GNU's names.
    let (noData, addressFamily): (Int32, Int32) = (-5, -9)
    cause =
      switch code {
      case EAI_NONAME, noData, addressFamily: .noAddress
      case EAI_AGAIN, EAI_FAIL: .noAnswer
      case EAI_SYSTEM: .system(errno)
      default: .system(0)
      }
    // SAFETY: gai_strerror's texts are static and end with a NUL.
    message = unsafe String(cString: gai_strerror(code))
  }
}

/// getaddrinfo(3) for stream sockets: blocks the thread until the answer is there, which may take long.
///
/// - Parameters:
///   - name: The name; without NUL bytes.
///   - isIPv4: Which family to ask for: IPv4, or else IPv6.
/// - Returns: The addresses in the order that RFC 6724 gives them, all with port 0.
/// - Throws: Why there are none.
package func lookUpAddresses(of name: String, isIPv4: Bool) throws(NameLookupError) -> [SocketAddress] {
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
