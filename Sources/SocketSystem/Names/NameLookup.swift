import Glibc

package struct NameLookupError: Error, Hashable, Sendable {
  package enum Cause: Hashable, Sendable {
    /// The name has no address, or no address of the requested family.
    case noAddress
    /// The name server did not answer.
    case noAnswer
    /// The errno; 0 if no errno was set.
    case system(Int32)
  }

  package let cause: Cause
  package let message: String

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

  package static var unknownName: NameLookupError { NameLookupError(code: EAI_NONAME, errno: 0) }
}

/// Looks up addresses for stream sockets: getaddrinfo(3). It blocks the thread until the answer is there. `name` has no NUL bytes.
/// Returns at least one address, ordered by RFC 6724, each once, with port 0.
package func lookUpAddresses(of name: String, isIPv4: Bool) throws(NameLookupError) -> [SocketAddress] {
  try CurrentSystem.calls.addresses(of: name, isIPv4: isIPv4)
}
