internal import CLinux
import Glibc

/// An error that a host or a router reported about a sent datagram, with ICMP: RFC 792, RFC 4443.
package struct ReportedError: Sendable {
  package let errno: Int32
  package let destination: SocketAddress?
  package let reporter: IPAddress?
  /// In bytes, set only if the error is EMSGSIZE.
  package let largestPacket: Int?

  package init(errno: Int32, destination: SocketAddress, reporter: IPAddress, largestPacket: Int? = nil) {
    self.errno = errno
    self.destination = destination
    self.reporter = reporter
    self.largestPacket = largestPacket
  }

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
