public import ActorSockets
internal import Glibc
public import NIOCore

// Addresses of ActorSockets and of NIO. Each has what the other lacks:
//
// - NIO passes the whole sockaddr_un to the kernel. The length of an abstract name is part of it, see unix(7), so NIO has other abstract
//   names than all other programs. They are not converted.
// - NIO's names of unix sockets are bytes; those of ActorSockets are text.
// - NIO's IPv6 addresses have a flow label, which the kernel ignores unless a socket asks for it. It is dropped.
// - NIO's IP addresses may have the name of the host that was looked up. It is dropped.

/// An address that has no counterpart.
public struct AddressConversionError: Error, CustomStringConvertible {
  /// Why, in one sentence.
  public let description: String
}

extension NIOCore.SocketAddress {
  /// Converts an address of ActorSockets. The scope of an IPv6 address is kept. A unix socket without a name has the empty path.
  ///
  /// - Parameter address: The address.
  /// - Throws: ``AddressConversionError`` if it is an abstract name, which NIO cannot pass to the kernel.
  public init(_ address: ActorSockets.SocketAddress) throws(AddressConversionError) {
    switch address {
    case .ipv4(let ip, let port):
      var result = sockaddr_in()
      result.sin_family = sa_family_t(AF_INET)
      result.sin_port = port.bigEndian
      result.sin_addr = in_addr(s_addr: ip.rawValue.bigEndian)
      self.init(result, host: "")
    case .ipv6(let ip, let port):
      var result = sockaddr_in6()
      result.sin6_family = sa_family_t(AF_INET6)
      result.sin6_port = port.bigEndian
      result.sin6_scope_id = ip.scopeID
      // SAFETY: a pointer to a local variable, used within the call only. Both have 16 bytes.
      unsafe withUnsafeMutableBytes(of: &result.sin6_addr) { unsafe $0.copyBytes(from: ip.bytes) }
      self.init(result, host: "")
    case .unix(let path) where path.isAbstract:
      throw AddressConversionError(
        description: "\(path) is an abstract name; NIO has no length for it, so it would be another name")
    case .unix(let path):
      var result = sockaddr_un()
      result.sun_family = sa_family_t(AF_UNIX)
      // SAFETY: a pointer to a local variable, used within the call only. It has 108 bytes, and a path at most 107.
      unsafe withUnsafeMutableBytes(of: &result.sun_path) { unsafe $0.copyBytes(from: path.bytes) }
      self.init(result)
    @unknown default:
      throw AddressConversionError(description: "NIO has no addresses of the family of \(address)")
    }
  }
}

extension ActorSockets.SocketAddress {
  /// Converts an address of NIO. The scope of an IPv6 address is kept. The empty path is a unix socket without a name.
  ///
  /// - Parameter address: The address.
  /// - Throws: ``AddressConversionError`` if it is an abstract name, or a path longer than 107 bytes.
  public init(_ address: NIOCore.SocketAddress) throws(AddressConversionError) {
    switch address {
    case .v4(let ip):
      let kernel = ip.address
      self = .ipv4(
        IPv4Address(rawValue: UInt32(bigEndian: kernel.sin_addr.s_addr)), port: UInt16(bigEndian: kernel.sin_port))
    case .v6(let ip):
      let kernel = ip.address
      // SAFETY: the bytes are copied within the call.
      let bytes = unsafe withUnsafeBytes(of: kernel.sin6_addr) { unsafe Array($0) }
      guard let result = IPv6Address(bytes: bytes, scopeID: kernel.sin6_scope_id) else {
        throw AddressConversionError(description: "an IPv6 address has 16 bytes")
      }
      self = .ipv6(result, port: UInt16(bigEndian: kernel.sin6_port))
    case .unixDomainSocket(let path):
      // SAFETY: the bytes are copied within the call.
      self = .unix(try Self.unixPath(unsafe withUnsafeBytes(of: path.address.sun_path) { unsafe Array($0) }))
    }
  }

  /// Converts the bytes of sun_path.
  private static func unixPath(_ bytes: [UInt8]) throws(AddressConversionError) -> UnixPath {
    let name = bytes.prefix { $0 != 0 }
    if name.isEmpty, bytes.contains(where: { $0 != 0 }) {
      throw AddressConversionError(
        description: "it is an abstract name; NIO has no length for it, so its end is not known")
    }
    do {
      return try UnixPath(bytes: Array(name))
    } catch {
      throw AddressConversionError(description: "\(error)")
    }
  }
}
