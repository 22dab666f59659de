import Glibc

/// A socket option as the kernel names it: setsockopt(2), getsockopt(2). Users of the library have
/// `SocketOption`, which converts the value.
package struct RawOption: Hashable, Sendable {
  package let level: Int32
  package let name: Int32
}

extension RawOption {
  /// The value of `linger` for a number of seconds, with 0 of which close(2) resets; `nil` turns the option off.
  package static func lingerValue(seconds: Int32?) -> [UInt8] {
    Int32(seconds == nil ? 0 : 1).kernelBytes + (seconds ?? 0).kernelBytes
  }

  /// Returns whether close(2) of a socket with this option would wait for the peer.
  func blocksOnClose(with value: [UInt8]) -> Bool {
    let size = MemoryLayout<Int32>.size
    guard self == .linger, value.count >= 2 * size else { return false }
    return Int32(kernelBytes: value) != 0 && Int32(kernelBytes: Array(value.dropFirst(size))) != 0
  }
}

extension BorrowedDescriptor {
  /// Sets an option whose value is an `int`: setsockopt(2).
  package func set(_ option: RawOption, to value: Int32) throws(SystemError) {
    try call("setsockopt") { $0.setOption(option, of: number, to: value) }
  }

  /// Sets an option whose value has any type: setsockopt(2).
  package func set(_ option: RawOption, to bytes: [UInt8]) throws(SystemError) {
    try call("setsockopt") { $0.setOption(option, of: number, to: bytes) }
  }

  /// Returns the value of an option whose value is an `int`: getsockopt(2).
  package func get(_ option: RawOption) throws(SystemError) -> Int32 {
    let (result, value) = CurrentSystem.of(number) { $0.option(option, of: number) }
    try check(result, "getsockopt")
    return value
  }

  /// Returns the value of an option, at most `count` bytes: getsockopt(2).
  package func get(_ option: RawOption, atMost count: Int) throws(SystemError) -> [UInt8] {
    let (result, value) = CurrentSystem.of(number) { $0.option(option, of: number, atMost: count) }
    try check(result, "getsockopt")
    return value
  }

  /// Restricts the socket to the interface with this name: SO_BINDTODEVICE.
  package func bind(toDevice name: String) throws(SystemError) {
    try set(.device, to: Array(name.utf8))
  }

  /// Makes close(2) send RST and discard unsent bytes: SO_LINGER with a time of zero.
  package func resetOnClose() throws(SystemError) {
    try set(.linger, to: RawOption.lingerValue(seconds: 0))
  }

  /// Returns whether close(2) would wait for the peer, on any thread: SO_LINGER with a time above zero.
  package func blocksOnClose() throws(SystemError) -> Bool {
    RawOption.linger.blocksOnClose(with: try get(.linger, atMost: 2 * MemoryLayout<Int32>.size))
  }

  /// Makes close(2) return at once: SO_LINGER.
  package func stopBlockingOnClose() throws(SystemError) {
    try set(.linger, to: RawOption.lingerValue(seconds: nil))
  }

  /// Returns whether the socket is a byte stream: SO_TYPE.
  package func isStream() throws(SystemError) -> Bool {
    try get(.type) == Int32(SOCK_STREAM.rawValue)
  }

  /// Returns whether the socket is a TCP socket: SO_PROTOCOL. There are other byte streams, even over IP.
  package func isTCP() throws(SystemError) -> Bool {
    try get(.protocol) == Int32(IPPROTO_TCP)
  }
}
