import Glibc

/// The error of a name look-up that found no address.
package struct NameLookupError: Error, Hashable, Sendable {
  /// The cause of the error.
  package enum Cause: Hashable, Sendable {
    /// The name has no address, or no address of the requested family.
    case noAddress
    /// The name server did not answer.
    case noAnswer
    /// The look-up could not be made. The value is the errno, or 0 if no errno was set.
    case system(Int32)
  }

  package let cause: Cause
  /// The message of gai_strerror(3).
  package let message: String

  /// Creates the error that a result of getaddrinfo(3) stands for.
  package init(code: Int32, errno: Int32) {
    // Glibc declares EAI_NODATA and EAI_ADDRFAMILY only for programs that define _GNU_SOURCE.
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

  /// The error for a name that does not exist.
  package static var unknownName: NameLookupError { NameLookupError(code: EAI_NONAME, errno: 0) }
}

/// Looks up the addresses of a name for stream sockets: getaddrinfo(3). It blocks the thread until the answer is there,
/// which may take long.
///
/// - Parameters:
///   - name: The name, without NUL bytes.
///   - isIPv4: True to ask for IPv4 addresses, false to ask for IPv6 addresses.
/// - Returns: The addresses, ordered by RFC 6724, each once, with port 0.
/// - Throws: `NameLookupError` if there are no addresses.
package func lookUpAddresses(of name: String, isIPv4: Bool) throws(NameLookupError) -> [SocketAddress] {
  try CurrentSystem.calls.addresses(of: name, isIPv4: isIPv4)
}
