import Glibc

/// A look-up that brought no address.
package struct NameLookupError: Error, Hashable, Sendable {
  /// The code of getaddrinfo(3), for example `EAI_NONAME`.
  package let code: Int32
  /// What gai_strerror(3) says about it.
  package let message: String
  /// Whether trying again later may help: `EAI_AGAIN`.
  package var isTemporary: Bool { code == EAI_AGAIN }
}

/// getaddrinfo(3) for stream sockets: blocks the thread until the answer is there, which may take long.
///
/// - Parameter name: The name; without NUL bytes.
/// - Returns: The addresses in the order that RFC 6724 gives them, all with port 0.
/// - Throws: Why there are none.
package func lookUpAddresses(of name: String) throws(NameLookupError) -> [SocketAddress] {
  var hints = unsafe addrinfo()
  unsafe hints.ai_family = AF_UNSPEC
  unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
  var list: UnsafeMutablePointer<addrinfo>?
  // SAFETY: `hints` and `list` are valid for the call; the list is freed once, below.
  let code = unsafe getaddrinfo(name, nil, &hints, &list)
  guard code == 0 else { throw NameLookupError(code: code, message: unsafe String(cString: gai_strerror(code))) }
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
