import Glibc

// An option is a value. It says where the kernel keeps the option, and converts between a Swift value and the kernel's bytes. A value
// outside of the option's range is refused here with an explanation, not by the kernel with EINVAL.
//
// Some options (the type of service, the time to live) have one name for IPv4 and one for IPv6. An IPv6 socket that serves both families
// sends each packet with the option of the packet's family, so both options are set.

/// A socket option whose value has a Swift type: setsockopt(2), getsockopt(2), socket(7), tcp(7), ip(7).
///
/// ```swift
/// try await connection.set(.keepAliveIdle, to: .seconds(20))
/// let room = try await connection.get(.sendBufferSize)
/// ```
///
/// To use an option without a name here, pass its numbers, which `import Glibc` defines:
/// `SocketOption<Int32>(level: SOL_SOCKET, name: SO_INCOMING_CPU)`.
public struct SocketOption<Value: Sendable>: Sendable {
  /// For error messages.
  package let name: String
  private let option: KernelOption
  /// The greatest size of the kernel's value, in bytes.
  private let size: Int
  private let encode: @Sendable (Value) throws(SocketOptionError) -> [UInt8]
  private let decode: @Sendable ([UInt8]) -> Value

  init(
    _ name: String, _ option: KernelOption, size: Int = MemoryLayout<Int32>.size,
    encode: @escaping @Sendable (Value) throws(SocketOptionError) -> [UInt8],
    decode: @escaping @Sendable ([UInt8]) -> Value
  ) {
    self.name = name
    self.option = option
    self.size = size
    self.encode = encode
    self.decode = decode
  }

  package func set(_ value: Value, on socket: BorrowedDescriptor) throws(SocketOptionError) {
    let bytes = try encode(value)
    if case .single(let rawOption) = option, rawOption.blocksOnClose(with: bytes) {
      throw .outOfRange(
        "with SO_LINGER above 0, closing the socket would block the reactor's thread; close() waits without that")
    }
    do {
      for rawOption in try option.optionsToSet(on: socket) { try socket.set(rawOption, to: bytes) }
    } catch {
      throw .system(error)
    }
  }

  package func value(on socket: BorrowedDescriptor) throws(SocketOptionError) -> Value {
    do {
      return decode(try socket.get(option.optionToRead(on: socket), atMost: size))
    } catch {
      throw .system(error)
    }
  }
}

package enum SocketOptionError: Error {
  /// The text says why.
  case outOfRange(String)
  case system(SystemError)
}

enum KernelOption: Sendable {
  case single(RawOption)
  case perFamily(ipv4: RawOption, ipv6: RawOption)

  static func perFamily(_ option: (_ isIPv4: Bool) -> RawOption) -> KernelOption {
    .perFamily(ipv4: option(true), ipv6: option(false))
  }

  /// Every option that affects a packet of the socket.
  fileprivate func optionsToSet(on socket: BorrowedDescriptor) throws(SystemError) -> [RawOption] {
    guard case .perFamily(let ipv4, let ipv6) = self else { return [try optionToRead(on: socket)] }
    switch try socket.get(.domain) {
    case AF_INET: return [ipv4]
    case AF_INET6: return try socket.get(.ipv6Only) == 0 ? [ipv6, ipv4] : [ipv6]
    default: throw SystemError(call: "setsockopt", errno: EOPNOTSUPP)
    }
  }

  /// The option for packets to the socket's peer.
  fileprivate func optionToRead(on socket: BorrowedDescriptor) throws(SystemError) -> RawOption {
    switch self {
    case .single(let option): return option
    case .perFamily(let ipv4, let ipv6):
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
  /// Creates an option from its numbers. Its value is one C `int`.
  ///
  /// - Parameters:
  ///   - level: The protocol level, for example `SOL_SOCKET`.
  ///   - name: The number of the option, for example `SO_INCOMING_CPU`.
  public init(level: Int32, name: Int32) {
    self.init("option \(name) of level \(level)", .single(RawOption(level: level, name: name))) {
      $0.kernelBytes
    } decode: {
      Int32(kernelBytes: $0)
    }
  }
}

extension SocketOption where Value == [UInt8] {
  /// Creates an option from its numbers. Its value is the kernel's bytes.
  ///
  /// - Parameters:
  ///   - level: The protocol level, for example `SOL_SOCKET`.
  ///   - name: The number of the option, for example `SO_PEERCRED`.
  ///   - maximumLength: The greatest number of bytes to read. A negative number counts as 0.
  public init(level: Int32, name: Int32, maximumLength: Int) {
    self.init(
      "option \(name) of level \(level)", .single(RawOption(level: level, name: name)), size: max(0, maximumLength)
    ) {
      $0
    } decode: {
      $0
    }
  }
}
