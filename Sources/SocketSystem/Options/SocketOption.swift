import Glibc

// An option is a value: where the kernel keeps it, and how a Swift value becomes the kernel's bytes and back. What is out of
// its range is refused here, in words, and not by the kernel with EINVAL.
//
// Options with an address family (the type of service, the time to live) have a name for IPv4 and one for IPv6. An IPv6
// socket that serves both families sends each packet by the option of that packet's family, so both are set.

/// A socket option with a value of a Swift type: setsockopt(2), getsockopt(2), socket(7), tcp(7), ip(7).
///
/// ```swift
/// try await connection.set(.keepAliveIdle, to: .seconds(20))
/// let room = try await connection.get(.sendBufferSize)
/// ```
///
/// What is not in the list is reached by its numbers, which `import Glibc` has:
/// `SocketOption<Int32>(level: SOL_SOCKET, name: SO_INCOMING_CPU)`.
public struct SocketOption<Value: Sendable>: Sendable {
  /// What it is called in errors.
  package let name: String
  private let place: OptionPlace
  /// The most bytes that the kernel's value has.
  private let size: Int
  private let encode: @Sendable (Value) throws(SocketOptionError) -> [UInt8]
  private let decode: @Sendable ([UInt8]) -> Value

  init(
    _ name: String, _ place: OptionPlace, size: Int = MemoryLayout<Int32>.size,
    encode: @escaping @Sendable (Value) throws(SocketOptionError) -> [UInt8],
    decode: @escaping @Sendable ([UInt8]) -> Value
  ) {
    self.name = name
    self.place = place
    self.size = size
    self.encode = encode
    self.decode = decode
  }

  /// setsockopt(2)
  package func set(_ value: Value, on socket: Socket) throws(SocketOptionError) {
    let bytes = try encode(value)
    do {
      for option in try place.settable(on: socket) { try socket.set(option, to: bytes) }
    } catch {
      throw .system(error)
    }
  }

  /// getsockopt(2)
  package func value(on socket: Socket) throws(SocketOptionError) -> Value {
    do {
      return decode(try socket.get(place.readable(on: socket), atMost: size))
    } catch {
      throw .system(error)
    }
  }
}

/// Why an option was not set or read.
package enum SocketOptionError: Error {
  /// The value is none that the option can have; the text says why.
  case outOfRange(String)
  /// The kernel refused.
  case system(SystemError)
}

/// Where the kernel keeps an option.
enum OptionPlace: Sendable {
  case same(RawOption)
  case ofFamily(ipv4: RawOption, ipv6: RawOption)

  static func socket(_ name: Int32) -> OptionPlace { .same(RawOption(level: SOL_SOCKET, name: name)) }
  static func tcp(_ name: Int32) -> OptionPlace { .same(RawOption(level: Int32(IPPROTO_TCP), name: name)) }
  static func ip(_ ipv4: Int32, _ ipv6: Int32) -> OptionPlace {
    .ofFamily(
      ipv4: RawOption(level: Int32(IPPROTO_IP), name: ipv4), ipv6: RawOption(level: Int32(IPPROTO_IPV6), name: ipv6))
  }

  /// What is to be set on a socket: all that its packets are sent by.
  fileprivate func settable(on socket: Socket) throws(SystemError) -> [RawOption] {
    guard case .ofFamily(let ipv4, let ipv6) = self else { return [try readable(on: socket)] }
    switch try socket.get(.domain) {
    case AF_INET: return [ipv4]
    case AF_INET6: return try socket.get(.ipv6Only) == 0 ? [ipv6, ipv4] : [ipv6]
    default: throw SystemError(call: "setsockopt", errno: EOPNOTSUPP)
    }
  }

  /// What the packets to the socket's peer are sent by.
  fileprivate func readable(on socket: Socket) throws(SystemError) -> RawOption {
    switch self {
    case .same(let option): return option
    case .ofFamily(let ipv4, let ipv6):
      switch try socket.get(.domain) {
      case AF_INET: return ipv4
      case AF_INET6: return (try? socket.remoteAddress())?.unmapped.isIPv4 == true ? ipv4 : ipv6
      default: throw SystemError(call: "getsockopt", errno: EOPNOTSUPP)
      }
    }
  }
}

// MARK: - What is not in the list

extension SocketOption where Value == Int32 {
  /// An option by its numbers, whose value is one C `int`.
  ///
  /// - Parameters:
  ///   - level: For example `SOL_SOCKET`.
  ///   - name: For example `SO_INCOMING_CPU`.
  public init(level: Int32, name: Int32) {
    self.init("option \(name) of level \(level)", .same(RawOption(level: level, name: name))) {
      $0.kernelBytes
    } decode: {
      Int32(kernelBytes: $0)
    }
  }
}

extension SocketOption where Value == [UInt8] {
  /// An option by its numbers, whose value is what it is in memory.
  ///
  /// - Parameters:
  ///   - level: For example `SOL_SOCKET`.
  ///   - name: For example `SO_PEERCRED`.
  ///   - maximumLength: The most bytes that getting it brings; a negative number is 0.
  public init(level: Int32, name: Int32, maximumLength: Int) {
    self.init(
      "option \(name) of level \(level)", .same(RawOption(level: level, name: name)), size: max(0, maximumLength)
    ) {
      $0
    } decode: {
      $0
    }
  }
}
