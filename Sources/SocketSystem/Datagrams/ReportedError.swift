internal import CLinux
import Glibc

/// An error that somebody on the way reported about a datagram: ICMP, RFC 792, RFC 4443.
package struct ReportedError: Sendable {
  package let errno: Int32
  /// Where the datagram went.
  package let destination: SocketAddress?
  /// Who reported it.
  package let reporter: IPAddress?
  /// The largest packet that passes, if that is the error.
  package let largestPacket: Int?

  init(_ entry: clinux_socket_error) {
    errno = entry.error
    destination = Self.address(entry.destination, entry.destination_length)
    reporter = Self.address(entry.reporter, entry.reporter_length).flatMap { IPAddress($0) }
    largestPacket = entry.error == EMSGSIZE ? Int(entry.info) : nil
  }

  private static func address<Storage>(_ storage: Storage, _ length: UInt32) -> SocketAddress? {
    // SAFETY: the arrays have the size and the alignment of a sockaddr_storage, and are filled up to the lengths.
    unsafe withUnsafePointer(to: storage) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr_storage.self, capacity: 1) {
        unsafe SocketAddress(storage: $0, length: length)?.unmapped
      }
    }
  }
}
