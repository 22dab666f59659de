import Glibc

/// A socket option as the kernel names it: setsockopt(2), getsockopt(2). Users of the library have
/// `SocketOption`, which converts the value.
package struct RawOption: Hashable, Sendable {
  package let level: Int32
  package let name: Int32
}

extension RawOption {
  /// With 0 seconds, close(2) resets the connection; `nil` turns the option off.
  package static func lingerValue(seconds: Int32?) -> [UInt8] {
    Int32(seconds == nil ? 0 : 1).kernelBytes + (seconds ?? 0).kernelBytes
  }

  /// Whether close(2) of a socket with this option would wait for the peer.
  func blocksOnClose(with value: [UInt8]) -> Bool {
    let size = MemoryLayout<Int32>.size
    guard self == .linger, value.count >= 2 * size else { return false }
    return Int32(kernelBytes: value) != 0 && Int32(kernelBytes: Array(value.dropFirst(size))) != 0
  }
}

extension BorrowedDescriptor {
  package func set(_ option: RawOption, to value: Int32) throws(SystemError) {
    try call("setsockopt") { $0.setOption(option, of: number, to: value) }
  }

  package func set(_ option: RawOption, to bytes: [UInt8]) throws(SystemError) {
    try call("setsockopt") { $0.setOption(option, of: number, to: bytes) }
  }

  package func get(_ option: RawOption) throws(SystemError) -> Int32 {
    let (result, value) = CurrentSystem.of(number) { $0.option(option, of: number) }
    try check(result, "getsockopt")
    return value
  }

  package func get(_ option: RawOption, atMost count: Int) throws(SystemError) -> [UInt8] {
    let (result, value) = CurrentSystem.of(number) { $0.option(option, of: number, atMost: count) }
    try check(result, "getsockopt")
    return value
  }

  package func bind(toDevice name: String) throws(SystemError) {
    try set(.device, to: Array(name.utf8))
  }

  /// close(2) then sends RST and discards unsent bytes.
  package func resetOnClose() throws(SystemError) {
    try set(.linger, to: RawOption.lingerValue(seconds: 0))
  }

  /// Whether close(2) would wait for the peer, on any thread: SO_LINGER with a time above zero.
  package func blocksOnClose() throws(SystemError) -> Bool {
    RawOption.linger.blocksOnClose(with: try get(.linger, atMost: 2 * MemoryLayout<Int32>.size))
  }

  package func stopBlockingOnClose() throws(SystemError) {
    try set(.linger, to: RawOption.lingerValue(seconds: nil))
  }

  package func isStream() throws(SystemError) -> Bool {
    try get(.type) == Int32(SOCK_STREAM.rawValue)
  }

  /// There are other byte streams, even over IP.
  package func isTCP() throws(SystemError) -> Bool {
    try get(.protocol) == Int32(IPPROTO_TCP)
  }
}
